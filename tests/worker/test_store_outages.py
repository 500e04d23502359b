"""What the log says while the store is away."""

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from redrive.errors import CommitUnknownError, StoreUnavailableError, StoreUnusableError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.worker import store_outages
from redrive.worker.store_outages import log_outage, log_recovery


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    store_outages._outages.clear()
    yield
    store_outages._outages.clear()


def test_an_outage_is_told_of_now_and_then_and_its_end_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.DEBUG, logger="redrive"):
        for _ in range(50):
            log_outage("postgresql://db/app", StoreUnavailableError("refused, password=hunter2"))
        monkeypatch.setattr(store_outages, "LOG_EVERY", 0.0)
        log_outage("postgresql://db/app", StoreUnavailableError("refused"))
        log_recovery("postgresql://db/app")
        log_recovery("postgresql://db/app")
    first, still, back = [record.getMessage() for record in caplog.records]
    said = "refused, password=***; nothing is lost, and work resumes when it is back"
    assert first == f"the store postgresql://db/app is unavailable: {said}"
    assert still.startswith("the store postgresql://db/app is unavailable for 0s now: refused;")
    assert back.startswith("the store postgresql://db/app is back after ")


def test_a_store_that_comes_and_goes_is_not_told_of_each_time_but_one_that_stays_away_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = 1000.0
    monkeypatch.setattr(store_outages, "SYSTEM_CLOCK", SimpleNamespace(monotonic=lambda: time))
    told: list[tuple[float, str]] = []

    def happens(what: Callable[..., None], *args: object) -> None:
        what("sqlite:///full.db", *args)
        told.extend((time - 1000, record.getMessage().split(": ")[0]) for record in caplog.records)
        caplog.clear()

    with caplog.at_level(logging.DEBUG, logger="redrive"):
        for _ in range(20):
            happens(log_outage, "the disk is full")
            time += 0.5
            happens(log_recovery)
            time += 0.5
        for _ in range(8):
            happens(log_outage, "the disk is full")
            time += 1
        happens(log_recovery)
    assert told == [
        (0, "the store sqlite:///full.db is unavailable"),
        (0.5, "the store sqlite:///full.db is back after 500ms"),
        (25, "the store sqlite:///full.db is unavailable for 5s now"),
        (28, "the store sqlite:///full.db is back after 8s"),
    ]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (StoreUnavailableError("x"), "transient"),
        (CommitUnknownError("x"), "unknown"),
        (StoreUnusableError("x"), "permanent"),
    ],
)
def test_errors_of_the_store_are_classified(error: Exception, category: str) -> None:
    assert DEFAULT_CLASSIFIER.failure_of(error, 0.0).category == category

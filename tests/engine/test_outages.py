"""What the log says while the store is away."""

import logging

import pytest

from redrive.engine import outages
from redrive.engine.outages import store_is_away, store_is_back
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.stores.errors import CommitUnknown, StoreUnavailable, StoreUnusable


def test_an_outage_is_told_of_now_and_then_and_its_end_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.DEBUG, logger="redrive"):
        for _ in range(50):
            store_is_away("postgresql://db/app", StoreUnavailable("refused, password=hunter2"))
        monkeypatch.setattr(outages, "TELL_EVERY", 0.0)
        store_is_away("postgresql://db/app", StoreUnavailable("refused"))
        store_is_back("postgresql://db/app")
        store_is_back("postgresql://db/app")
    first, still, back = [record.getMessage() for record in caplog.records]
    assert first == (
        "the store postgresql://db/app is away: refused, password=***; nothing is lost, and work goes on when it is "
        "back"
    )
    assert still.startswith("the store postgresql://db/app is away for 0s now: refused;")
    assert back.startswith("the store postgresql://db/app is back after ")


@pytest.mark.parametrize(
    ("error", "category"),
    [(StoreUnavailable("x"), "transient"), (CommitUnknown("x"), "unknown"), (StoreUnusable("x"), "permanent")],
)
def test_errors_of_the_store_are_classified(error: Exception, category: str) -> None:
    assert DEFAULT_CLASSIFIER.failure_of(error, 0.0).category == category

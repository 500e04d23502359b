"""A failure as data: what of it leaves the process."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from msgspec import structs

import redrive
from redrive.failures.failure import Failure


class Busy(ConnectionError):
    """Like many exceptions it cannot be unpickled: it does not take its own `args`."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is busy")


def busy_then_refused() -> None:
    errors = iter([Busy("db", 5432), ConnectionError("refused")])

    @redrive.retry(attempts=2, backoff=0, floor=0, jitter="none")
    def connect() -> None:
        raise next(errors)

    connect()


def test_a_guarded_function_tells_its_error_and_its_attempts_through_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(ConnectionError, match="refused") as caught:
            pool.submit(busy_then_refused).result(timeout=60)
        assert pool.submit(len, "abc").result(timeout=60) == 3
    report = redrive.report_of(caught.value)
    assert report is not None
    assert [record.failure.message for record in report.attempts] == ["db:5432 is busy", "refused"]


def test_a_pickled_failure_has_everything_but_the_live_error() -> None:
    failure = Failure(
        category="transient",
        reason="status 429",
        kind="result",
        type="Busy",
        lineage=("Busy", "OSError"),
        message="busy",
        status=429,
        retry_after=2.5,
        retry_after_note="odd",
        not_sent=True,
        unsafe_to_repeat=True,
        asks_for_retry=True,
        marked_permanent=True,
        poison=True,
        error=Busy("db", 5432),
    )
    there = pickle.loads(pickle.dumps(failure))  # noqa: S301 - our own bytes
    assert there == structs.replace(failure, error=None)

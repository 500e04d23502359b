"""Loops over attempts that are left or cancelled halfway."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

import redrive
from redrive.determinism.clock import SystemClock, use_clock
from redrive.testing import virtual_clock


def test_a_loop_in_a_generator_goes_round_again_after_a_failure() -> None:
    def rows() -> Iterator[int]:
        for attempt in redrive.attempts(attempts=3):
            with attempt:
                yield attempt.number
                if attempt.number < 3:
                    raise ConnectionError

    with virtual_clock():
        assert list(rows()) == [1, 2, 3]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupted_wait_gives_its_retry_back_to_the_budget(is_async: bool) -> None:
    dependency = redrive.resilience.Dependency("payments", circuit=None, budget=redrive.resilience.Budget())
    settings: Any = {"dependency": dependency, "backoff": 5, "deadline": None}

    class Interrupted(SystemClock):
        def sleep_until(self, when: float) -> None:
            raise KeyboardInterrupt

        async def asleep_until(self, when: float) -> None:
            raise asyncio.CancelledError

    def loop() -> None:
        for attempt in redrive.attempts(**settings):
            with attempt:
                raise ConnectionError

    async def async_loop() -> None:
        async for attempt in redrive.attempts(**settings):
            with attempt:
                raise ConnectionError

    assert dependency.budget is not None
    before = dependency.budget.left(time.monotonic())
    with use_clock(Interrupted()), pytest.raises((KeyboardInterrupt, asyncio.CancelledError)) as kept:
        asyncio.run(async_loop()) if is_async else loop()
    assert dependency.budget.left(time.monotonic()) == before
    # What was interrupted lives as long as the traceback.
    del kept


@pytest.mark.parametrize("is_async", [False, True])
def test_a_loop_that_is_left_before_its_attempt_does_not_keep_the_probe(is_async: bool) -> None:
    circuit = redrive.resilience.Circuit("payments", redrive.CircuitSettings(failures=1))
    payments = redrive.Retrier(attempts=1, dependency=redrive.resilience.Dependency("payments", circuit, None))

    def fail() -> None:
        raise ConnectionError

    def leave() -> None:
        for _attempt in payments.attempts():
            break
        assert payments.call(lambda: "paid") == "paid"

    async def leave_async() -> None:
        async for _attempt in payments.attempts():
            break
        assert payments.call(lambda: "paid") == "paid"

    with virtual_clock() as clock:
        with pytest.raises(ConnectionError):
            payments.call(fail)
        clock.advance(31)
        asyncio.run(leave_async()) if is_async else leave()


def test_an_attempt_that_outlives_its_loop_still_raises_its_error() -> None:
    attempt = next(iter(redrive.attempts(attempts=3)))
    with pytest.raises(ConnectionError), attempt:
        raise ConnectionError

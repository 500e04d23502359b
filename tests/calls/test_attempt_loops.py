"""Loops over attempts that are left, cancelled, or suspended halfway."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import redrive
from redrive.testing import VirtualClock, virtual_clock


def consumers_attempts(clock: VirtualClock) -> int:
    """How many attempts a guarded call of the consumer makes, long after the generator's own deadline."""
    clock.advance(60)
    made = []

    @redrive.retry(attempts=3)
    def save() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        save()
    return len(made)


def test_what_a_consumer_calls_between_two_rows_has_its_own_retries_and_time() -> None:
    def rows() -> Iterator[int]:
        for attempt in redrive.attempts(attempts=3, deadline=5):
            with attempt:
                yield 1
                yield 2

    with virtual_clock() as clock:
        made = [consumers_attempts(clock) for _row in rows()]
    assert made == [3, 3]


def test_a_slow_consumer_of_an_async_generator_is_not_cut() -> None:
    async def rows() -> AsyncIterator[int]:
        async for attempt in redrive.attempts(attempts=3, deadline=5):
            with attempt:
                yield 1
                yield 2

    with virtual_clock() as clock:

        async def main() -> list[int]:
            made = []
            async for _row in rows():
                await clock.asleep(10)
                made.append(consumers_attempts(clock))
            return made

        assert asyncio.run(main()) == [3, 3]


def test_a_loop_in_a_generator_goes_round_again_after_a_failure() -> None:
    def rows() -> Iterator[int]:
        for attempt in redrive.attempts(attempts=3):
            with attempt:
                yield attempt.number
                if attempt.number < 3:
                    raise ConnectionError

    with virtual_clock():
        assert list(rows()) == [1, 2, 3]


def test_a_timeout_that_would_cut_the_consumer_of_an_async_generator_is_refused() -> None:
    async def rows() -> AsyncIterator[int]:
        async for attempt in redrive.attempts(attempt_timeout=5):
            with attempt:
                yield 1

    async def main() -> None:
        with pytest.raises(TypeError, match="attempt_timeout cannot cut the body in an async generator"):
            await anext(aiter(rows()))

    asyncio.run(main())

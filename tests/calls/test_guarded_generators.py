"""Generators that are guarded with `generators="restart"`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio

import redrive
from redrive.testing import VirtualClock, virtual_clock


class ConflictError(Exception):
    status_code = 409


def test_the_state_is_read_again_before_a_generator_restarts_after_a_conflict() -> None:
    story: list[str] = []

    @redrive.retry(generators="restart", reread=lambda: story.append("reread"))
    def rows() -> Iterator[str]:
        story.append("begin")
        if story.count("begin") < 2:
            raise ConflictError
        yield "row"

    with virtual_clock():
        assert list(rows()) == ["row"]
    assert story == ["begin", "reread", "begin"]
    story.clear()

    async def reread() -> None:
        story.append("reread")

    @redrive.retry(generators="restart", reread=reread)
    async def async_rows() -> AsyncIterator[str]:
        for row in rows.__wrapped__():  # type: ignore[attr-defined]
            yield row

    async def main() -> list[str]:
        return [row async for row in async_rows()]

    with virtual_clock():
        assert asyncio.run(main()) == ["row"]
    assert story == ["begin", "reread", "begin"]


async def hang_at_once(clock: VirtualClock) -> AsyncIterator[int]:
    await clock.asleep(3600)
    yield 1


async def hang_after_an_item(clock: VirtualClock) -> AsyncIterator[int]:
    yield 1
    await clock.asleep(3600)


async def hang_when_thrown_at(clock: VirtualClock) -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        await clock.asleep(3600)


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
@pytest.mark.parametrize("rows", [hang_at_once, hang_after_an_item, hang_when_thrown_at])
def test_an_async_generator_that_hangs_is_cut_at_its_deadline(rows: Any, run: Callable[[Any], None]) -> None:
    with virtual_clock() as clock:

        async def main() -> None:
            items = redrive.retry(generators="restart", deadline=10)(rows)(clock)
            if rows is not hang_at_once:
                await anext(items)
            following = items.athrow(ValueError) if rows is hang_when_thrown_at else items.asend(None)
            with pytest.raises(redrive.DeadlineExceededError):
                await following
            assert clock.now == 10

        run(main)


def test_the_time_a_consumer_takes_is_not_taken_from_an_async_generator() -> None:
    @redrive.retry(generators="restart", deadline=10)
    async def rows(clock: VirtualClock) -> AsyncIterator[int]:
        yield 1
        await clock.asleep(4)
        yield 2
        await clock.asleep(4)

    with virtual_clock() as clock:

        async def main() -> float:
            async for _row in rows(clock):
                await clock.asleep(60)
            return clock.now

        assert asyncio.run(main()) == 128


def test_a_generator_sees_all_that_its_consumer_throws_at_it() -> None:
    """As a context manager does that rolls back what was interrupted."""
    story: list[str] = []

    @contextlib.contextmanager
    @redrive.retry(generators="restart")
    def transaction() -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, ValueError) as error:
            story.append(type(error).__name__)
            raise

    for kind in (ValueError, KeyboardInterrupt):
        with pytest.raises(kind), transaction():
            raise kind
    assert story == ["ValueError", "KeyboardInterrupt"]


def test_an_async_generator_sees_that_its_consumer_was_cancelled() -> None:
    story: list[str] = []

    @contextlib.asynccontextmanager
    @redrive.retry(generators="restart")
    async def transaction() -> AsyncIterator[None]:
        try:
            yield
        except (asyncio.CancelledError, trio.Cancelled):
            story.append("rolled back")
            raise

    async def in_asyncio() -> None:
        async with asyncio.timeout(0), transaction():
            await asyncio.Event().wait()

    async def in_trio() -> None:
        with trio.move_on_after(0):
            async with transaction():
                await trio.sleep_forever()

    with pytest.raises(TimeoutError):
        asyncio.run(in_asyncio())
    trio.run(in_trio)
    assert story == ["rolled back", "rolled back"]

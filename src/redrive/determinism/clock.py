"""The clock every wait and every deadline is measured with; a test puts its own in place for its context."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from redrive.determinism import event_loops

T = TypeVar("T")

# A longer wait is slept in pieces: some platforms refuse larger arguments.
LONGEST_NAP = 3600.0


class CutShort(TimeoutError):
    """What ran was still running when its time came, and was cancelled."""


class Clock(Protocol):
    """Reads time and waits. `monotonic` measures waits and deadlines, `wall` is the calendar (seconds since 1970)."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def sleep_until(self, when: float) -> None:
        """Block this thread until `monotonic()` reaches `when`."""
        ...

    async def asleep_until(self, when: float) -> None:
        """Suspend this task until `monotonic()` reaches `when`; cancelling the task ends the wait at once."""
        ...

    async def run_until(self, when: float, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work()`; if it still runs when `monotonic()` reaches `when`, cancel it and raise CutShort."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def sleep_until(self, when: float) -> None:
        while (left := when - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_NAP))

    async def asleep_until(self, when: float) -> None:
        sleep = event_loops.sleep_function()
        await sleep(max(0.0, min(when - time.monotonic(), LONGEST_NAP)))
        while (left := when - time.monotonic()) > 0:
            await sleep(min(left, LONGEST_NAP))

    async def run_until(self, when: float, work: Callable[[], Awaitable[T]]) -> T:
        left = max(0.0, when - time.monotonic())
        if event_loops.under_trio():
            import trio

            with trio.move_on_after(left) as scope:
                return await work()
            if not scope.cancelled_caught:
                raise AssertionError("trio left the scope without a result and without cancelling it")
            raise CutShort
        import asyncio

        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await work()
        except TimeoutError as error:
            if limit.expired() and isinstance(error.__cause__, asyncio.CancelledError):
                raise CutShort from None
            raise


SYSTEM_CLOCK = SystemClock()
_clock: ContextVar[Clock] = ContextVar("redrive_clock", default=SYSTEM_CLOCK)


def current_clock() -> Clock:
    return _clock.get()


@contextmanager
def use_clock(clock: Clock) -> Iterator[Clock]:
    """Make `clock` the current one for this context, and for the tasks and threads that inherit it."""
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)

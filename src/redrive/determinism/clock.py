"""The clock every wait and every deadline is measured with; a test puts its own in place for its context."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol, TypeVar

from redrive.determinism import event_loops
from redrive.determinism.event_loops import Late
from redrive.determinism.thread_cut import call_in_thread

T = TypeVar("T")

# A longer wait is slept in pieces: some platforms refuse larger arguments.
LONGEST_NAP = 3600.0
# Nobody tells when the calendar is set, or that the machine slept: after so many seconds one looks again.
LOOK_AGAIN = 5.0
_NOTHING = nullcontext()


class Clock(Protocol):
    """Reads time and waits. `monotonic` measures waits and deadlines, `wall` is the calendar (seconds since 1970)."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def sleep_until(self, when: float) -> None:
        """Block this thread until `monotonic()` reaches `when`."""
        ...

    def call_until(self, when: float, work: Callable[[], T]) -> T:
        """Call `work`; when it still runs as `monotonic()` reaches `when`, raise CutShort without waiting for it."""
        ...

    async def asleep_until(self, when: float) -> None:
        """Suspend this task until `monotonic()` reaches `when`; cancelling the task ends the wait at once."""
        ...

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        """For `with` inside an async task: what still runs when `monotonic()` reaches `when` is cancelled.

        Leaving the block then raises CutShort in place of the cancellation. Under asyncio, `late` hears of what does
        not leave it: some code swallows its cancellation.
        """
        ...

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` in this asyncio loop once `monotonic()` reaches `when`; what is returned takes it back.

        It may ring before, for who waits for a time of the calendar: that can be set, and then comes sooner.
        """
        ...

    def busy(self) -> AbstractContextManager[None]:
        """For work elsewhere (a thread, a server): a clock whose time jumps over idle waits does not jump meanwhile."""
        ...


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def sleep_until(self, when: float) -> None:
        while (left := when - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_NAP))

    def call_until(self, when: float, work: Callable[[], T]) -> T:
        return call_in_thread(max(0.0, when - time.monotonic()), work)

    async def asleep_until(self, when: float) -> None:
        sleep = event_loops.sleep_function()
        await sleep(max(0.0, min(when - time.monotonic(), LONGEST_NAP)))
        while (left := when - time.monotonic()) > 0:
            await sleep(min(left, LONGEST_NAP))

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        return event_loops.cut_after(max(0.0, when - time.monotonic()), late)

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        return event_loops.call_after(max(0.0, min(when - time.monotonic(), LOOK_AGAIN)), ring)

    def busy(self) -> AbstractContextManager[None]:
        return _NOTHING


SYSTEM_CLOCK = SystemClock()
_clock: ContextVar[Clock] = ContextVar("redrive_clock", default=SYSTEM_CLOCK)


def current_clock() -> Clock:
    return _clock.get()


def put_clock(clock: Clock) -> None:
    """Make `clock` the current one for the rest of this context."""
    _clock.set(clock)


@contextmanager
def use_clock(clock: Clock) -> Iterator[Clock]:
    """Make `clock` the current one for this context, and for the tasks and threads that inherit it."""
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


def whole_microseconds(wall: float) -> float:
    """The time itself, or the first such one after it: what is due at `wall` is due then too."""
    # Not by round(), which takes a hundred times as long: each turn of a flow has a time.
    nearest = int(wall * 1e6 + 0.5)
    whole = nearest / 1e6
    return whole if whole >= wall else (nearest + 1) / 1e6

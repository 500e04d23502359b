"""The clock behind every wait and every deadline; tests replace it for their context."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol, TypeVar

from redrive.determinism import event_loops
from redrive.determinism.event_loops import Late
from redrive.determinism.steady_time import SteadyTime
from redrive.determinism.thread_cut import call_in_thread

T = TypeVar("T")

# Longer waits are slept in pieces: some platforms reject larger arguments.
LONGEST_NAP = 3600.0
# Timers re-check the time this often (seconds): nothing reports that the wall clock was set or that the machine slept.
LOOK_AGAIN = 5.0
_NOTHING = nullcontext()
STEADY_TIME = SteadyTime()
"""The wall-clock time of this process."""


class Clock(Protocol):
    """Reads time and waits. `monotonic` measures waits and deadlines; `wall` is seconds since 1970, UTC.

    Neither goes back.
    """

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def sleep_until(self, when: float) -> None:
        """Block this thread until `monotonic()` reaches `when`."""
        ...

    def call_until(self, when: float, work: Callable[[], T]) -> T:
        """Call `work`; raise CutShort, and do not wait for it, if it still runs when `monotonic()` reaches `when`."""
        ...

    async def asleep_until(self, when: float) -> None:
        """Suspend this task until `monotonic()` reaches `when`; cancelling the task ends the wait immediately."""
        ...

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        """Return a context manager for an async task that cancels the block when `monotonic()` reaches `when`.

        Leaving the block then raises CutShort instead of the cancellation. Under asyncio, `late` is called when the
        block does not end, because some code swallows its cancellation.
        """
        ...

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` in this asyncio loop once `monotonic()` reaches `when`; return a function that cancels it.

        It may ring early, so that callers who wait for a wall-clock time notice when that clock was set.
        """
        ...

    def busy(self) -> AbstractContextManager[None]:
        """Hold a virtual clock still during work elsewhere, such as in a thread or a server."""
        ...


class SystemClock:
    """The machine's clock, except that `wall` does not go back when the clock is set back."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(STEADY_TIME.now)
    cpu = staticmethod(time.process_time)
    """Seconds in which this process ran, all its threads together."""

    def sleep_until(self, when: float) -> None:
        while (left := when - self.monotonic()) > 0:
            time.sleep(min(left, LONGEST_NAP))

    def call_until(self, when: float, work: Callable[[], T]) -> T:
        return call_in_thread(max(0.0, when - self.monotonic()), work)

    async def asleep_until(self, when: float) -> None:
        sleep = event_loops.sleep_function()
        await sleep(max(0.0, min(when - self.monotonic(), LONGEST_NAP)))
        while (left := when - self.monotonic()) > 0:
            await sleep(min(left, LONGEST_NAP))

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        return event_loops.cut_after(max(0.0, when - self.monotonic()), late)

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        return event_loops.call_after(max(0.0, min(when - self.monotonic(), LOOK_AGAIN)), ring)

    def busy(self) -> AbstractContextManager[None]:
        return _NOTHING


SYSTEM_CLOCK = SystemClock()
_clock: ContextVar[Clock] = ContextVar("redrive_clock", default=SYSTEM_CLOCK)


def current_clock() -> Clock:
    """Return the clock of this context."""
    return _clock.get()


def put_clock(clock: Clock) -> None:
    """Set the clock for the rest of this context."""
    _clock.set(clock)


@contextmanager
def use_clock(clock: Clock) -> Iterator[Clock]:
    """Use `clock` in this context, and in the tasks and threads that inherit it."""
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


@contextmanager
def replace_system_time(monotonic: Callable[[], float], wall: Callable[[], float]) -> Iterator[None]:
    """Have the system clock of this process tell other times: for simulations, which run nothing else meanwhile."""
    own = vars(SYSTEM_CLOCK)
    before = dict(own)
    own.update(monotonic=monotonic, wall=wall)
    try:
        yield
    finally:
        own.clear()
        own.update(before)


def whole_microseconds(wall: float) -> float:
    """Round up to whole microseconds, so that whatever is due at `wall` is due at the result too."""
    # Not with round(), which takes a hundred times as long; this runs for every turn of a flow.
    nearest = int(wall * 1e6 + 0.5)
    whole = nearest / 1e6
    return whole if whole >= wall else (nearest + 1) / 1e6

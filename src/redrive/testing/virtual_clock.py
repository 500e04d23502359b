"""A clock on which time passes only by waiting.

When nothing else can run, time jumps to the end of the next wait. When only work that hangs is left, it jumps to the
time limit of that work.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redrive.determinism import event_loops
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.event_loops import AsyncioCut, Late
from redrive.determinism.thread_cut import CutShort

if TYPE_CHECKING:
    import trio

    _Loop = asyncio.AbstractEventLoop | trio.lowlevel.TrioToken

T = TypeVar("T")

# 2030-01-01 00:00:00 UTC, which no test mistakes for today.
WALL_START = 1_893_456_000.0
# Work that waits for a socket, a thread or a process may be slow instead of hanging. It gets this many times the grace
# period, two seconds by default, so that an answer within a second is not cut.
SLOW = 40
GRACE = 0.05
LOOK_AGAIN = 0.001


class VirtualClock:
    """Starts at `start`; only waits and `advance` move it."""

    def __init__(self, start: float = 0.0, grace: float = GRACE) -> None:
        """`grace`: real seconds after which idle work counts as hanging, and time jumps to its time limit.

        It is multiplied by SLOW if the work may be waiting for a socket, a thread or a process.
        """
        self.now = float(start)
        self.waits: list[float] = []
        """The waits between attempts so far, in seconds, in the order in which they started."""
        self._start = self.now
        self._grace = grace
        self._lock = threading.Lock()
        self._timers: list[_Timer] = []
        self._numbers = itertools.count()
        self._pumping: set[_Loop] = set()
        self._busy = 0
        self._work: dict[asyncio.Task[Any], _Work] = {}
        """Tasks that run in real time."""

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL_START + self.now - self._start

    def advance(self, seconds: float) -> None:
        """Move time forward and run the timers that are due."""
        self._move_to(self.now + seconds)
        for timer in sorted(self._timers, key=_Timer.order):
            if timer.when <= self.now:
                self._fire(timer)

    def sleep(self, seconds: float) -> None:
        """Simulate work that takes this long."""
        self._move_to(self.now + seconds)

    async def asleep(self, seconds: float) -> None:
        """Simulate async work that takes this long."""
        await self._wait(self.now + seconds)

    def sleep_until(self, when: float) -> None:
        self.waits.append(round(when - self.now, 9))
        self._move_to(when)

    def call_until(self, when: float, work: Callable[[], T]) -> T:
        try:
            result = work()
        except Exception:
            if self.now > when:
                raise CutShort from None
            raise
        if self.now > when:
            raise CutShort
        return result

    async def asleep_until(self, when: float) -> None:
        self.waits.append(round(when - self.now, 9))
        await self._wait(when)

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        return _TrioCut(self, when) if event_loops.under_trio() else _AsyncioVirtualCut(self, when, late)

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        timer = self._at(when, visible_loop(), ring, moves_time=True)
        return lambda: self._forget(timer)

    @contextmanager
    def busy(self) -> Iterator[None]:
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1

    frozen = busy
    """`with clock.frozen():` stops time, to inspect what is waiting or to move time with `advance`."""

    def wait_for_work(self, task: "asyncio.Task[Any]", elsewhere: bool) -> None:
        """Hold time while the task works in real time, except for its own virtual waits or once it hangs.

        `elsewhere`: it waits for a thread or a process.
        """
        self._work[task] = _Work(elsewhere)
        task.add_done_callback(lambda done: self._work.pop(done, None))

    def _move_to(self, when: float) -> None:
        with self._lock:
            self.now = max(self.now, when)

    async def _wait(self, when: float) -> None:
        if event_loops.under_trio():
            await self._wait_under_trio(when)
            return
        loop = visible_loop()
        done: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        timer = self._at(when, loop, wake, moves_time=True)
        task = asyncio.current_task()
        work = self._work.pop(task, None) if task is not None else None
        try:
            await done
        finally:
            self._forget(timer)
            if task is not None and work is not None:
                self._work[task] = _Work(work.elsewhere)

    async def _wait_under_trio(self, when: float) -> None:
        import trio

        done = trio.Event()
        timer = self._at(when, trio.lowlevel.current_trio_token(), done.set, moves_time=True)
        try:
            await done.wait()
        finally:
            self._forget(timer)

    def _at(self, when: float, loop: "_Loop", action: Callable[[], Any], moves_time: bool) -> "_Timer":
        timer = _Timer(when, next(self._numbers), loop, action, moves_time)
        self._timers.append(timer)
        self._pump_soon(loop)
        return timer

    def _forget(self, timer: "_Timer") -> None:
        if timer in self._timers:
            self._timers.remove(timer)

    def _fire(self, timer: "_Timer") -> None:
        self._forget(timer)
        self._move_to(timer.when)
        timer.action()

    def _pump_soon(self, loop: "_Loop") -> None:
        if loop in self._pumping:
            return
        self._pumping.add(loop)
        if isinstance(loop, asyncio.AbstractEventLoop):
            loop.call_soon(self._pump, loop)
        else:
            import trio

            trio.lowlevel.spawn_system_task(self._pump_under_trio, loop)

    def _pump(self, loop: asyncio.AbstractEventLoop, idle_for: float = 0.0) -> None:
        """Jump to the next timer of this loop once the loop is idle."""
        mine = [timer for timer in self._timers if timer.loop is loop]
        if not mine:
            self._pumping.discard(loop)
            return
        if _is_busy(loop):
            loop.call_soon(self._pump, loop)
            return
        if self._busy or self._works(loop):
            # Work elsewhere ends in real time.
            loop.call_later(LOOK_AGAIN, self._pump, loop)
            return
        moving = [timer for timer in mine if timer.moves_time]
        if not moving and not self._work and idle_for < self._patience(_may_be_slow(loop)):
            # Only time limits are left: the work may be waiting for a socket or a thread, so give it real time.
            loop.call_later(self._grace, self._pump, loop, idle_for + self._grace)
            return
        loop.call_soon(self._pump, loop)
        self._fire(_next_of(mine))

    async def _pump_under_trio(self, loop: "trio.lowlevel.TrioToken") -> None:
        """Do the same for a trio run, in a task that lives as long as there are timers."""
        import trio.testing

        # In short pieces: a test that polls every few milliseconds is idle in between.
        idle_for, piece = 0.0, min(self._grace, LOOK_AGAIN)
        try:
            while mine := [timer for timer in self._timers if timer.loop is loop]:
                hangs = not any(timer.moves_time for timer in mine)
                if self._busy:
                    await trio.sleep(LOOK_AGAIN)
                    continue
                await trio.testing.wait_all_tasks_blocked(piece if hangs else 0.0)
                idle_for = idle_for + piece if hangs else 0.0
                mine = [timer for timer in self._timers if timer.loop is loop]
                moves = any(timer.moves_time for timer in mine)
                if self._busy or not mine or (not moves and idle_for < self._patience(_may_be_slow_under_trio())):
                    continue
                self._fire(_next_of(mine))
                idle_for = 0.0
        finally:
            self._pumping.discard(loop)

    def _works(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether there is work in real time that does not count as hanging yet."""
        now = SYSTEM_CLOCK.monotonic()
        for task, work in self._work.items():
            patience = self._patience(work.elsewhere or _may_be_slow(loop))
            if task.get_loop() is loop and now - work.since < patience:
                return True
        return False

    def _is_patient_again_with(self, task: "asyncio.Task[Any] | None") -> None:
        work = self._work.get(task) if task is not None else None
        if work is not None:
            work.since = SYSTEM_CLOCK.monotonic()

    def _patience(self, slow: bool) -> float:
        return self._grace * (SLOW if slow else 1)


class _Work:
    def __init__(self, elsewhere: bool) -> None:
        self.since = SYSTEM_CLOCK.monotonic()
        """When it last made progress, in real seconds."""
        self.elsewhere = elsewhere


class _Timer:
    def __init__(self, when: float, number: int, loop: "_Loop", action: Callable[[], Any], moves_time: bool) -> None:
        self.when = when
        self.number = number
        self.loop = loop
        self.action = action
        self.moves_time = moves_time

    def order(self) -> tuple[float, int]:
        return self.when, self.number


class _AsyncioVirtualCut:
    """Cancels its block at a virtual time, under asyncio."""

    def __init__(self, clock: VirtualClock, when: float, late: Late | None) -> None:
        self._clock = clock
        self._when = when
        self._late = late
        self._cut = AsyncioCut(None)
        self._timer: _Timer | None = None

    def __enter__(self) -> None:
        loop, task = visible_loop(), asyncio.current_task()
        self._cut.__enter__()
        limit = self._cut.limit

        def cut() -> None:
            limit.reschedule(loop.time())
            if self._late is not None:
                # Cleaning up takes real time too.
                self._clock._is_patient_again_with(task)
                until = self._clock.now + self._late.grace
                self._timer = self._clock._at(until, loop, self._late.call, moves_time=False)

        self._timer = self._clock._at(self._when, loop, cut, moves_time=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._clock._forget(self._timer)
        self._cut.__exit__(kind, error, trace)


class _TrioCut:
    """Cancels its block at a virtual time, under trio."""

    def __init__(self, clock: VirtualClock, when: float) -> None:
        import trio

        self._clock = clock
        self._scope = trio.CancelScope()
        self._timer = clock._at(when, trio.lowlevel.current_trio_token(), self._scope.cancel, moves_time=False)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._clock._forget(self._timer)
        swallowed = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            raise CutShort
        return swallowed


def _next_of(timers: list[_Timer]) -> _Timer:
    """Return the timer to fire next: the first end of a wait or an earlier limit; without waits, the first limit."""
    moving = [timer for timer in timers if timer.moves_time]
    horizon = min(timer.when for timer in moving or timers)
    return min((timer for timer in timers if timer.when <= horizon), key=_Timer.order)


def visible_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop; RuntimeError when a virtual clock cannot inspect it."""
    loop = asyncio.get_running_loop()
    if not hasattr(loop, "_ready"):
        kind = type(loop)
        raise RuntimeError(
            f"a virtual clock cannot see whether {kind.__module__}.{kind.__qualname__} has anything to run; "
            "run the test in asyncio's own event loop, with asyncio.run(...), or use redrive.testing.no_waits()"
        )
    return loop


def _is_busy(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop has anything to run now, apart from the pumps of virtual clocks."""
    for handle in cast("Any", loop)._ready:
        if getattr(handle._callback, "__func__", None) is not VirtualClock._pump:
            return True
    return False


def _may_be_slow(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the work may be waiting for a socket or a thread."""
    selector = getattr(loop, "_selector", None)
    # The loop's own wake-up pipe is always registered.
    has_sockets = selector is not None and len(selector.get_map() or ()) > 1
    return has_sockets or getattr(loop, "_default_executor", None) is not None


def _may_be_slow_under_trio() -> bool:
    import trio

    polled = trio.lowlevel.current_statistics().io_statistics
    kinds = ("tasks_waiting_read", "tasks_waiting_write", "tasks_waiting")
    # Trio's own wake-up socket counts as one.
    has_sockets = sum(getattr(polled, kind, 0) for kind in kinds) > 1
    return has_sockets or trio.to_thread.current_default_thread_limiter().borrowed_tokens > 0

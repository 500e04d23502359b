"""One interface to asyncio and trio that imports only the one in use."""

import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from redrive.determinism.thread_cut import CutShort


def under_trio() -> bool:
    """Whether trio runs the current task. Trio may be a guest of asyncio, and either may run inside the other."""
    # While another thread is still importing trio, `lowlevel` is missing; then none of its tasks runs either.
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    if lowlevel is None or not _in_trio_task(lowlevel):
        return False
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None or asyncio.current_task() is None:
        return True
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        # The nearest frame of one of them belongs to the loop that runs the task.
        whose = frame.f_globals.get("__name__", "").partition(".")[0]
        if whose in ("trio", "asyncio", "uvloop"):
            return bool(whose == "trio")
        frame = frame.f_back
    return False


def _in_trio_task(lowlevel: Any) -> bool:
    try:
        return bool(lowlevel.in_trio_task())
    except AttributeError:
        # A trio older than redrive[trio] requires may be installed in a program that uses asyncio.
        with suppress(AttributeError, RuntimeError):
            lowlevel.current_task()
            return True
        return False


def sleep_function() -> Callable[[float], Awaitable[Any]]:
    """Return the sleep function of the loop that runs the current task."""
    if under_trio():
        import trio

        return trio.sleep
    import asyncio

    return asyncio.sleep


def call_after(seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` from the running asyncio loop after `seconds`; return a function that cancels it."""
    import asyncio

    return asyncio.get_running_loop().call_later(seconds, callback).cancel


class Late(NamedTuple):
    """Called when cancelled work has still not ended after `grace` seconds."""

    grace: float
    call: Callable[[], None]


def cut_after(seconds: float, late: Late | None = None) -> AbstractContextManager[None]:
    """Return a context manager that cancels its block after `seconds` and then raises CutShort."""
    if under_trio():
        return TrioCut(seconds)
    return AsyncioCut(seconds) if late is None else WatchedCut(seconds, late)


class AsyncioCut:
    """`asyncio.timeout` as a plain `with`; it raises CutShort, to be distinct from timeouts in user code."""

    def __init__(self, seconds: float | None) -> None:
        import asyncio

        self.limit = asyncio.timeout(seconds)

    def __enter__(self) -> None:
        _finish_now(self.limit.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            _finish_now(self.limit.__aexit__(kind, error, trace))
        except TimeoutError:
            raise CutShort from None


class WatchedCut:
    """An AsyncioCut that calls `late` when the cancelled block does not end in time.

    It reimplements `asyncio.timeout`, which has no hook for its expiry.
    """

    __slots__ = ("_before", "_is_cut", "_late", "_loop", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float, late: Late) -> None:
        self._seconds = seconds
        self._late = late
        self._is_cut = False

    def __enter__(self) -> None:
        import asyncio

        loop = self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None  # noqa: S101 - it is only used inside a task
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._timer = loop.call_later(self._seconds, self._cut)

    def _cut(self) -> None:
        self._is_cut = True
        self._task.cancel()
        self._timer = self._loop.call_later(*self._late)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._is_cut:
            import asyncio

            is_ours = self._task.uncancel() <= self._before
            if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise CutShort from None


class TrioCut:
    """`trio.move_on_after` that raises CutShort when it has cancelled the block."""

    def __init__(self, seconds: float) -> None:
        import trio

        self.scope = trio.move_on_after(seconds)

    def __enter__(self) -> None:
        self.scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        swallowed = self.scope.__exit__(kind, error, trace)
        if self.scope.cancelled_caught:
            raise CutShort
        return swallowed


def _finish_now(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that never suspends, as when `asyncio.Timeout` is entered or left."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("asyncio.timeout suspended, which it never does")


class Outer(threading.local):
    """The event loop of this thread in which flows' own loops take turns, and its async generator hooks."""

    loop: Any = None
    hooks: Any = (None, None)
    inside: Any = None
    """The loop whose turn it is."""


OUTER = Outer()

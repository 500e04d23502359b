"""The event loop of one simulated machine."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

MANY_CANCELLED = 100


class MachineLoop(asyncio.BaseEventLoop):
    """Runs nothing by itself: the world runs its callbacks a few at a time, in order, while the machine is up.

    A machine that is frozen is not run for a while, and one that was killed never again; neither notices.
    """

    _ready: "deque[asyncio.Handle]"
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, now: Callable[[], float], on_error: Callable[[str], None]) -> None:
        """on_error: called with what asyncio reports, such as an exception that nobody has retrieved."""
        super().__init__()
        self.time = now  # type: ignore[method-assign]  # one call less for each timer
        self.halted = False
        """Whether the machine is frozen, blocked or dead; see `hold`."""
        self.tasks: list[asyncio.Task[Any]] = []
        """All tasks that were ever made; asyncio would have to search for them."""
        self._holds = 0
        self.fuse = 0
        """After this many callbacks, `on_fuse` is called; 0: never."""
        self.on_fuse: Callable[[], None] = _nothing
        self._on_error = on_error
        self._cancelled = 0

    def hold(self) -> None:
        """Run nothing until `let_go`, as often as this was called."""
        self._holds += 1
        self.halted = True

    def let_go(self) -> None:
        self._holds -= 1
        self.halted = self._holds > 0

    def revive(self) -> None:
        """Run again, whatever has happened."""
        self._holds = self.fuse = 0
        self.halted = False

    def next_timer(self) -> float | None:
        """When the next timer goes off; None when there is none, or when the machine does not run."""
        timers = self._scheduled
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]  # as asyncio does
        return timers[0].when() if timers and not self.halted else None

    def queue_due(self, now: float) -> None:
        """Queue the callbacks of timers that are due."""
        timers = self._scheduled
        while timers and timers[0]._when <= now:  # type: ignore[attr-defined]  # the method costs a call
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]  # as asyncio does
            self._ready.append(timer)

    def run_ready(self, most: int) -> None:
        """Run up to this many of the callbacks that are ready."""
        ready, outer = self._ready, asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for _ in range(min(most, len(ready))):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.fuse:
                    self.fuse -= 1
                    if not self.fuse:
                        self.on_fuse()
                if self.halted:
                    return
        finally:
            asyncio._set_running_loop(outer)

    # What asyncio asks of a loop

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        return task

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > MANY_CANCELLED:
            self._cancelled = 0
            self._scheduled = [timer for timer in self._scheduled if not timer.cancelled()]
            heapq.heapify(self._scheduled)

    def _write_to_self(self) -> None:
        """Nobody sleeps: the world looks at all machines."""

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._on_error(context.get("message", "") + (f": {error!r}" if error is not None else ""))


def _nothing() -> None:
    pass

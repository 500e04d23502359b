"""Cuts asyncio attempts at their call's deadline, with one timer for all calls in a loop that have the same.

A timer per call would cost more than all the rest of a guarded call. Of calls with the same deadline, the one that
began first ends first: one timer, set for the oldest call under way, serves them all.
"""

import asyncio
import sys
from _thread import get_ident
from typing import Any

from redrive.calls.opening import LoopPlace
from redrive.calls.opening_in_python import Stepping
from redrive.calls.scope import OWNER, STARTED, Scope
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import DeadlineExceededError


class _Asking:
    """asyncio's answer to which task is in the middle of a step."""

    def get(self, loop: asyncio.AbstractEventLoop) -> Any:
        return asyncio.current_task(loop)

    def __len__(self) -> int:
        """Of how many loops is not known."""
        return 0


# Before 3.14, where it is not kept any more, asking for its own record takes a fraction of the time.
STEPPING: Stepping = asyncio.tasks._current_tasks if sys.version_info < (3, 14) else _Asking()  # type: ignore[attr-defined]

ASLEEP: Scope = []
"""In the place of a running call: no timer is set."""
_PLACE = "_redrive_deadline_watches"


class DeadlineWatch(LoopPlace):
    """The running first attempts of one event loop whose calls have the same deadline."""

    __slots__ = ("cut", "deadline")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, deadline: float | None) -> None:
        self.loop = loop  # None in the watch that stands in before the first call
        self.thread = 0
        self.stepping = STEPPING
        self.running = asyncio._get_running_loop
        self.deadline = deadline
        self.only = ASLEEP
        self.task = None
        self.before = 0
        self.more = {}
        self.cut: dict[int, tuple[Scope, Any, int]] = {}
        """Those that were cancelled here and have not ended yet; like `more`."""

    def wake_up(self, scope: Scope, task: Any, before: int) -> None:
        # First of all: where this fails, or is interrupted, nobody is awake yet.
        if self.deadline is not None:
            self._look_after(self.deadline)
        self.task, self.before, self.only = task, before, scope

    def leave(self, scope: Scope) -> bool:
        """An attempt has ended. True when it was cancelled here, and nobody else has cancelled its task meanwhile."""
        if self.only is scope:
            self.only = self.task = None
            return False
        key = id(scope)
        if self.more.pop(key, None) is not None or key not in self.cut:
            return False
        _, task, before = self.cut.pop(key)
        # Of the cancellations from before, some have ended without being taken back.
        return bool(task.uncancel() <= before)

    def meaning_of(self, error: BaseException, scope: Scope) -> BaseException:
        """What an attempt ended with: the error, or the deadline where it was cut at that and no one else wanted it."""
        if self.leave(scope) and isinstance(error, asyncio.CancelledError):
            return DeadlineExceededError(self.deadline or 0.0)
        return error

    def look(self) -> None:
        """Cancel the attempts whose deadline has come, and come back for the next."""
        try:
            while (entry := self._oldest()) is not None and self._left_of(entry[0]) <= 0.0:
                self._cut(*entry)
        finally:
            # Whatever a task does when it is cancelled, the others have their deadlines.
            entry = self._oldest()
            if entry is not None:
                self._look_after(max(0.0, self._left_of(entry[0])))
            else:
                self.only = ASLEEP
                _watches_of(self.loop).pop(self.deadline, None)

    def _left_of(self, scope: Scope) -> float:
        return float(scope[STARTED] + (self.deadline or 0.0) - SYSTEM_CLOCK.monotonic())

    def _oldest(self) -> tuple[Scope, Any, int] | None:
        """Of the calls that stand here, the one that began first."""
        more = next(iter(self.more.values()), None)
        if self.only and (more is None or self.only[STARTED] <= more[0][STARTED]):
            return self.only, self.task, self.before
        return more

    def _cut(self, scope: Scope, task: Any, before: int) -> None:
        if self.only is scope:
            self.only = self.task = None
        else:
            del self.more[id(scope)]
        # What was interrupted while it began or ended may still stand here, and is over.
        if scope[OWNER] is not None:
            self.cut[id(scope)] = scope, task, before
            task.cancel()

    def _look_after(self, seconds: float) -> None:
        if self.loop is not None:
            self.loop.call_later(seconds, self.look)


def watch_in(loop: asyncio.AbstractEventLoop, deadline: float | None) -> DeadlineWatch:
    """The one for this deadline in the loop that runs in this thread. The loop itself keeps it: they end together."""
    watches = _watches_of(loop)
    watch = watches.get(deadline)
    if watch is None:
        watch = watches[deadline] = DeadlineWatch(loop, deadline)
    watch.thread = get_ident()
    return watch


def _watches_of(loop: asyncio.AbstractEventLoop | None) -> dict[float | None, DeadlineWatch]:
    """Where the loop has no place for them, none are found, and each guard has its own."""
    place: dict[str, Any] = getattr(loop, "__dict__", {})
    watches: dict[float | None, DeadlineWatch] = place.setdefault(_PLACE, {})
    return watches

"""Cuts asyncio attempts at their call's deadline, with one timer for all calls in a loop that have the same.

A timer per call would cost more than all the rest of a guarded call. Of calls with the same deadline, the one that
began first ends first: one timer, set for the oldest call under way, serves them all.
"""

import asyncio
from _thread import get_ident
from typing import Any

from redrive.calls.scope import STARTED, Scope
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.signals import DeadlineExceeded

STEPPING: dict[Any, Any] = getattr(asyncio.tasks, "_current_tasks", {})
"""asyncio's own record, by loop, of the task that is in the middle of a step; empty where a version keeps none."""

ASLEEP: Scope = []
"""In the place of a running call: no timer is set."""
_PLACE = "_redrive_deadline_watches"


class DeadlineWatch:
    """The running first attempts of one event loop whose calls have the same deadline."""

    __slots__ = ("cut", "deadline", "loop", "more", "only", "task", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, deadline: float | None) -> None:
        self.loop = loop
        """None in the watch that stands in before the first call."""
        self.thread: int | None = None
        """The one that runs the loop."""
        self.deadline = deadline
        # Mostly a single call runs at a time. It stands here, where the success path can put it and take it out
        # without a call: `only` is None when the place is free.
        self.only: Scope | None = ASLEEP
        self.task: Any = None
        self.more: dict[Any, Scope] = {}
        """The others by task, oldest first."""
        self.cut: set[Any] = set()
        """Tasks that were cancelled here and have not ended their attempt yet."""

    def add(self, scope: Scope, task: Any) -> None:
        """An attempt begins, and `only` is taken."""
        if self.only is ASLEEP:
            self.only, self.task = scope, task
            if self.deadline is not None:
                self._look_after(self.deadline)
        else:
            self.more[task] = scope

    def take_back(self, task: asyncio.Task[Any], before: int) -> bool:
        """Take back the cancellation made here, if any; True when nobody else has cancelled the task meanwhile.

        `before` counts the cancellations the task had when the attempt began: some have ended without being taken back.
        """
        if task not in self.cut:
            return False
        self.cut.remove(task)
        return task.uncancel() <= before

    def meaning_of(self, error: BaseException, task: asyncio.Task[Any], before: int) -> BaseException:
        """The error that an attempt ended with, or the deadline where it was cut at that and no one else wanted it."""
        if self.take_back(task, before) and isinstance(error, asyncio.CancelledError):
            return DeadlineExceeded(self.deadline or 0.0)
        return error

    def look(self) -> None:
        """Cancel the attempts whose deadline has come, and come back for the next."""
        began_before = SYSTEM_CLOCK.monotonic() - (self.deadline or 0.0)
        due = []
        if self.only and self.only[STARTED] <= began_before:
            due.append(self.task)
            self.only = self.task = None
        for task, scope in self.more.items():
            if scope[STARTED] > began_before:
                break
            due.append(task)
        for task in due:
            self.more.pop(task, None)
            self.cut.add(task)
            task.cancel()
        begun = [scope[STARTED] for scope in (self.only, next(iter(self.more.values()), None)) if scope]
        if begun:
            self._look_after(min(begun) - began_before)
        else:
            self.only = ASLEEP
            _watches_of(self.loop).pop(self.deadline, None)

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

"""Cuts asyncio attempts at their call's deadline, with one timer for all calls of a Retrier in a loop.

A timer per call would cost more than all the rest of a guarded call. All calls of a Retrier have the same deadline,
so the call that began first ends first: one timer, set for the oldest call under way, serves them all.
"""

import asyncio
from typing import Any

from redrive.calls.scope import STARTED, Scope
from redrive.determinism.clock import SYSTEM_CLOCK

STEPPING: dict[Any, Any] = getattr(asyncio.tasks, "_current_tasks", {})
"""asyncio's own record, by loop, of the task that is in the middle of a step; empty where a version keeps none."""

ASLEEP: Scope = []
"""In the place of a running call: no timer is set."""


class DeadlineWatch:
    """The running first attempts of one Retrier in one event loop."""

    __slots__ = ("deadline", "loop", "more", "only", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, deadline: float | None) -> None:
        self.loop = loop
        """None in the watch that stands in before the first call."""
        self.deadline = deadline
        # Mostly a single call runs at a time. It stands here, where the success path can put it and take it out
        # without a call: `only` is None when the place is free.
        self.only: Scope | None = ASLEEP
        self.task: Any = None
        self.more: dict[Any, Scope] = {}
        """The others by task, oldest first."""

    def add(self, scope: Scope, task: Any) -> None:
        if self.only is ASLEEP:
            self.only, self.task = scope, task
            if self.deadline is not None:
                self._look_after(self.deadline)
        else:
            self.more[task] = scope

    def take_out(self, scope: Scope, task: Any) -> bool:
        """The attempt has ended; False when it is not here any more, as it was cancelled at its deadline."""
        if self.only is scope:
            self.only = self.task = None
            return True
        return self.more.pop(task, None) is not None

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
            task.cancel()
        begun = [scope[STARTED] for scope in (self.only, next(iter(self.more.values()), None)) if scope]
        if begun:
            self._look_after(min(begun) - began_before)
        else:
            self.only = ASLEEP

    def _look_after(self, seconds: float) -> None:
        if self.loop is not None:
            self.loop.call_later(seconds, self.look)


def was_only_cut(task: asyncio.Task[Any], before: int) -> bool:
    """Take back the cancellation made here; False when someone else has cancelled the task since the attempt began.

    `before` counts the cancellations the task had when it began: some have ended without being taken back.
    """
    return task.uncancel() <= before

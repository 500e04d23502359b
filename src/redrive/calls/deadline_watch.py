"""Cuts asyncio attempts at their call's deadline, with one timer for all calls of a Retrier in a loop.

A timer per call would cost more than all the rest of a guarded call. All calls of a Retrier have the same deadline,
so the call that began first ends first: one timer, set for the oldest call under way, serves them all.
"""

import asyncio
from typing import Any

from redrive.calls.scope import STARTED, Scope
from redrive.determinism.clock import SYSTEM_CLOCK

CUT: Any = object()
"""Stands in the place of the scope of an attempt that was cancelled at its deadline."""

STEPPING: dict[Any, Any] = getattr(asyncio.tasks, "_current_tasks", {})
"""asyncio's own record, by loop, of the task that is in the middle of a step; empty where a version keeps none."""


class DeadlineWatch:
    """The running first attempts of one Retrier in one event loop."""

    __slots__ = ("active", "deadline", "loop", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, deadline: float) -> None:
        self.loop = loop
        """None in the watch that stands in before the first call."""
        self.deadline = deadline
        self.active: dict[Any, Scope] = {}
        """By task, oldest first; CUT once the attempt was cancelled here."""
        self.timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Cancel the attempts whose deadline has come, and come back for the next."""
        self.timer = None
        now = SYSTEM_CLOCK.monotonic()
        for task, scope in self.active.items():
            if scope is CUT:
                continue
            left = scope[STARTED] + self.deadline - now
            if left > 0:
                self.look_after(left)
                return
            self.active[task] = CUT
            task.cancel()

    def look_after(self, seconds: float) -> None:
        if self.loop is not None:
            self.timer = self.loop.call_later(seconds, self.look)


def was_only_cut(task: asyncio.Task[Any], before: int) -> bool:
    """Take back the cancellation made here; False when someone else has cancelled the task since the attempt began.

    `before` counts the cancellations the task had when it began: some have ended without being taken back.
    """
    return task.uncancel() <= before

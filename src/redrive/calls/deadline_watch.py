"""Cancels asyncio attempts at their call's deadline, with one timer for all calls in a loop that share a deadline.

A timer per call would cost more than the rest of a guarded call. Among calls with the same deadline, the one that
began first ends first: one timer, set for the oldest running call, serves them all.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from redrive.calls.scope import OWNER, STARTED, Scope
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.event_loops import under_trio

NO_TIMER: Scope = []
"""Stands in `DeadlineWatch.only` while no timer is set."""
_ATTRIBUTE = "_redrive_deadline_watches"

Entry = tuple[Scope, "asyncio.Task[Any]", int]
"""The scope of a call, its task, and how often that task had been cancelled when the call began."""


class DeadlineWatch:
    """The running first attempts of one event loop whose calls have the same deadline.

    Usually a single call runs at a time: it is kept in `only`, `task` and `cancelling`, which costs less than an entry
    in `others`. The fast path reads and writes these fields itself.
    """

    __slots__ = ("cancelling", "cut", "deadline", "hook", "loop", "only", "others", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, deadline: float | None) -> None:
        self.loop = loop
        """None: no asyncio loop runs here."""
        self.hook: Callable[..., Any] | None = None
        """The async generator hook that the loop has installed in its thread for the time it runs.

        The same hook means the same loop, in the same thread. `asyncio.get_running_loop()` would tell that too, but
        makes a system call on Python 3.11 that takes twice as long.
        """
        self.deadline = deadline
        self.only: Scope | None = NO_TIMER
        self.task: asyncio.Task[Any] | None = None
        self.cancelling = 0
        """How often `task` had been cancelled when its call began."""
        self.others: dict[int, Entry] = {}
        """The other running calls by the `id` of their scope, oldest first."""
        self.cut: dict[int, Entry] = {}
        """Calls that the watch has cancelled and that have not ended yet."""

    def add(self, scope: Scope, task: "asyncio.Task[Any]") -> None:
        """Register a call that begins while others run, or while no timer is set."""
        cancelling = task.cancelling()
        if self.only is not NO_TIMER:
            self.others[id(scope)] = scope, task, cancelling
            return
        # First of all: if this fails or is interrupted, the next call tries again.
        if self.deadline is not None:
            self._set_timer(self.deadline)
        self.task, self.cancelling, self.only = task, cancelling, scope

    def remove(self, scope: Scope) -> bool:
        """Forget a call that has ended. True if the watch cancelled it, and nobody else cancelled its task since."""
        if self.only is scope:
            self.only = self.task = None
            return False
        key = id(scope)
        if self.others.pop(key, None) is not None or key not in self.cut:
            return False
        _, task, cancelling = self.cut.pop(key)
        # Below: some of the earlier cancellations ended without being taken back by `uncancel`.
        return task.uncancel() <= cancelling

    def _cut_overdue(self) -> None:
        """Cancel the attempts whose deadline has passed, and set the timer for the next."""
        try:
            while (entry := self._oldest()) is not None and self._time_left(entry[0]) <= 0.0:
                self._cut(entry)
        finally:
            # Even if a task fails to be cancelled, the others keep their deadlines.
            entry = self._oldest()
            if entry is not None:
                self._set_timer(max(0.0, self._time_left(entry[0])))
            else:
                self.only = NO_TIMER
                _watches_of(self.loop).pop(self.deadline, None)

    def _time_left(self, scope: Scope) -> float:
        return float(scope[STARTED] + (self.deadline or 0.0) - SYSTEM_CLOCK.monotonic())

    def _oldest(self) -> Entry | None:
        oldest = next(iter(self.others.values()), None)
        if self.only and self.task is not None and (oldest is None or self.only[STARTED] <= oldest[0][STARTED]):
            return self.only, self.task, self.cancelling
        return oldest

    def _cut(self, entry: Entry) -> None:
        scope, task, _ = entry
        if self.only is scope:
            self.only = self.task = None
        else:
            del self.others[id(scope)]
        # A call that was interrupted while it began or ended may still be registered here, but has ended.
        if scope[OWNER] is not None:
            self.cut[id(scope)] = entry
            task.cancel()

    def _set_timer(self, seconds: float) -> None:
        if self.loop is not None:
            self.loop.call_later(seconds, self._cut_overdue)


NO_LOOP = DeadlineWatch(None, None)
"""The watch for code that no asyncio loop runs: calls do without the fast path."""


def watch_here(deadline: float | None) -> DeadlineWatch:
    """Return the watch for this deadline in the asyncio loop that runs this code, or NO_LOOP.

    The loop itself holds its watches, so they live as long as the loop does.
    """
    hook = sys.get_asyncgen_hooks().firstiter
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return NO_LOOP
    if hook is None or under_trio():
        return NO_LOOP
    watches = _watches_of(loop)
    watch = watches.get(deadline)
    if watch is None:
        watch = watches[deadline] = DeadlineWatch(loop, deadline)
    watch.hook = hook
    return watch


def _watches_of(loop: asyncio.AbstractEventLoop | None) -> dict[float | None, DeadlineWatch]:
    """Return the watches that the loop holds. A loop that takes no attributes holds none: each guard has its own."""
    attributes: dict[str, Any] = getattr(loop, "__dict__", {})
    watches: dict[float | None, DeadlineWatch] = attributes.setdefault(_ATTRIBUTE, {})
    return watches

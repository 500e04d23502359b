"""Opens the scope of a guarded call that nobody else's call encloses: most of the work of a call that succeeds.

_opening.c does the same in half the time; opening.py takes that where it could be compiled.
"""

import sys
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Protocol

from redrive.calls.scope import CURRENT, OWNER, STARTED, Scope
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.event_loops import under_trio

_current, _enter = CURRENT.get, CURRENT.set
# In a tuple: tools that freeze time in tests replace the clocks that modules have by a name of their own.
_now = (SYSTEM_CLOCK.monotonic,)


def open_scope(scope: Scope) -> bool:
    """Begin the scope's call here and now. False, and nothing is done, inside another call or under a test's clock."""
    if _current()[OWNER] is not None:
        return False
    scope[STARTED] = _now[0]()
    _enter(scope)
    return True


class Stepping(Protocol):
    """Knows, by loop, the task that is in the middle of a step; mostly a dict."""

    def get(self, loop: Any, /) -> Any: ...

    def __len__(self) -> int: ...


class LoopPlace:
    """Where calls run in an event loop. Mostly a single one does at a time, and needs no more than the place itself."""

    __slots__ = ("before", "loop", "more", "only", "running", "stepping", "task", "thread")

    loop: Any
    thread: int
    """The one that runs the loop; 0 when it is not known."""
    stepping: Stepping
    running: Callable[[], Any]
    """Gives the loop that runs in this thread; on some versions it takes longer than all the rest."""
    only: Scope | None
    """The scope of the call that runs; None when the place is free; empty when it must be woken up first."""
    task: Any
    before: int
    """How often the task had been cancelled when the call began."""
    more: dict[int, tuple[Scope, Any, int]]
    """The other calls by the `id` of their scope, oldest first: scope, task, `before`."""

    def wake_up(self, scope: Scope, task: Any, before: int) -> None:
        """A call begins, and nobody is awake."""
        raise NotImplementedError

    def open(self, scope: Scope) -> bool:
        """Begin the scope's call in this place, now.

        False, and nothing is done, inside another call, under a test's clock, or where another loop runs.
        """
        if _current()[OWNER] is not None or get_ident() != self.thread:
            return False
        # Loops that run inside of each other, and those a fork left behind, are in the middle of a step, too.
        if len(self.stepping) != 1 and self.running() is not self.loop:
            return False
        task = self.stepping.get(self.loop)
        if task is None or ("trio" in sys.modules and under_trio()):
            return False
        before = task.cancelling()
        scope[STARTED] = _now[0]()
        _enter(scope)
        only = self.only
        if only is None:
            self.task = task
            self.before = before
            self.only = scope
        elif only:
            self.more[id(scope)] = (scope, task, before)
        else:
            self.wake_up(scope, task, before)
        return True

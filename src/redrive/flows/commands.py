"""The commands that a definition issues in one turn. The engine logs them in order, then carries them out."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from redrive.policies.policy import Policy


class ScheduleItem(msgspec.Struct, eq=False):
    """Run an action, or the handler of a graph's step, until it succeeds or fails for good."""

    step: str
    args: str
    """The arguments as they are stored."""
    values: dict[str, Any] | None
    """The decoded arguments for the first attempt, where they are known already."""
    policy: Policy
    future: Any
    """What the flow's code awaits."""
    where: str
    """The line of the flow's code; known only during replay."""
    index: int = 0
    """Which item of a graph's step it is."""
    compensates: str = ""
    """The step of the graph that it compensates."""
    dependency: str = ""
    """What this call talks to; empty: what the action or the step says."""
    item: int = 0
    """Its number in the log, once it has one."""


class StartTimer:
    """Call back at a time. It is also the timer handle that asyncio gets."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "time", "timer", "where")

    def __init__(self, time: float, callback: Any, args: Any, context: Any, where: str) -> None:
        self.time = time
        self.callback = callback
        self.args = args
        self.context = context
        self.where = where
        self.is_cancelled = False
        self.timer = 0
        """Its number in the log, once it has one."""

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time


class CancelItem:
    """Cancel an item whose outcome is no longer awaited."""

    __slots__ = ("lets_attempt_finish", "scheduled")

    def __init__(self, scheduled: ScheduleItem, lets_attempt_finish: bool = False) -> None:
        self.scheduled = scheduled
        self.lets_attempt_finish = lets_attempt_finish
        """A running attempt may finish; no other follows it."""


class SettleStep:
    """Record the final state of a graph's step."""

    __slots__ = ("state", "step", "why")

    def __init__(self, step: str, state: str, why: str) -> None:
        self.step = step
        self.state = state
        self.why = why


class MarkPatch:
    """Record that `patched(name)` returned true for the first time."""

    __slots__ = ("name", "where")

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.where = where


class AnswerUpdate:
    """Answer an update: its handler returned, or raised an error."""

    __slots__ = ("error", "id", "result", "update")

    def __init__(self, id: str, update: str, result: str = "", error: Exception | None = None) -> None:  # noqa: A002 - as the event calls it
        self.id = id
        self.update = update
        self.result = result
        self.error = error


class StartChild(msgspec.Struct, eq=False):
    """Start another flow, whose end the flow's code may await."""

    definition: str
    input: str
    args: str
    """The arguments as the log keeps them."""
    key: str | None
    queue: str | None
    """None: the queue of the parent."""
    priority: int | None
    """None: the priority of the parent."""
    abandoned: bool
    read_result: Callable[[str], Any] | None
    """None: the result is plain data."""
    started: Any
    """The future that gets the child's id once it is in the log."""
    ended: Any
    """The future that gets the child's outcome."""
    where: str
    child: int = 0
    """Its number in the log, once it has one."""


class CancelChild:
    """Ask a child to end."""

    __slots__ = ("child", "where")

    def __init__(self, child: int, where: str) -> None:
        self.child = child
        """Its number in the log."""
        self.where = where


class SignalChild(msgspec.Struct, eq=False):
    """Send a child a signal."""

    child: int
    """Its number in the log."""
    signal: str
    args: str
    where: str


class ContinueRun:
    """End this run of the flow, and begin another one with this input."""

    __slots__ = ("input", "mailbox")

    def __init__(self, input: str, mailbox: list[tuple[str, str]]) -> None:  # noqa: A002 - as the record calls it
        self.input = input
        self.mailbox = mailbox
        """Signals that the code has not received, with their arguments: they go along."""


FlowOutcome = Literal["completed", "failed", "cancelled"]


class EndFlow:
    """End the flow."""

    __slots__ = ("error", "kind", "outcome", "result", "why")

    def __init__(
        self,
        outcome: FlowOutcome,
        result: str = "",
        error: BaseException | None = None,
        kind: str | None = None,
        why: str = "",
    ) -> None:
        self.outcome: FlowOutcome = outcome
        self.result = result
        self.error = error
        self.kind = kind
        """The kind of a failure; None takes the kind of the failed item that caused it."""
        self.why = why
        """The reason for a cancellation that the flow itself asked for."""


Command = (
    ScheduleItem
    | StartTimer
    | CancelItem
    | SettleStep
    | MarkPatch
    | AnswerUpdate
    | StartChild
    | CancelChild
    | SignalChild
    | ContinueRun
    | EndFlow
)

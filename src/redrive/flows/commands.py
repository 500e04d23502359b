"""What a flow's code asks for in one turn. The engine logs the asks in order, as commands, and carries them out."""

from typing import Any, Literal

import msgspec

from redrive.policies.policy import Policy


class ScheduleItem(msgspec.Struct, eq=False):
    """Carry out an action and bring its outcome."""

    step: str
    args: str
    """As they are stored."""
    values: dict[str, Any] | None
    """As the first attempt may use them, where they have been read already."""
    policy: Policy
    future: Any
    """What the flow's code waits for."""
    where: str
    """The line of the flow's code, noted during replay."""
    index: int = 0
    compensates: str = ""
    """In a graph: which item of its step it is, and the step that it undoes."""
    item: int = 0
    """Its number in the log, once it has one."""


class StartTimer:
    """Call back at a time."""

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

    # What asyncio asks of a timer handle.

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time


class CancelItem:
    """The code no longer waits for an item."""

    __slots__ = ("lets_run", "scheduled")

    def __init__(self, scheduled: ScheduleItem, lets_run: bool = False) -> None:
        self.scheduled = scheduled
        self.lets_run = lets_run
        """An attempt that is under way may end; none follows it."""


class SettleStep:
    """Note what became of a step."""

    __slots__ = ("state", "step", "why")

    def __init__(self, step: str, state: str, why: str) -> None:
        self.step = step
        self.state = state
        self.why = why


class MarkPatch:
    """`patched(name)` was true for the first time."""

    __slots__ = ("name", "where")

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.where = where


HowItEnds = Literal["completed", "failed", "cancelled"]


class EndFlow:
    """The code has come to its end."""

    __slots__ = ("error", "how", "kind", "result", "why")

    def __init__(
        self,
        how: HowItEnds,
        result: str = "",
        error: BaseException | None = None,
        kind: str | None = None,
        why: str = "",
    ) -> None:
        self.how: HowItEnds = how
        self.result = result
        self.error = error
        self.kind = kind
        """Of a failure; None: that of the item behind the error."""
        self.why = why
        """Of a cancellation: what the flow itself says about it."""


Command = ScheduleItem | StartTimer | CancelItem | SettleStep | MarkPatch | EndFlow

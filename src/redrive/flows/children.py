"""The children of a flow, folded from the events of its log."""

from typing import Literal

import msgspec

from redrive.flows.child_events import ChildCancelled, ChildCompleted, ChildEnd, ChildFailed, ChildStarted

ChildState = Literal["open", "completed", "failed", "cancelled"]
_STATES: dict[type, ChildState] = {ChildCompleted: "completed", ChildFailed: "failed", ChildCancelled: "cancelled"}


class Child(msgspec.Struct, eq=False, gc=False):
    """A child flow, as its parent knows it."""

    number: int
    flow: str
    definition: str
    abandoned: bool
    started_at: float
    state: ChildState = "open"


class Children:
    """The state of a flow's children after the events applied so far."""

    __slots__ = ("_numbers", "_whole", "by_number", "last")

    def __init__(self, whole: bool) -> None:
        """`whole` also keeps children that have ended, which the engine does not need."""
        self._whole = whole
        self.by_number: dict[int, Child] = {}
        self.last = 0
        """The number of the newest."""
        self._numbers: dict[str, int] = {}
        """By the ids of those that are open."""

    @property
    def open(self) -> list[Child]:
        return [self.by_number[number] for number in self._numbers.values()]

    @property
    def any_open(self) -> bool:
        return bool(self._numbers)

    def find(self, flow_id: str) -> Child | None:
        """The open child with this id."""
        number = self._numbers.get(flow_id)
        return None if number is None else self.by_number[number]

    def apply(self, at: float, event: ChildStarted | ChildEnd) -> None:
        number = event.child
        if isinstance(event, ChildStarted):
            self.by_number[number] = Child(number, event.flow, event.definition, event.abandoned, at)
            self._numbers[event.flow] = number
            self.last = max(self.last, number)
            return
        child = self.by_number[number]
        del self._numbers[child.flow]
        child.state = _STATES[type(event)]
        if not self._whole:
            del self.by_number[number]

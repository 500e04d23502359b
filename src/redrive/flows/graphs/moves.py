"""What the planner says: start this item, give that one up, this step is settled, the flow is over."""

from typing import Any, Literal, NamedTuple

import msgspec

from redrive.flows.graphs.spec import StepSpec

StepState = Literal[
    "pending",
    "running",
    "completed",
    "skipped",
    "failed",
    "unreachable",
    "abandoned",
    "resolved",
    "compensating",
    "compensated",
    "uncompensated",
]


class ItemKey(msgspec.Struct, frozen=True):
    """One work item of a flow."""

    step: str
    index: int
    compensates: bool = False
    """It is the compensation of that item."""


class StartItem(NamedTuple):
    key: ItemKey
    spec: StepSpec
    """How it is carried out; of a compensation: the step that undoes."""
    inputs: dict[str, Any]


class Abandon(NamedTuple):
    """Nobody wants this item any more: it ends where it is not running, and is let finish, once, where it is."""

    key: ItemKey


class Settled(NamedTuple):
    step: str
    state: StepState
    why: str


class Finish(NamedTuple):
    """The flow is over; nothing is open any more."""

    completed: bool
    outputs: dict[str, Any]
    """Of the goals."""
    failed: ItemKey | None
    """The item that made a goal impossible; None where its step failed before an item of it began."""
    why: str
    compensated: bool
    """Something was undone, and all that was to be undone."""


Move = StartItem | Abandon | Settled | Finish

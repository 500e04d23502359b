"""The moves of a graph's progress: start an item, abandon one, record a step's final state, finish the flow."""

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
    """It compensates the item of that step and index."""


class StartItem(NamedTuple):
    key: ItemKey
    spec: StepSpec
    """The step whose handler runs the item; for a compensation, the compensating step."""
    inputs: dict[str, Any]


class Abandon(NamedTuple):
    """The item is no longer needed: a running attempt may finish, and no other starts."""

    key: ItemKey


class Settled(NamedTuple):
    step: str
    state: StepState
    why: str


class Finish(NamedTuple):
    """The flow ends. No item is open."""

    completed: bool
    outputs: dict[str, Any]
    """The outputs of the goals."""
    failed: ItemKey | None
    """The failed item that made a goal impossible; None when its step failed before an item started."""
    why: str
    compensated: bool
    """Whether something was compensated, and nothing failed to be."""


Move = StartItem | Abandon | Settled | Finish


class UnexpectedOutcome(ValueError):
    """An outcome was reported for an item that is not open: it never started, or has ended already."""

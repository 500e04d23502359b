"""The events of a flow's children: the flows that its code started."""

import msgspec

from redrive.flows.event import Event


class ChildStarted(Event, frozen=True, kw_only=True):
    """The flow's code started a child. A command."""

    child: int
    """The number of the child in the flow, from 1."""
    flow: str
    """The id of the child flow."""
    definition: str
    args: msgspec.Raw
    """The arguments, without the plan of a graph or the text of a script."""
    key: str | None = None
    abandoned: bool = False
    """The child goes on when this flow ends; otherwise it is cancelled."""


class ChildCancelRequested(Event, frozen=True):
    """The flow's code asked to cancel a child. A command."""

    child: int


class ChildSignalled(Event, frozen=True):
    """The flow's code sent a child a signal. A command."""

    child: int
    signal: str
    args: msgspec.Raw


class ChildCompleted(Event, frozen=True):
    """A child has ended. An activation, like the two that follow."""

    child: int
    result: msgspec.Raw


class ChildFailed(Event, frozen=True, kw_only=True):
    """A child failed for good, or was not started."""

    child: int
    error: str
    """The type of its error; empty where it was not started."""
    message: str


class ChildCancelled(Event, frozen=True):
    child: int
    why: str = ""


ChildEnd = ChildCompleted | ChildFailed | ChildCancelled
CHILD_EVENTS = (ChildStarted, ChildCompleted, ChildFailed, ChildCancelled)
"""Those that change a child's state, as its parent knows it."""

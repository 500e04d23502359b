"""The events of a flow's log: all that happened in it, when and why.

An *activation* gives the flow's code a turn. The *commands* that the code issues are logged right after it, in the same
commit. All other events are about a work item's attempts, or about operators.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from redrive.failures.failure import Failure
from redrive.flows.child_events import (
    ChildCancelled,
    ChildCancelRequested,
    ChildCompleted,
    ChildFailed,
    ChildSignalled,
    ChildStarted,
)
from redrive.flows.errors.stored_error import StoredError
from redrive.flows.event import Event
from redrive.flows.message_events import MessageEvent, SignalReceived, UpdateAccepted, UpdateCompleted, UpdateFailed
from redrive.flows.policy_events import PolicyChanged
from redrive.flows.run_events import RunContinued
from redrive.flows.version_events import VersionChanged
from redrive.flows.waits import WaitsFor
from redrive.policies.decision import GiveUp, RetryAt

# Commands that the flow's code issued.


class ItemAdded(Event, frozen=True, kw_only=True):
    """A work item was scheduled."""

    item: int
    """The number of the item in the flow, from 1."""
    step: str
    """The name of the action, or of the graph's step."""
    args: msgspec.Raw
    policy: msgspec.Raw
    """The retry policy in force for this item."""
    index: int = 0
    """Which item of a graph's step it is."""
    compensates: str = ""
    """The step whose item of the same index it compensates."""
    dependency: str = ""
    """What this call talks to; empty: what the action or the step says."""
    policy_from: str = ""
    """What the policy was set for: "action", "step" or "call", else "definition", "queue" or "default"; empty in older
    logs."""


class ItemStarted(ItemAdded, frozen=True, kw_only=True):
    """The item was scheduled and its first attempt started."""

    delivery: str = ""
    """The token of the attempt; left out where a log is shown."""
    timeout_at: float | None = None


class ItemQueued(ItemAdded, frozen=True, kw_only=True):
    """The item was scheduled and waits for a free slot."""


class ItemCancelled(Event, frozen=True):
    """The flow's code no longer awaits the item; a running attempt is cancelled."""

    item: int


class TimerSet(Event, frozen=True):
    timer: int
    """The number of the timer in the flow, from 1."""
    until: float


class StepSettled(Event, frozen=True):
    """A step of a graph has a final state that its items do not imply, such as skipped or failed."""

    step: str
    state: str
    why: str = ""


class PatchMarked(Event, frozen=True):
    """`patched(name)` returned true here: the flow runs the changed code."""

    patch: str


class FlowBegan(Event, frozen=True):
    """The flow's code ran for the first time and issued no command; otherwise its first command says so."""


class FlowCompleted(Event, frozen=True):
    result: msgspec.Raw


class FlowFailed(Event, frozen=True):
    """The flow failed for good and is a dead letter."""

    error: StoredError
    kind: str
    """How the failed item gave up; "poison"; "workflow" when the flow's own code failed; "graph" when a goal cannot be
    reached; "compensated" when completed steps were compensated."""
    item: int | None = None
    """The item whose failure caused it."""
    child: int | None = None
    """The child whose failure caused it."""


class FlowCancelled(Event, frozen=True):
    why: str = ""
    """The reason given by the step that cancelled the flow."""


# Attempts of an item.


class AttemptStarted(Event, frozen=True):
    item: int
    attempt: int
    """From 1."""
    delivery: str = ""
    timeout_at: float | None = None
    alone: bool = False
    """Earlier attempts lost their workers, so no other such attempt runs in this worker meanwhile."""


class AttemptFailed(Event, frozen=True):
    """An attempt failed, with the decision about its retry. A decision to give up makes it an activation."""

    item: int
    attempt: int
    failure: Failure
    error: StoredError
    decision: RetryAt | GiveUp
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The details of its last heartbeat, for the next attempt."""


class AttemptReturned(Event, frozen=True):
    """An attempt ended without being counted: it was snoozed, or its worker was shut down."""

    item: int
    attempt: int
    until: float
    """When the next attempt may start."""
    reason: str
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class AttemptAccepted(Event, frozen=True):
    """The handler accepted the attempt and will report its outcome later; it no longer depends on the worker."""

    item: int
    attempt: int


class AttemptClosed(Event, frozen=True):
    """An asynchronous attempt was answered or timed out. No outcome is accepted for it from now on.

    Outcomes that were reported before this line are read next. The answer or the timeout counts only without one.
    """

    item: int
    attempt: int


class AttemptCleared(Event, frozen=True):
    """The attempt ran alone for long enough: others that may take the worker down run beside it from now on."""

    item: int
    attempt: int


class CompletionRefused(Event, frozen=True):
    """A reported outcome was refused: its attempt is over, or its outputs are not what the step declares."""

    item: int
    why: str


class ItemDeferred(Event, frozen=True):
    """A due attempt was postponed because its dependency is known to be down. No attempt is spent."""

    item: int
    until: float
    """When the attempt may start."""
    reason: str
    held_by: WaitsFor = ""
    """What holds it back; empty in older logs."""


class ItemGaveUp(Event, frozen=True):
    """The item gave up instead of making a retry that was due. An activation."""

    item: int
    failure: Failure
    """The last failure."""
    error: StoredError
    decision: GiveUp


class ItemCompleted(Event, frozen=True):
    """An attempt succeeded, or the item was completed by hand. An activation."""

    item: int
    attempt: int
    result: msgspec.Raw
    by: str = ""
    why: str = ""
    resolved: bool = False
    """Completed by hand without a result."""


# Other activations.


class TimerFired(Event, frozen=True):
    timer: int


class TurnContinued(Event, frozen=True):
    """A turn with many commands goes on: it is logged in pieces, and other events may come in between."""

    since: int = 0
    """The line of the activation that began the turn; 0 for the start of the flow."""


class CancelRequested(Event, frozen=True):
    by: str = ""
    why: str = ""
    force: bool = False
    """The flow ends without running its code: the next line is its end."""


# Operators.


class Paused(Event, frozen=True):
    by: str = ""
    why: str = ""


class Resumed(Event, frozen=True):
    by: str = ""
    why: str = ""


class RetriedNow(Event, frozen=True):
    """Someone skipped the waits: each item that waits may be attempted now. No attempt is spent, or granted."""

    by: str = ""
    why: str = ""


class FlowParked(Event, frozen=True):
    """The flow's code does not match its log, or failed in the engine; nothing runs until someone resumes the flow."""

    problem: str


class Redriven(Event, frozen=True):
    """The flow was reopened: the failure that ended it, and all that followed from it, are rewound."""

    by: str = ""
    why: str = ""
    item: int | None = None
    """The item that is retried."""
    since: int = 0
    """The line from which the log is rewound: the failure of the item, where there is one."""
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The details of the item's last heartbeat, for the next attempt."""
    midway: bool = False
    """The flow was open already, so its other items keep running."""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """A result given by hand: the item is completed with it as soon as the flow continues, and not retried."""
    resolved: bool = False
    """Completed by hand in the same way, without a result."""
    child: int | None = None
    """The child that is redriven and awaited again."""
    with_parent: bool = False
    """It was redriven along with its parent, which awaits it again."""
    compensation: bool = False
    """The item is a failed compensation. Nothing is rewound: the compensation goes on with this item."""


Command = (
    ItemStarted
    | ItemQueued
    | ItemCancelled
    | StepSettled
    | TimerSet
    | PatchMarked
    | ChildStarted
    | ChildCancelRequested
    | ChildSignalled
    | FlowCompleted
    | FlowFailed
    | FlowCancelled
)
AnyEvent = (
    Command
    | FlowBegan
    | AttemptStarted
    | AttemptAccepted
    | AttemptClosed
    | AttemptCleared
    | AttemptFailed
    | AttemptReturned
    | CompletionRefused
    | ItemDeferred
    | ItemGaveUp
    | ItemCompleted
    | TimerFired
    | TurnContinued
    | CancelRequested
    | Paused
    | Resumed
    | RetriedNow
    | PolicyChanged
    | VersionChanged
    | FlowParked
    | Redriven
    | RunContinued
    | ChildCompleted
    | ChildFailed
    | ChildCancelled
    | MessageEvent
)

COMMANDS = (
    ItemStarted,
    ItemQueued,
    ItemCancelled,
    StepSettled,
    TimerSet,
    PatchMarked,
    ChildStarted,
    ChildCancelRequested,
    ChildSignalled,
    FlowCompleted,
    FlowFailed,
    FlowCancelled,
    UpdateCompleted,
    UpdateFailed,
)
_ACTIVATIONS = (
    ItemCompleted,
    ItemGaveUp,
    TimerFired,
    TurnContinued,
    SignalReceived,
    UpdateAccepted,
    ChildCompleted,
    ChildFailed,
    ChildCancelled,
    CancelRequested,
)
ENDINGS = (FlowCompleted, FlowFailed, FlowCancelled)


class Line(NamedTuple):
    """One event in a log, with its number and its time in epoch seconds."""

    seq: int
    at: float
    event: AnyEvent


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[list[AnyEvent]] = msgspec.json.Decoder(list[AnyEvent])

write_event: Callable[[Event], bytes] = _ENCODER.encode


def write_turn(events: Sequence[bytes]) -> str:
    """The events of one commit as the store keeps them, in one row."""
    text = b",".join(events).decode()
    return f"[{text}]"


read_turn: Callable[[str], list[AnyEvent]] = _DECODER.decode


def is_activation(event: AnyEvent) -> bool:
    if isinstance(event, AttemptFailed):
        return isinstance(event.decision, GiveUp)
    return isinstance(event, _ACTIVATIONS)

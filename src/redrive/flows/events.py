"""The lines of a flow's log. Replaying them gives all that happened, when, and why.

An *activation* lets the flow's code go on; the *commands* it gives are logged right behind it, in the same commit. All
other events are between the engine and a work item.
"""

from collections.abc import Callable, Sequence

import msgspec

from redrive.failures.failure import Failure
from redrive.flows.portable_errors import StoredError
from redrive.policies.decision import GiveUp, RetryAt


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag=_snake):
    pass


# Commands: what the flow's code asked for.


class ItemAdded(Event, frozen=True, kw_only=True):
    """The flow's code called for a work item."""

    item: int
    """Counts the items of the flow, from 1."""
    step: str
    """The action; in a graph, the step."""
    args: msgspec.Raw
    policy: msgspec.Raw
    """The policy in force for it, as it was then."""
    index: int = 0
    """Which of the items of a graph's step it is."""
    undoes: str = ""
    """The step whose item of the same index it undoes."""


class ItemStarted(ItemAdded, frozen=True, kw_only=True):
    """... and its first attempt began at once."""

    delivery: str = ""
    """The token of the attempt; left out where a log is shown."""
    timeout_at: float | None = None


class ItemQueued(ItemAdded, frozen=True, kw_only=True):
    """... and it waits for a free place to run."""


class ItemCancelled(Event, frozen=True):
    """The flow's code no longer waits for the item; an attempt that still runs is cancelled."""

    item: int


class TimerSet(Event, frozen=True):
    timer: int
    """Counts the timers of the flow, from 1."""
    until: float


class StepSettled(Event, frozen=True):
    """A step of a graph will not run, or has failed."""

    step: str
    state: str
    why: str = ""


class PatchMarked(Event, frozen=True):
    """`patched(name)` was true here: the flow runs the changed code."""

    patch: str


class FlowBegan(Event, frozen=True):
    """The flow's code ran for the first time and asked for nothing; else its first ask says when that was."""


class FlowCompleted(Event, frozen=True):
    result: msgspec.Raw


class FlowFailed(Event, frozen=True):
    """The flow is a dead letter."""

    error: StoredError
    kind: str
    """The kind of giving up of the item that failed; "poison"; "workflow" where the flow's own code failed;
    "compensated" where what had succeeded was undone."""
    item: int | None = None
    """The item whose failure it was."""


class FlowCancelled(Event, frozen=True):
    why: str = ""
    """What the step says that ended the flow, where one did."""


# Between the engine and an item.


class AttemptStarted(Event, frozen=True):
    item: int
    attempt: int
    """From 1."""
    delivery: str = ""
    timeout_at: float | None = None


class AttemptFailed(Event, frozen=True):
    """An attempt ended without success, and this was decided. When that is to give up, the event is an activation."""

    item: int
    attempt: int
    failure: Failure
    error: StoredError
    decision: RetryAt | GiveUp
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What its last heartbeat left for the next attempt."""


class AttemptReturned(Event, frozen=True):
    """An attempt ended without counting: it asked to come back later, or its worker was told to stop."""

    item: int
    attempt: int
    until: float
    """When it may be made again."""
    reason: str
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class AttemptAccepted(Event, frozen=True):
    """Whoever carries out the attempt will tell later how it ended: it goes on, whatever becomes of its worker."""

    item: int
    attempt: int


class CompletionRefused(Event, frozen=True):
    """Somebody told how an attempt ended that is not under way any more, or what it cannot give."""

    item: int
    why: str


class ItemDeferred(Event, frozen=True):
    """An attempt was due and was not made, since what it needs is known to be down. It does not count."""

    item: int
    until: float
    """When it may be made."""
    reason: str


class ItemGaveUp(Event, frozen=True):
    """A retry that was due was not made. An activation."""

    item: int
    failure: Failure
    """The last one."""
    error: StoredError
    decision: GiveUp


class ItemCompleted(Event, frozen=True):
    """An attempt succeeded, or someone completed the item by hand. An activation."""

    item: int
    attempt: int
    result: msgspec.Raw
    by: str = ""
    why: str = ""
    resolved: bool = False
    """By hand, and without a result."""


# Other activations.


class TimerFired(Event, frozen=True):
    timer: int


class CancelRequested(Event, frozen=True):
    by: str = ""
    why: str = ""
    force: bool = False
    """Its code was not asked: the next line is the end."""


# Operators.


class Paused(Event, frozen=True):
    by: str = ""
    why: str = ""


class Resumed(Event, frozen=True):
    by: str = ""
    why: str = ""


class FlowParked(Event, frozen=True):
    """The flow's code no longer fits its log; nothing is done until someone redrives it."""

    problem: str


class Redriven(Event, frozen=True):
    """The flow was reopened. What came of the failure that ended it no longer counts."""

    by: str = ""
    why: str = ""
    item: int | None = None
    """The item that is tried again."""
    since: int = 0
    """The line from which on the log was answered anew: with an item, the item's failure, which no longer counts."""
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What the item's last heartbeat left for the next attempt."""
    midway: bool = False
    """The flow had not ended, or the line before has reopened it: what else runs in it goes on."""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What someone says came of the item. It is completed by that, as soon as the flow goes on, and not tried again."""
    resolved: bool = False
    """The same without a result."""


Command = (
    ItemStarted
    | ItemQueued
    | ItemCancelled
    | StepSettled
    | TimerSet
    | PatchMarked
    | FlowCompleted
    | FlowFailed
    | FlowCancelled
)
AnyEvent = (
    Command
    | FlowBegan
    | AttemptStarted
    | AttemptAccepted
    | AttemptFailed
    | AttemptReturned
    | CompletionRefused
    | ItemDeferred
    | ItemGaveUp
    | ItemCompleted
    | TimerFired
    | CancelRequested
    | Paused
    | Resumed
    | FlowParked
    | Redriven
)

COMMANDS = (
    ItemStarted,
    ItemQueued,
    ItemCancelled,
    StepSettled,
    TimerSet,
    PatchMarked,
    FlowCompleted,
    FlowFailed,
    FlowCancelled,
)
ENDINGS = (FlowCompleted, FlowFailed, FlowCancelled)

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[list[AnyEvent]] = msgspec.json.Decoder(list[AnyEvent])
_SINGLE_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)

write_event: Callable[[Event], bytes] = _ENCODER.encode


def write_turn(events: Sequence[bytes]) -> str:
    """Events that were logged together, as the store keeps them: in one row."""
    text = b",".join(events).decode()
    return f"[{text}]"


def read_turn(body: str) -> list[AnyEvent]:
    # Earlier versions kept each event in a row of its own.
    return _DECODER.decode(body) if body.startswith("[") else [_SINGLE_DECODER.decode(body)]


def is_activation(event: AnyEvent) -> bool:
    if isinstance(event, AttemptFailed):
        return isinstance(event.decision, GiveUp)
    return isinstance(event, ItemCompleted | ItemGaveUp | TimerFired | CancelRequested)

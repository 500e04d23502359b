"""What `explain` answers: everything that happened to a flow and why, what it waits for, and what to do next."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from redrive.failures.failure import Category
from redrive.flows.history import ItemState
from redrive.policies.decision import Because
from redrive.stores.records import FlowStatus

Outcome = Literal[
    "running",
    "completed",
    "failed",
    "timed out",
    "lost",  # its worker or its process is gone, and nobody knows how it ended
    "returned",  # it did not count: it asked to come back later, or its worker was told to stop
    "cancelled",  # the flow's code no longer waited for it
    "cancelled the flow",  # it said that the flow is to end, without an error
    "abandoned",  # the flow ended meanwhile
    "accepted",  # whoever carries it out will tell how it ended
    "left behind",  # its worker is gone; whoever takes the flow up counts it as lost
]


class Moment(msgspec.Struct, frozen=True):
    at: datetime
    """UTC."""
    after: float
    """Seconds since the flow began."""


class DecisionStory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was decided about a failure."""

    answer: Literal["retry", "give up"]
    kind: str = ""
    """The kind of giving up."""
    next: Moment | None = None
    """When the next attempt may begin,"""
    wait: float | None = None
    """and the seconds until then."""
    why: str
    """In words: the rule that matched, the limits, and how the wait came about."""
    because: Because
    """The same as data."""


class AttemptStory(msgspec.Struct, kw_only=True, omit_defaults=True):
    number: int
    began: Moment
    outcome: Outcome = "running"
    ended: Moment | None = None
    """For a lost one: when that was noticed."""
    seconds: float | None = None
    """How long it took; None while it runs, and where nobody knows."""
    timeout: Moment | None = None
    """When it will have taken too long, or would have."""
    error_type: str = ""
    message: str = ""
    status: int | None = None
    """The HTTP status, where there was one."""
    category: Category | None = None
    reason: str = ""
    """Why the failure is in its category; of a returned attempt, why it was returned."""
    decision: DecisionStory | None = None
    next: Moment | None = None
    """Of a returned attempt: when it may be made again."""


class ItemStory(msgspec.Struct, kw_only=True, omit_defaults=True, tag="item"):
    """One work item."""

    number: int
    step: str
    arguments: str
    """A summary, without secrets."""
    policy: Any
    """The policy in force for it, in redrive's own notation."""
    added: Moment
    state: ItemState | Literal["abandoned"] = "queued"
    attempts: list[AttemptStory] = []
    result: str | None = None
    """A summary, without secrets."""
    too_late: DecisionStory | None = None
    """Why a retry that was due was not made."""
    undone: bool = False
    """True when it came of a failure that was redriven, so that it no longer counts."""


class TimerStory(msgspec.Struct, kw_only=True, omit_defaults=True, tag="timer"):
    number: int
    set: Moment
    until: Moment
    fired: Moment | None = None
    """None: it is still to come, or nobody waits for it any more."""
    undone: bool = False


class Note(msgspec.Struct, kw_only=True, omit_defaults=True, tag="note"):
    """Something else that happened to the flow: what operators did, patches, its end."""

    when: Moment
    what: str
    """The event: "paused", "redriven", "flow_failed", ..."""
    text: str
    by: str = ""
    why: str = ""
    detail: str = ""
    undone: bool = False


Entry = ItemStory | TimerStory | Note


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that the flow waits for."""

    what: str
    until: Moment | None = None
    """None: nobody knows."""


class Advice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do next."""

    text: str
    command: str = ""
    """The command that does it; what only a person can know is in capitals."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    flow_id: str
    definition: str
    status: FlowStatus
    headline: str
    """The one thing to know."""
    input: str
    """What it was started with: a summary, without secrets."""
    queue: str
    priority: int
    key: str | None
    explained_at: datetime
    created_at: datetime
    """When it was asked for,"""
    start_at: datetime
    """from when on it may begin,"""
    began_at: datetime | None
    """when its log begins, from which all moments are counted,"""
    finished_at: datetime | None
    """and when it ended."""
    timeline: list[Entry]
    """In the order of their beginnings."""
    waits_for: list[Wait]
    """The soonest first."""
    next_steps: list[Advice]

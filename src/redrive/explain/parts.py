"""The parts of an explanation: moments, attempts and decisions, the entries of the timeline, waits and advice."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from redrive.failures.failure import Category
from redrive.flows.item import ItemState
from redrive.policies.decision import Because

Outcome = Literal[
    "running",
    "completed",
    "failed",
    "timed out",
    "lost",  # its worker or its process is gone, so how it ended is unknown
    "returned",  # it did not count: it snoozed, or its worker was told to stop
    "cancelled",  # the flow's code no longer waited for it
    "cancelled the flow",  # it ended the flow without an error
    "abandoned",  # the flow ended meanwhile
    "accepted",  # an HTTP handler accepted it and will report its outcome later
    "left behind",  # its worker does not respond; the worker that claims the flow will record it as lost
]


class Moment(msgspec.Struct, frozen=True):
    at: datetime
    """UTC."""
    after: float
    """Seconds since the flow began."""


class DecisionSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the retry engine decided about a failure."""

    answer: Literal["retry", "give up"]
    kind: str = ""
    """Why it gave up: exhausted, permanent, deadline, ..."""
    next: Moment | None = None
    """When the next attempt may begin."""
    wait: float | None = None
    """Seconds until the next attempt."""
    why: str
    """In words: the rule that matched, the limits, and how the wait was computed."""
    because: Because
    """The same as data."""


class AttemptSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    number: int
    began: Moment
    outcome: Outcome = "running"
    ended: Moment | None = None
    """For a lost attempt: when the loss was noticed."""
    seconds: float | None = None
    """How long it took; None while it runs, and where that is unknown."""
    timeout: Moment | None = None
    """When the attempt times out, or would have."""
    error_type: str = ""
    message: str = ""
    status: int | None = None
    """The HTTP status, if there was one."""
    category: Category | None = None
    reason: str = ""
    """Why the failure is in its category; for a returned attempt, why it was returned."""
    decision: DecisionSummary | None = None
    next: Moment | None = None
    """For a returned attempt: when it may be made again."""


class HeldBack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A circuit or a retry budget made a work item wait; no attempt was spent."""

    when: Moment
    until: Moment
    """It asks again then, or earlier if it has its turn before."""
    why: str = ""


class FutureAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that is still to come if those before it fail."""

    number: int
    at: Moment
    """When it begins at the earliest."""
    latest: Moment | None = None
    """When it begins if every wait is the longest; None: the work then gives up before it."""
    timeout: float | None = None
    """Seconds that it may take."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What lies ahead of a work item if all its attempts fail as the last one did."""

    attempts: list[FutureAttempt]
    more: bool = False
    """Whether there are more."""
    ends: str
    """Why it gives up then: exhausted, deadline, ...; "unlimited" where it does not."""
    gives_up_after: int | None = None
    """The number of the last attempt."""
    gives_up_at: Moment | None = None
    """At the latest, if attempts without a time limit take no time; None where it does not."""


class ItemEntry(msgspec.Struct, kw_only=True, omit_defaults=True, tag="item"):
    """One work item, with all its attempts."""

    number: int
    step: str
    arguments: str
    """A summary, without secrets."""
    policy: Any
    """The policy in force for the item, in redrive's own notation."""
    policy_from: str = ""
    """What the policy was set for: "action", "step" or "call"; "default" if for none; "operator" if it was changed by
    hand; empty in older logs."""
    added: Moment
    state: ItemState | Literal["abandoned"] = "queued"
    attempts: list[AttemptSummary] = []
    held_back: list[HeldBack] = []
    result: str | None = None
    """A summary, without secrets."""
    missed_retry: DecisionSummary | None = None
    """Why a retry that was scheduled was not made after all."""
    rewound: bool = False
    """True if a redrive rewound the log past this entry, so that it no longer counts."""
    schedule: Schedule | None = None
    """What lies ahead while it is open; None where it was not asked for."""
    elided: int = 0
    """How many attempts in the middle are left out."""
    elided_held_back: int = 0
    """How many waits in the middle are left out."""


class TimerEntry(msgspec.Struct, kw_only=True, omit_defaults=True, tag="timer"):
    number: int
    set: Moment
    until: Moment
    fired: Moment | None = None
    """None if the timer has not fired yet, or was cancelled."""
    rewound: bool = False


class Note(msgspec.Struct, kw_only=True, omit_defaults=True, tag="note"):
    """Anything else that happened to the flow: operators' actions, patches, its end."""

    when: Moment
    what: str
    """The event: "paused", "redriven", "flow_failed", ..."""
    text: str
    by: str = ""
    why: str = ""
    detail: str = ""
    rewound: bool = False


Entry = ItemEntry | TimerEntry | Note


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that the flow waits for."""

    what: str
    until: Moment | None = None
    """None if the time is unknown."""
    why: str = ""
    """What holds it back, if its dependency does."""
    signals: tuple[str, ...] = ()
    """The signals that may end the wait; `until` then is when it times out."""
    flow: str = ""
    """The id of the child that it waits for."""


class Advice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do next."""

    text: str
    command: str = ""
    """The command that does it; words in capitals are for the operator to fill in."""

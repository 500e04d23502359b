"""A flow's history: its events, folded into what is true now."""

from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple

import msgspec

from redrive.flows.events import (
    ENDINGS,
    AnyEvent,
    AttemptAccepted,
    AttemptFailed,
    AttemptReturned,
    AttemptStarted,
    CancelRequested,
    FlowParked,
    ItemAdded,
    ItemCancelled,
    ItemCompleted,
    ItemDeferred,
    ItemGaveUp,
    ItemQueued,
    ItemStarted,
    Paused,
    Redriven,
    Resumed,
    TimerFired,
    TimerSet,
)
from redrive.flows.pieces import at_once, parts_of
from redrive.flows.rewind import leaving_out_rewound
from redrive.flows.stored_policy import read_stored_policy
from redrive.policies.decision import GiveUp, RetryAt
from redrive.policies.history import History
from redrive.policies.policy import Policy

ItemState = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]


class Line(NamedTuple):
    """One event with its place in the log and its time."""

    seq: int
    at: float
    event: AnyEvent


class FailedAttempt(NamedTuple):
    """A failure of an item, and when its attempt began and ended."""

    began: float
    ended: float
    event: AttemptFailed


class Item(msgspec.Struct, eq=False, gc=False):
    """A work item: where it stands, and what its next decision needs to know."""

    number: int
    step: str
    index: int
    compensates: str
    args: msgspec.Raw
    raw_policy: msgspec.Raw
    attempt_began: float
    state: ItemState = "queued"
    attempt: int = 0
    """The attempt under way, or the last one; counts on for ever."""
    delivery: str | None = None
    timeout_at: float | None = None
    accepted: bool = False
    """Whether the attempt under way goes on without its worker, until someone tells how it ended."""
    retry_at: float | None = None
    """When the next attempt may begin, while it waits."""
    retry_kind: str = ""
    retries: History | None = None
    """What `decide()` has granted so far; None before the first retry."""
    started_at: float | None = None
    """When its first attempt began, or the first since it was redriven: from then on its deadline counts."""
    failures: list[FailedAttempt] = []
    details: msgspec.Raw | None = None
    gave_up: GiveUp | None = None
    known_policy: Policy | None = None
    """The policy, once it was read."""

    @property
    def policy(self) -> Policy:
        if self.known_policy is None:
            self.known_policy = read_stored_policy(self.raw_policy)
        return self.known_policy

    @property
    def so_far(self) -> History | None:
        """What `decide()` is told of the past; None before the first attempt."""
        return self.retries or (None if self.started_at is None else History(self.started_at))

    @property
    def is_retried(self) -> bool:
        """Whether the next attempt answers one that failed: not where someone wants it tried anew."""
        return self.retries is not None

    @property
    def is_open(self) -> bool:
        return self.state in ("queued", "running", "waiting")

    def is_too_late(self, at: float) -> bool:
        """Whether the time for all its attempts is over by then."""
        deadline = self.policy.deadline
        return deadline is not None and self.started_at is not None and at >= self.started_at + deadline

    def begin(self, at: float, attempt: int, delivery: str, timeout_at: float | None) -> None:
        self.state = "running"
        self.attempt = attempt
        self.attempt_began = at
        self.delivery = delivery
        self.timeout_at = timeout_at
        self.accepted = False
        self.retry_at = None
        if self.started_at is None:
            self.started_at = at

    def wait(self, until: float, kind: str) -> None:
        self.state = "waiting"
        self.retry_at = until
        self.retry_kind = kind
        self.delivery = None
        self.timeout_at = None
        self.accepted = False


class FlowHistory:
    """What is true of a flow after the events applied so far."""

    __slots__ = (
        "_whole",
        "cancel_requested",
        "ended_at",
        "ending",
        "items",
        "last_item",
        "last_timer",
        "parked",
        "paused",
        "timers",
    )

    def __init__(self, whole: bool = False) -> None:
        """`whole` keeps the items that are done too, which to go on nobody needs."""
        self._whole = whole
        self.items: dict[int, Item] = {}
        self.timers: dict[int, float] = {}
        """Timers that have not fired, and when they will. Cancelled ones stay: only the flow's code knows them."""
        self.last_item = 0
        self.last_timer = 0
        self.paused = False
        self.cancel_requested: CancelRequested | None = None
        self.parked: str | None = None
        self.ending: AnyEvent | None = None
        self.ended_at: float | None = None

    def apply(self, at: float, event: AnyEvent) -> None:
        apply = _APPLY.get(type(event))
        if apply is not None:
            apply(self, at, event)

    def _item_started(self, at: float, event: ItemStarted) -> None:
        item = self._add(at, event)
        item.state = "running"
        item.attempt = 1
        item.delivery = event.delivery
        item.timeout_at = event.timeout_at
        item.started_at = at

    def _item_queued(self, at: float, event: ItemQueued) -> None:
        self._add(at, event)

    def _add(self, at: float, event: ItemAdded) -> Item:
        number = event.item
        item = Item(number, event.step, event.index, event.compensates, event.args, event.policy, at)
        self.items[number] = item
        if number > self.last_item:
            self.last_item = number
        return item

    def _item_cancelled(self, at: float, event: ItemCancelled) -> None:
        self.items[event.item].state = "cancelled"
        if not self._whole:
            del self.items[event.item]

    def _attempt_started(self, at: float, event: AttemptStarted) -> None:
        self.items[event.item].begin(at, event.attempt, event.delivery, event.timeout_at)

    def _attempt_accepted(self, at: float, event: AttemptAccepted) -> None:
        self.items[event.item].accepted = True

    def _attempt_failed(self, at: float, event: AttemptFailed) -> None:
        item = self.items[event.item]
        failures = item.failures
        failures.append(FailedAttempt(item.attempt_began, at, event))
        if len(failures) > MOST_FAILURES:
            # The first and the latest tell most.
            del failures[MOST_FAILURES // 2]
        item.details = event.details if isinstance(event.details, msgspec.Raw) else None
        if isinstance(event.decision, RetryAt):
            if (so_far := item.so_far) is not None:
                item.retries = so_far.after(event.decision)
            item.wait(event.decision.when, event.failure.kind)
        else:
            item.state = "failed"
            item.gave_up = event.decision

    def _attempt_returned(self, at: float, event: AttemptReturned) -> None:
        item = self.items[event.item]
        item.attempt = event.attempt - 1
        item.details = event.details if isinstance(event.details, msgspec.Raw) else None
        item.wait(event.until, "snooze")

    def _item_deferred(self, at: float, event: ItemDeferred) -> None:
        self.items[event.item].wait(event.until, "deferred")

    def _item_gave_up(self, at: float, event: ItemGaveUp) -> None:
        item = self.items[event.item]
        item.state = "failed"
        item.gave_up = event.decision

    def _item_completed(self, at: float, event: ItemCompleted) -> None:
        self.items[event.item].state = "completed"
        if not self._whole:
            del self.items[event.item]

    def _timer_set(self, at: float, event: TimerSet) -> None:
        self.timers[event.timer] = event.until
        self.last_timer = max(self.last_timer, event.timer)

    def _timer_fired(self, at: float, event: TimerFired) -> None:
        self.timers.pop(event.timer, None)

    def _cancel_requested(self, at: float, event: CancelRequested) -> None:
        self.cancel_requested = event

    def _paused(self, at: float, event: Paused) -> None:
        self.paused = True

    def _resumed(self, at: float, event: Resumed) -> None:
        self.paused = False
        self.parked = None

    def _parked(self, at: float, event: FlowParked) -> None:
        self.parked = event.problem

    def _redriven(self, at: float, event: Redriven) -> None:
        if not event.midway:
            # Who redrives a flow wants it to run, though it was paused when it failed.
            self.paused = False
            self.parked = None
            self.ending = self.ended_at = None
            for item in self.items.values():
                if item.state == "running":
                    # The end of the flow stopped the attempt, which was no failure of its own: it does not count.
                    item.wait(at, "redrive")
                if item.is_open and item.started_at is not None:
                    # Nor does the time in which nothing could be tried.
                    item.started_at = at
                    if item.retries is not None:
                        item.retries = msgspec.structs.replace(item.retries, started_at=at)
        if event.item is not None:
            item = self.items[event.item]
            # A fresh allowance, but the attempts count on.
            item.retries = item.started_at = None
            item.gave_up = None
            if isinstance(event.details, msgspec.Raw):
                item.details = event.details
            item.wait(at, "redrive")

    def _ended(self, at: float, event: AnyEvent) -> None:
        self.ending = event
        self.ended_at = at


MOST_FAILURES = 100
_APPLY: dict[type, Callable[[FlowHistory, float, Any], None]] = {
    ItemStarted: FlowHistory._item_started,
    ItemQueued: FlowHistory._item_queued,
    ItemCancelled: FlowHistory._item_cancelled,
    AttemptStarted: FlowHistory._attempt_started,
    AttemptAccepted: FlowHistory._attempt_accepted,
    ItemDeferred: FlowHistory._item_deferred,
    AttemptFailed: FlowHistory._attempt_failed,
    AttemptReturned: FlowHistory._attempt_returned,
    ItemGaveUp: FlowHistory._item_gave_up,
    ItemCompleted: FlowHistory._item_completed,
    TimerSet: FlowHistory._timer_set,
    TimerFired: FlowHistory._timer_fired,
    CancelRequested: FlowHistory._cancel_requested,
    Paused: FlowHistory._paused,
    Resumed: FlowHistory._resumed,
    FlowParked: FlowHistory._parked,
    Redriven: FlowHistory._redriven,
    **dict.fromkeys(ENDINGS, FlowHistory._ended),
}


def folding(lines: list[Line]) -> Generator[None, None, FlowHistory]:
    """The history that a whole log makes."""
    history = FlowHistory(whole=True)
    counting = yield from leaving_out_rewound(lines)
    for index, part in enumerate(parts_of(counting)):
        if index:
            yield
        for line in part:
            history.apply(line.at, line.event)
    return history


def fold(lines: list[Line]) -> FlowHistory:
    """The same in one piece."""
    return at_once(folding(lines))

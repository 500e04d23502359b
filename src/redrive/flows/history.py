"""A flow's history: its events folded into its current state."""

from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple

import msgspec

from redrive.flows.chunks import in_chunks, run_to_completion
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
    Line,
    Paused,
    Redriven,
    Resumed,
    TimerFired,
    TimerSet,
)
from redrive.flows.rewind import drop_rewound_in_chunks
from redrive.flows.stored_policy import read_stored_policy
from redrive.policies.decision import GiveUp, RetryAt
from redrive.policies.history import History
from redrive.policies.policy import Policy

ItemState = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]


class FailedAttempt(NamedTuple):
    """A failed attempt of an item: when it started and ended, and its event."""

    began: float
    ended: float
    event: AttemptFailed


class Item(msgspec.Struct, eq=False, gc=False):
    """The current state of a work item, and what its next retry decision needs."""

    number: int
    step: str
    index: int
    compensates: str
    args: msgspec.Raw
    policy: Policy
    attempt_began: float
    state: ItemState = "queued"
    attempt: int = 0
    """The number of the running attempt, or of the last one. A redrive does not reset it."""
    delivery: str | None = None
    timeout_at: float | None = None
    accepted: bool = False
    """Whether the running attempt no longer depends on its worker: its outcome will be reported."""
    retry_at: float | None = None
    """When the next attempt may start, while the item is waiting."""
    retry_kind: str = ""
    retries: History | None = None
    """The retries that `decide()` has granted; None before the first."""
    started_at: float | None = None
    """When the first attempt since the start or the last redrive began; the deadline counts from here."""
    failures: list[FailedAttempt] = []
    details: msgspec.Raw | None = None
    gave_up: GiveUp | None = None

    @property
    def retry_history(self) -> History | None:
        """The history that `decide()` needs; None before the first attempt."""
        return self.retries or (None if self.started_at is None else History(self.started_at))

    @property
    def is_retry(self) -> bool:
        """Whether the next attempt is a retry of a failed one; false after a redrive."""
        return self.retries is not None

    @property
    def is_open(self) -> bool:
        return self.state in ("queued", "running", "waiting")

    def is_past_deadline(self, at: float) -> bool:
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
    """The state of a flow after the events applied so far."""

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
        """`whole` also keeps completed and cancelled items, which the engine does not need."""
        self._whole = whole
        self.items: dict[int, Item] = {}
        self.timers: dict[int, float] = {}
        """When each timer fires that has not fired yet. Cancelled ones stay: only the flow's code knows them."""
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

    def _item_added(self, at: float, event: ItemAdded) -> None:
        number = event.item
        policy = read_stored_policy(event.policy)
        item = Item(number, event.step, event.index, event.compensates, event.args, policy, at)
        if isinstance(event, ItemStarted):
            item.state = "running"
            item.attempt = 1
            item.delivery = event.delivery
            item.timeout_at = event.timeout_at
            item.started_at = at
        self.items[number] = item
        if number > self.last_item:
            self.last_item = number

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
            # The first and the latest are the most telling.
            del failures[MOST_FAILURES // 2]
        item.details = event.details if isinstance(event.details, msgspec.Raw) else None
        if isinstance(event.decision, RetryAt):
            if (history := item.retry_history) is not None:
                item.retries = history.after(event.decision)
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
            # A redriven flow is to run, even if it was paused when it failed.
            self.paused = False
            self.parked = None
            self.ending = self.ended_at = None
            for item in self.items.values():
                if item.state == "running":
                    # The flow's end stopped the attempt, which did not fail: it is not counted.
                    item.wait(at, "redrive")
                if item.is_open and item.started_at is not None:
                    # Nor is the time in which the flow was closed.
                    item.started_at = at
                    if item.retries is not None:
                        item.retries = msgspec.structs.replace(item.retries, started_at=at)
        if event.item is not None:
            item = self.items[event.item]
            # All retries are available again; attempt numbers continue.
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
    ItemStarted: FlowHistory._item_added,
    ItemQueued: FlowHistory._item_added,
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


def fold_in_chunks(lines: list[Line]) -> Generator[None, None, FlowHistory]:
    """The state of a flow after its whole log."""
    history = FlowHistory(whole=True)
    kept = yield from drop_rewound_in_chunks(lines)
    for index, chunk in enumerate(in_chunks(kept)):
        if index:
            yield
        for line in chunk:
            history.apply(line.at, line.event)
    return history


def fold(lines: list[Line]) -> FlowHistory:
    """The state of a flow after its whole log, in one go."""
    return run_to_completion(fold_in_chunks(lines))

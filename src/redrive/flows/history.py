"""A flow's history: its events folded into its current state."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, get_args

import msgspec

from redrive.flows.child_events import CHILD_EVENTS
from redrive.flows.children import Children
from redrive.flows.chunks import in_chunks, run_to_completion
from redrive.flows.events import (
    ENDINGS,
    AnyEvent,
    AttemptAccepted,
    AttemptCleared,
    AttemptClosed,
    AttemptFailed,
    AttemptReturned,
    AttemptStarted,
    CancelRequested,
    CompletionRefused,
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
    RetriedNow,
    TimerFired,
    TimerSet,
)
from redrive.flows.item import FailedAttempt, Item, with_wait
from redrive.flows.message_events import MessageEvent
from redrive.flows.message_history import MessageHistory
from redrive.flows.policy_events import PolicyChanged
from redrive.flows.rewind import drop_rewound_in_chunks
from redrive.flows.run_events import RunContinued
from redrive.flows.stored_policy import read_stored_policy
from redrive.policies.decision import RetryAt
from redrive.telemetry.work import Wait


class FlowHistory:
    """The state of a flow after the events applied so far."""

    __slots__ = (
        "_whole",
        "cancel_requested",
        "children",
        "ended_at",
        "ending",
        "items",
        "last_item",
        "last_timer",
        "long_turn",
        "messages",
        "parked",
        "paused",
        "round",
        "run",
        "timers",
        "waits",
    )

    def __init__(self, whole: bool = False) -> None:
        """`whole` also keeps completed and cancelled items, which the engine does not need."""
        self._whole = whole
        self.items: dict[int, Item] = {}
        self.timers: dict[int, float] = {}
        """When each timer fires that has not fired yet. Cancelled ones stay: only the flow's code knows them."""
        self.children = Children(whole)
        self.last_item = 0
        self.last_timer = 0
        self.long_turn: int | None = None
        """While a turn has more commands to log: the line of the activation that began it; 0 for the flow's start."""
        self.paused = False
        self.cancel_requested: CancelRequested | None = None
        self.parked: str | None = None
        self.ending: AnyEvent | None = None
        self.ended_at: float | None = None
        self.round = 0
        """How often the flow was redriven after it had ended."""
        self.run = 1
        self.waits: Sequence[Wait] = ()
        """What the flow itself waited for: timers and operators."""
        self.messages = MessageHistory()

    def apply(self, at: float, event: AnyEvent) -> None:
        apply = _APPLY.get(type(event))
        if apply is not None:
            apply(self, at, event)

    def _item_added(self, at: float, event: ItemAdded) -> None:
        number = event.item
        policy = read_stored_policy(event.policy)
        item = Item(number, event.step, event.index, event.compensates, event.args, policy, at, added_at=at)
        item.dependency = event.dependency
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
        self.items[event.item].begin(at, event.attempt, event.delivery, event.timeout_at, event.alone)

    def _attempt_accepted(self, at: float, event: AttemptAccepted) -> None:
        self.items[event.item].accepted = True

    def _attempt_closed(self, at: float, event: AttemptClosed) -> None:
        item = self.items[event.item]
        item.accepted, item.closed = False, True

    def _completion_refused(self, at: float, event: CompletionRefused) -> None:
        if (item := self.items.get(event.item)) is not None:
            item.refused = True

    def _attempt_failed(self, at: float, event: AttemptFailed) -> None:
        item = self.items[event.item]
        failures = item.failures = [*item.failures, FailedAttempt(item.attempt_began, at, event)]
        if len(failures) > MOST_FAILURES:
            # The first and the latest are the most telling.
            del failures[MOST_FAILURES // 2]
        item.details = event.details if isinstance(event.details, msgspec.Raw) else None
        if isinstance(event.decision, RetryAt):
            item.decided_from = item.retry_history
            if item.decided_from is not None:
                item.retries = item.decided_from.after(event.decision)
            item.wait(at, event.decision.when, event.failure.kind, reason=event.failure.reason)
        else:
            item.state = "failed"
            item.gave_up = event.decision

    def _attempt_returned(self, at: float, event: AttemptReturned) -> None:
        item = self.items[event.item]
        item.attempt = event.attempt - 1
        item.details = event.details if isinstance(event.details, msgspec.Raw) else None
        item.wait(at, event.until, "snooze", reason=event.reason)

    def _attempt_cleared(self, at: float, event: AttemptCleared) -> None:
        self.items[event.item].alone = False

    def _item_deferred(self, at: float, event: ItemDeferred) -> None:
        item = self.items[event.item]
        item.wait(at, event.until, "deferred", event.reason)
        item.held_by = event.held_by

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
        self._wait(at, "timer", event.until)

    def _run_continued(self, at: float, event: RunContinued) -> None:
        self.run = event.run
        self.last_item, self.last_timer, self.children.last = event.items, event.timers, event.children
        self.messages = MessageHistory(event.signals)

    def _cancel_requested(self, at: float, event: CancelRequested) -> None:
        self.cancel_requested = event
        self._wait(at, "cancel requested")

    def _paused(self, at: float, event: Paused) -> None:
        self.paused = True
        self._wait(at, "paused")

    def _resumed(self, at: float, event: Resumed) -> None:
        self._wait(at, "resumed")
        self.paused = False
        self.parked = None

    def _retried_now(self, at: float, event: RetriedNow) -> None:
        self._wait(at, "retried now")
        for item in self.items.values():
            if item.state == "waiting":
                item.retry_at = at
                # If its dependency still holds it back, the log says so again.
                item.deferred = ""

    def _policy_changed(self, at: float, event: PolicyChanged) -> None:
        policy = read_stored_policy(event.policy)
        for number in event.items:
            if (item := self.items.get(number)) is not None:
                item.follow(at, policy, event.decisions.get(number))

    def _parked(self, at: float, event: FlowParked) -> None:
        self.parked = event.problem
        self._wait(at, "parked")

    def _redriven(self, at: float, event: Redriven) -> None:
        if not event.midway:
            # A redriven flow is to run, even if it was paused when it failed.
            self.paused = False
            self.parked = None
            self.ending = self.ended_at = None
            self.round += 1
            self.waits = (Wait(at, "redriven"),)
            for item in self.items.values():
                if item.is_open:
                    item.added_at, item.waits, item.round = at, (), item.round + 1
                if item.state == "running":
                    # The flow's end stopped the attempt, which did not fail: it is not counted.
                    item.wait(at, at, "redrive")
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
            if not item.is_open:
                item.added_at, item.waits, item.round = at, (), item.round + 1
            if isinstance(event.details, msgspec.Raw):
                item.details = event.details
            item.wait(at, at, "redrive")

    def _wait(self, at: float, kind: str, until: float | None = None) -> None:
        self.waits = with_wait(self.waits, Wait(at, kind, until))

    def _ended(self, at: float, event: AnyEvent) -> None:
        self.ending = event
        self.ended_at = at


MOST_FAILURES = 100


_APPLY: dict[type, Callable[[FlowHistory, float, Any], object]] = {
    ItemStarted: FlowHistory._item_added,
    ItemQueued: FlowHistory._item_added,
    ItemCancelled: FlowHistory._item_cancelled,
    AttemptStarted: FlowHistory._attempt_started,
    AttemptAccepted: FlowHistory._attempt_accepted,
    AttemptClosed: FlowHistory._attempt_closed,
    AttemptCleared: FlowHistory._attempt_cleared,
    CompletionRefused: FlowHistory._completion_refused,
    ItemDeferred: FlowHistory._item_deferred,
    AttemptFailed: FlowHistory._attempt_failed,
    AttemptReturned: FlowHistory._attempt_returned,
    ItemGaveUp: FlowHistory._item_gave_up,
    ItemCompleted: FlowHistory._item_completed,
    TimerSet: FlowHistory._timer_set,
    TimerFired: lambda history, _, event: history.timers.pop(event.timer, None),
    RunContinued: FlowHistory._run_continued,
    **dict.fromkeys(CHILD_EVENTS, lambda history, at, event: history.children.apply(at, event)),
    CancelRequested: FlowHistory._cancel_requested,
    Paused: FlowHistory._paused,
    Resumed: FlowHistory._resumed,
    RetriedNow: FlowHistory._retried_now,
    PolicyChanged: FlowHistory._policy_changed,
    FlowParked: FlowHistory._parked,
    Redriven: FlowHistory._redriven,
    **dict.fromkeys(get_args(MessageEvent), lambda history, _, event: history.messages.apply(event)),
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

"""Turn a flow's log into a timeline, with the reasons for each decision."""

from collections.abc import Callable
from typing import Any

import msgspec

from redrive.explain.children import describe_end, describe_told
from redrive.explain.decision_text import describe_decision
from redrive.explain.hidden_payloads import call_text, value_text
from redrive.explain.message_notes import TOLD, describe_message
from redrive.explain.parts import (
    AttemptSummary,
    DecisionSummary,
    Entry,
    HeldBack,
    ItemEntry,
    Moment,
    Note,
    Outcome,
    TimerEntry,
)
from redrive.explain.policy_text import describe_policy
from redrive.explain.shortened import elided_lines
from redrive.flows.child_events import (
    ChildCancelled,
    ChildCancelRequested,
    ChildCompleted,
    ChildEnd,
    ChildFailed,
    ChildSignalled,
    ChildStarted,
)
from redrive.flows.events import (
    AnyEvent,
    AttemptAccepted,
    AttemptFailed,
    AttemptReturned,
    AttemptStarted,
    CancelRequested,
    CompletionRefused,
    FlowBegan,
    FlowCancelled,
    FlowCompleted,
    FlowFailed,
    FlowParked,
    ItemAdded,
    ItemCancelled,
    ItemCompleted,
    ItemDeferred,
    ItemGaveUp,
    ItemQueued,
    ItemStarted,
    Line,
    PatchMarked,
    Paused,
    Redriven,
    Resumed,
    RetriedNow,
    StepSettled,
    TimerFired,
    TimerSet,
)
from redrive.flows.message_events import MessageEvent
from redrive.flows.policy_events import PolicyChanged
from redrive.flows.rewind import drop_rewound
from redrive.flows.run_events import RunContinued
from redrive.flows.scripts.execution import PLACE
from redrive.flows.version_events import VersionChanged
from redrive.formatting.text import format_error, summarize
from redrive.formatting.times import utc_datetime
from redrive.policies.decision import Decision, RetryAt

_OPEN = ("queued", "running", "waiting")
_OUTCOMES: dict[str, Outcome] = {"timeout": "timed out", "lost": "lost"}
# By name, so that flows without a graph need not load the module.
_SETTLED = {
    "abandoned": "was abandoned",
    "compensated": "was compensated",
    "skipped": "was skipped",
    "unreachable": "is unreachable",
}
_GRAPH_CANCELLED = "redrive.flows.graphs.driver.GraphCancelled"


def build_timeline(lines: list[Line], *, has_ended: bool, has_owner: bool, most: int | None = None) -> list[Entry]:
    """Return the log as entries, in the order in which they began.

    most: of an item with more attempts or waits the middle is left out; its entry counts them.
    """
    entries = _TimelineBuilder(lines, most).entries
    if has_ended:
        _abandon(entries)
    elif not has_owner:
        _mark_left_behind(entries)
    return entries


def _abandon(timeline: list[Entry]) -> None:
    """Mark the items that the flow's end left unfinished."""
    _abandon_attempts(timeline)
    for entry in timeline:
        if isinstance(entry, ItemEntry) and entry.state in _OPEN:
            entry.state = "abandoned"


def _abandon_attempts(timeline: list[Entry]) -> None:
    for entry in timeline:
        if isinstance(entry, ItemEntry) and entry.state in _OPEN and entry.attempts:
            last = entry.attempts[-1]
            if last.outcome in ("running", "accepted"):
                last.outcome = "abandoned"


def _mark_left_behind(timeline: list[Entry]) -> None:
    """Mark the attempts whose worker is gone."""
    for entry in timeline:
        if isinstance(entry, ItemEntry) and entry.attempts and entry.attempts[-1].outcome == "running":
            entry.attempts[-1].outcome = "left behind"


class _TimelineBuilder:
    def __init__(self, lines: list[Line], most: int | None) -> None:
        self.entries: list[Entry] = []
        self._began = lines[0].at if lines else 0.0
        self._items: dict[int, ItemEntry] = {}
        """By number. After a redrive a number may be used again: the last item counts."""
        self._attempts: dict[int, AttemptSummary] = {}
        """The latest attempt of each item; none while that is one that is left out."""
        self._timers: dict[int, TimerEntry] = {}
        self._children: dict[int, tuple[str, Note]] = {}
        """By number: the ids of children, and their entries."""
        elided = elided_lines(lines, most)
        kept = {line.seq for line in drop_rewound(lines)}
        for line in lines:
            self._rewound = line.seq not in kept
            self._elided = line.seq in elided
            add_entry = _ADD_ENTRY.get(type(line.event))
            if add_entry is not None:
                add_entry(self, self._moment(line.at), line.event)

    def _moment(self, at: float) -> Moment:
        return Moment(utc_datetime(at), round(at - self._began, 6))

    def _note(self, when: Moment, event: AnyEvent, text: str, detail: str = "") -> None:
        by, reason = getattr(event, "by", ""), getattr(event, "why", "")
        self.entries.append(
            Note(
                when=when,
                what=str(event.__struct_config__.tag),
                text=text,
                by=summarize(by, 100),
                why=summarize(reason),
                detail=detail,
                rewound=self._rewound,
            )
        )

    def _item_added(self, when: Moment, event: ItemAdded) -> None:
        item = ItemEntry(
            number=event.item,
            step=event.step,
            arguments=call_text(event.args),
            policy=msgspec.json.decode(event.policy),
            policy_from=event.policy_from,
            added=when,
            rewound=self._rewound,
        )
        self._items[event.item] = item
        self._attempts.pop(event.item, None)
        self.entries.append(item)
        if isinstance(event, ItemStarted):
            self._begin(item, when, 1, event.timeout_at)

    def _attempt_started(self, when: Moment, event: AttemptStarted) -> None:
        self._begin(self._items[event.item], when, event.attempt, event.timeout_at)

    def _begin(self, item: ItemEntry, when: Moment, number: int, timeout_at: float | None) -> None:
        item.state = "running"
        if self._elided:
            item.elided += 1
            self._attempts.pop(item.number, None)
            return
        timeout = None if timeout_at is None else self._moment(timeout_at)
        attempt = self._attempts[item.number] = AttemptSummary(number=number, began=when, timeout=timeout)
        item.attempts.append(attempt)

    def _end(self, number: int, when: Moment, outcome: Outcome) -> AttemptSummary | None:
        attempt = self._attempts.get(number)
        if attempt is None:
            return None
        attempt.outcome = outcome
        attempt.ended = when
        if outcome != "lost":
            attempt.seconds = round(when.after - attempt.began.after, 6)
        return attempt

    def _attempt_failed(self, when: Moment, event: AttemptFailed) -> None:
        failure = event.failure
        if failure.type == _GRAPH_CANCELLED:
            # The reason is shown with the end of the flow.
            self._end(event.item, when, "cancelled the flow")
            self._items[event.item].state = "cancelled"
            return
        attempt = self._end(event.item, when, _OUTCOMES.get(failure.kind, "failed"))
        self._items[event.item].state = "waiting" if isinstance(event.decision, RetryAt) else "failed"
        if attempt is not None:
            attempt.error_type = failure.type.removeprefix("builtins.")
            attempt.message = failure.message
            attempt.status = failure.status
            attempt.category = failure.category
            attempt.reason = failure.reason
            attempt.decision = self._decision(event.decision)

    def _decision(self, decision: Decision) -> DecisionSummary:
        if isinstance(decision, RetryAt):
            return DecisionSummary(
                answer="retry",
                next=self._moment(decision.when),
                wait=round(decision.because.wait, 6),
                why=describe_decision(decision),
                because=decision.because,
            )
        return DecisionSummary(
            answer="give up", kind=decision.kind, why=describe_decision(decision), because=decision.because
        )

    def _attempt_returned(self, when: Moment, event: AttemptReturned) -> None:
        attempt = self._end(event.item, when, "returned")
        self._items[event.item].state = "waiting"
        if attempt is not None:
            attempt.reason = summarize(event.reason)
            attempt.next = self._moment(event.until)

    def _item_gave_up(self, when: Moment, event: ItemGaveUp) -> None:
        item = self._items[event.item]
        item.state = "failed"
        item.missed_retry = self._decision(event.decision)

    def _item_completed(self, when: Moment, event: ItemCompleted) -> None:
        item = self._items[event.item]
        if event.by or event.why:
            how = "resolved manually" if event.resolved else "completed manually"
            self._note(when, event, f"{item.step} (item {event.item}) was {how}")
        if item.state == "running":
            self._end(event.item, when, "completed")
        item.state = "completed"
        item.result = value_text(event.result)

    def _item_cancelled(self, when: Moment, event: ItemCancelled) -> None:
        item = self._items[event.item]
        was_running = item.state == "running"
        if was_running:
            self._end(event.item, when, "cancelled")
        if not self._rewound or item.rewound:
            item.state = "cancelled"
        elif was_running:
            # The attempt was stopped, but after the redrive the flow waits for the item again.
            item.state = "waiting"

    def _attempt_accepted(self, when: Moment, event: AttemptAccepted) -> None:
        attempt = self._attempts.get(event.item)
        if attempt is not None:
            attempt.outcome = "accepted"

    def _completion_refused(self, when: Moment, event: CompletionRefused) -> None:
        self._note(when, event, f"a late outcome for item {event.item} was refused")

    def _item_deferred(self, when: Moment, event: ItemDeferred) -> None:
        item = self._items[event.item]
        item.state = "waiting"
        if self._elided:
            item.elided_held_back += 1
            return
        item.held_back.append(HeldBack(when=when, until=self._moment(event.until), why=summarize(event.reason)))

    def _step_settled(self, when: Moment, event: StepSettled) -> None:
        self._note(when, event, f"step {event.step} {_SETTLED.get(event.state, event.state)}")

    def _timer_set(self, when: Moment, event: TimerSet) -> None:
        timer = TimerEntry(number=event.timer, set=when, until=self._moment(event.until), rewound=self._rewound)
        self._timers[event.timer] = timer
        self.entries.append(timer)

    def _timer_fired(self, when: Moment, event: TimerFired) -> None:
        self._timers[event.timer].fired = when

    def _child_started(self, when: Moment, event: ChildStarted) -> None:
        kept = " (it goes on when this flow ends)" if event.abandoned else ""
        text = f"child {event.child}, {event.definition}({call_text(event.args)}){kept}"
        self._note(when, event, text, f"flow {event.flow}")
        entry = self.entries[-1]
        assert isinstance(entry, Note)  # noqa: S101 - narrows for mypy
        self._children[event.child] = event.flow, entry

    def _child_ended(self, when: Moment, event: ChildEnd) -> None:
        flow_id, note = self._children[event.child]
        if not self._rewound:
            result = value_text(event.result) if isinstance(event, ChildCompleted) else ""
            note.detail = describe_end(event, flow_id, result)

    def _child_told(self, when: Moment, event: ChildCancelRequested | ChildSignalled) -> None:
        self._note(when, event, describe_told(event))

    def _redriven(self, when: Moment, event: Redriven) -> None:
        again = self._items.get(event.item) if event.item is not None else None
        if not event.midway:
            # The end of the flow, which is rewound, had stopped them.
            _abandon_attempts(self.entries)
        if again is not None:
            again.state = "waiting"
            again.missed_retry = None
        if event.resolved:
            how = "resolved manually"
        else:
            how = "completed manually" if isinstance(event.result, msgspec.Raw) else "tried again"
        what = f"{again.step} (item {again.number}) is {how}" if again else "its code is run again"
        if event.child is not None:
            what = f"child {event.child} is redriven, and awaited again"
        self._note(when, event, "redriven", what)

    def _run_continued(self, when: Moment, event: RunContinued) -> None:
        before = f"its code continued as new; --run {event.run - 1} shows the run before"
        self._note(when, event, f"run {event.run} began", before)

    def _message(self, when: Moment, event: MessageEvent) -> None:
        text, detail = describe_message(event)
        # A refusal says why in its details: nobody gave it as a reason.
        what = str(event.__struct_config__.tag)
        self.entries.append(Note(when=when, what=what, text=text, detail=detail, rewound=self._rewound))

    def _policy_changed(self, when: Moment, event: PolicyChanged) -> None:
        policy = msgspec.json.decode(event.policy)
        changed = [self._items[number] for number in event.items if number in self._items]
        for item in changed:
            item.policy, item.policy_from = policy, "operator"
        steps = ", ".join(dict.fromkeys(item.step for item in changed))
        now = f"{summarize(steps, 100)}: now {describe_policy(policy)}"
        self._note(when, event, "policy changed", now)

    def _version_changed(self, when: Moment, event: VersionChanged) -> None:
        self._note(when, event, f"pinned to version {event.version}" if event.version else "unpinned from its version")

    def _completed(self, when: Moment, event: FlowCompleted) -> None:
        self._note(when, event, "completed", value_text(event.result))

    def _failed(self, when: Moment, event: FlowFailed) -> None:
        error = format_error(event.error.type, event.error.message)
        place = next((f" ({note})" for note in event.error.notes if note.startswith(PLACE)), "")
        self._note(when, event, f"failed for good ({event.kind})", error + place)


def _plain_note(text: str) -> Callable[[_TimelineBuilder, Moment, Any], None]:
    return lambda timeline, when, event: timeline._note(when, event, text)


_ADD_ENTRY: dict[type, Callable[[_TimelineBuilder, Moment, Any], None]] = {
    ItemStarted: _TimelineBuilder._item_added,
    ItemQueued: _TimelineBuilder._item_added,
    ItemCancelled: _TimelineBuilder._item_cancelled,
    AttemptStarted: _TimelineBuilder._attempt_started,
    AttemptFailed: _TimelineBuilder._attempt_failed,
    AttemptReturned: _TimelineBuilder._attempt_returned,
    AttemptAccepted: _TimelineBuilder._attempt_accepted,
    CompletionRefused: _TimelineBuilder._completion_refused,
    ItemDeferred: _TimelineBuilder._item_deferred,
    StepSettled: _TimelineBuilder._step_settled,
    ItemGaveUp: _TimelineBuilder._item_gave_up,
    ItemCompleted: _TimelineBuilder._item_completed,
    TimerSet: _TimelineBuilder._timer_set,
    TimerFired: _TimelineBuilder._timer_fired,
    PatchMarked: lambda self, when, event: self._note(
        when, event, f'patched("{summarize(event.patch, 100)}")', "it runs the changed code"
    ),
    ChildStarted: _TimelineBuilder._child_started,
    ChildCompleted: _TimelineBuilder._child_ended,
    ChildFailed: _TimelineBuilder._child_ended,
    ChildCancelled: _TimelineBuilder._child_ended,
    ChildCancelRequested: _TimelineBuilder._child_told,
    ChildSignalled: _TimelineBuilder._child_told,
    RunContinued: _TimelineBuilder._run_continued,
    FlowBegan: _plain_note("began"),
    CancelRequested: _plain_note("cancellation was requested"),
    Paused: _plain_note("paused"),
    Resumed: _plain_note("resumed"),
    RetriedNow: _plain_note("retried now"),
    PolicyChanged: _TimelineBuilder._policy_changed,
    VersionChanged: _TimelineBuilder._version_changed,
    **dict.fromkeys(TOLD, _TimelineBuilder._message),
    FlowParked: lambda self, when, event: self._note(when, event, "parked", summarize(event.problem, 1000)),
    Redriven: _TimelineBuilder._redriven,
    FlowCompleted: _TimelineBuilder._completed,
    FlowFailed: _TimelineBuilder._failed,
    FlowCancelled: _plain_note("cancelled"),
}

"""`explain`: a flow's log as a timeline, with the reasons for each decision. Pure: the time is an argument."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from redrive.explain.compensation_words import done_for_failure, not_undone
from redrive.explain.current_state import Looking
from redrive.explain.decision_text import describe_decision
from redrive.explain.explanation import (
    AttemptStory,
    DecisionStory,
    Entry,
    Explanation,
    ItemStory,
    Moment,
    Note,
    Outcome,
    TimerStory,
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
    StepSettled,
    TimerFired,
    TimerSet,
)
from redrive.flows.history import fold
from redrive.flows.rewind import drop_rewound
from redrive.flows.scripts.execution import PLACE
from redrive.flows.stored_inputs import start_arguments
from redrive.formatting.text import format_error, summarize, summarize_call
from redrive.formatting.times import utc_datetime
from redrive.policies.decision import Decision, RetryAt
from redrive.stores.records import DeadLetter, FlowRecord, QueueRecord, WorkerRecord

_OPEN = ("queued", "running", "waiting")
_ENDED: dict[str, Outcome] = {"timeout": "timed out", "lost": "lost"}
# By name: many a flow has no graph, and its module need not be loaded.
_CANCELS_THE_FLOW = "redrive.flows.graphs.driver.GraphCancelled"


def explain(
    record: FlowRecord,
    lines: list[Line],
    dead: DeadLetter | None,
    workers: Sequence[WorkerRecord],
    queues: Sequence[QueueRecord],
    now: float,
) -> Explanation:
    """Everything that happened to a flow and why, what it waits for, and what to do next.

    `workers` (those that are alive) and `queues` tell why a flow that could go on does not.
    """
    history = fold(lines)
    timeline = Timeline(lines).entries
    if history.ending is not None:
        _abandon(timeline)
    elif record.owner not in [worker.epoch for worker in workers]:
        _leave_behind(timeline)
    began = lines[0].at if lines else record.start_at
    left, since = not_undone(lines), done_for_failure(lines)
    seen = Looking(record, history, timeline, dead, workers, queues, left, since, now, began).look()
    return Explanation(
        flow_id=record.id,
        definition=record.definition,
        status=record.status,
        headline=seen.headline,
        input=summarize_call(start_arguments(record.definition, record.input)),
        queue=record.queue,
        priority=record.priority,
        key=None if record.key is None else summarize(record.key, 100),
        explained_at=utc_datetime(now),
        created_at=utc_datetime(record.created_at),
        start_at=utc_datetime(record.start_at),
        began_at=utc_datetime(lines[0].at) if lines else None,
        finished_at=None if record.finished_at is None else utc_datetime(record.finished_at),
        timeline=timeline,
        waits_for=seen.waits_for,
        next_steps=seen.next_steps,
    )


def _abandon(timeline: list[Entry]) -> None:
    """The flow ended without these."""
    _stop_attempts(timeline)
    for entry in timeline:
        if isinstance(entry, ItemStory) and entry.state in _OPEN:
            entry.state = "abandoned"


def _stop_attempts(timeline: list[Entry]) -> None:
    for entry in timeline:
        if isinstance(entry, ItemStory) and entry.state in _OPEN and entry.attempts:
            last = entry.attempts[-1]
            if last.outcome in ("running", "accepted"):
                last.outcome = "abandoned"


def _leave_behind(timeline: list[Entry]) -> None:
    """Nobody carries these on."""
    for entry in timeline:
        if isinstance(entry, ItemStory) and entry.attempts and entry.attempts[-1].outcome == "running":
            entry.attempts[-1].outcome = "left behind"


class Timeline:
    """The log as entries, in the order in which they began."""

    def __init__(self, lines: list[Line]) -> None:
        self.entries: list[Entry] = []
        self._began = lines[0].at if lines else 0.0
        self._items: dict[int, ItemStory] = {}
        """By number: one that a redrive undid may be followed by another of the same number."""
        self._timers: dict[int, TimerStory] = {}
        kept = {line.seq for line in drop_rewound(lines)}
        for line in lines:
            self._undone = line.seq not in kept
            tell = _TELL.get(type(line.event))
            if tell is not None:
                tell(self, self._moment(line.at), line.event)

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
                undone=self._undone,
            )
        )

    def _item_added(self, when: Moment, event: ItemAdded) -> None:
        story = ItemStory(
            number=event.item,
            step=event.step,
            arguments=summarize_call(bytes(event.args).decode()),
            policy=msgspec.json.decode(event.policy),
            added=when,
            undone=self._undone,
        )
        self._items[event.item] = story
        self.entries.append(story)
        if isinstance(event, ItemStarted):
            self._begin(story, when, 1, event.timeout_at)

    def _attempt_started(self, when: Moment, event: AttemptStarted) -> None:
        self._begin(self._items[event.item], when, event.attempt, event.timeout_at)

    def _begin(self, story: ItemStory, when: Moment, number: int, timeout_at: float | None) -> None:
        timeout = None if timeout_at is None else self._moment(timeout_at)
        story.state = "running"
        story.attempts.append(AttemptStory(number=number, began=when, timeout=timeout))

    def _end(self, item: int, when: Moment, outcome: Outcome) -> AttemptStory | None:
        story = self._items[item]
        if not story.attempts:
            return None
        attempt = story.attempts[-1]
        attempt.outcome = outcome
        attempt.ended = when
        if outcome != "lost":
            attempt.seconds = round(when.after - attempt.began.after, 6)
        return attempt

    def _attempt_failed(self, when: Moment, event: AttemptFailed) -> None:
        failure = event.failure
        if failure.type == _CANCELS_THE_FLOW:
            # Why is told where the flow ends.
            self._end(event.item, when, "cancelled the flow")
            self._items[event.item].state = "cancelled"
            return
        attempt = self._end(event.item, when, _ENDED.get(failure.kind, "failed"))
        self._items[event.item].state = "waiting" if isinstance(event.decision, RetryAt) else "failed"
        if attempt is not None:
            attempt.error_type = failure.type.removeprefix("builtins.")
            attempt.message = failure.message
            attempt.status = failure.status
            attempt.category = failure.category
            attempt.reason = failure.reason
            attempt.decision = self._decision(event.decision)

    def _decision(self, decision: Decision) -> DecisionStory:
        if isinstance(decision, RetryAt):
            return DecisionStory(
                answer="retry",
                next=self._moment(decision.when),
                wait=round(decision.because.wait, 6),
                why=describe_decision(decision),
                because=decision.because,
            )
        return DecisionStory(
            answer="give up", kind=decision.kind, why=describe_decision(decision), because=decision.because
        )

    def _attempt_returned(self, when: Moment, event: AttemptReturned) -> None:
        attempt = self._end(event.item, when, "returned")
        self._items[event.item].state = "waiting"
        if attempt is not None:
            attempt.reason = summarize(event.reason)
            attempt.next = self._moment(event.until)

    def _item_gave_up(self, when: Moment, event: ItemGaveUp) -> None:
        story = self._items[event.item]
        story.state = "failed"
        story.too_late = self._decision(event.decision)

    def _item_completed(self, when: Moment, event: ItemCompleted) -> None:
        story = self._items[event.item]
        if event.by or event.why:
            how = "resolved by hand" if event.resolved else "completed by hand"
            self._note(when, event, f"{story.step} (item {event.item}) was {how}")
        if story.state == "running":
            self._end(event.item, when, "completed")
        story.state = "completed"
        story.result = summarize(bytes(event.result).decode())

    def _item_cancelled(self, when: Moment, event: ItemCancelled) -> None:
        story = self._items[event.item]
        was_running = story.state == "running"
        if was_running:
            self._end(event.item, when, "cancelled")
        if not self._undone or story.undone:
            story.state = "cancelled"
        elif was_running:
            # The attempt was stopped; but the item is waited for again.
            story.state = "waiting"

    def _attempt_accepted(self, when: Moment, event: AttemptAccepted) -> None:
        story = self._items[event.item]
        story.attempts[-1].outcome = "accepted"

    def _completion_refused(self, when: Moment, event: CompletionRefused) -> None:
        self._note(when, event, f"an outcome told for item {event.item} was refused")

    def _item_deferred(self, when: Moment, event: ItemDeferred) -> None:
        story = self._items[event.item]
        story.state = "waiting"
        until = self._moment(event.until)
        what = f"{story.step} (item {event.item}) is held back until {until.at:%H:%M:%S}; no attempt is spent"
        self._note(when, event, what, summarize(event.reason))

    def _step_settled(self, when: Moment, event: StepSettled) -> None:
        self._note(when, event, f"step {event.step} is {event.state}")

    def _timer_set(self, when: Moment, event: TimerSet) -> None:
        story = TimerStory(number=event.timer, set=when, until=self._moment(event.until), undone=self._undone)
        self._timers[event.timer] = story
        self.entries.append(story)

    def _timer_fired(self, when: Moment, event: TimerFired) -> None:
        self._timers[event.timer].fired = when

    def _redriven(self, when: Moment, event: Redriven) -> None:
        again = self._items.get(event.item) if event.item is not None else None
        if not event.midway:
            # The end of the flow, which is undone, had stopped them.
            _stop_attempts(self.entries)
        if again is not None:
            again.state = "waiting"
            again.too_late = None
        is_settled = event.resolved or isinstance(event.result, msgspec.Raw)
        how = "settled by hand" if is_settled else "tried again"
        what = f"{again.step} (item {again.number}) is {how}" if again else "its code is run again"
        self._note(when, event, "redriven", what)

    def _patch_marked(self, when: Moment, event: PatchMarked) -> None:
        self._note(when, event, f'patched("{summarize(event.patch, 100)}")', "it runs the changed code")

    def _parked(self, when: Moment, event: FlowParked) -> None:
        self._note(when, event, "parked", summarize(event.problem, 1000))

    def _completed(self, when: Moment, event: FlowCompleted) -> None:
        self._note(when, event, "completed", summarize(bytes(event.result).decode()))

    def _failed(self, when: Moment, event: FlowFailed) -> None:
        error = format_error(event.error.type, event.error.message)
        place = next((f" ({note})" for note in event.error.notes if note.startswith(PLACE)), "")
        self._note(when, event, f"failed for good ({event.kind})", error + place)


def _says(text: str) -> Callable[[Timeline, Moment, Any], None]:
    return lambda timeline, when, event: timeline._note(when, event, text)


_TELL: dict[type, Callable[[Timeline, Moment, Any], None]] = {
    ItemStarted: Timeline._item_added,
    ItemQueued: Timeline._item_added,
    ItemCancelled: Timeline._item_cancelled,
    AttemptStarted: Timeline._attempt_started,
    AttemptFailed: Timeline._attempt_failed,
    AttemptReturned: Timeline._attempt_returned,
    AttemptAccepted: Timeline._attempt_accepted,
    CompletionRefused: Timeline._completion_refused,
    ItemDeferred: Timeline._item_deferred,
    StepSettled: Timeline._step_settled,
    ItemGaveUp: Timeline._item_gave_up,
    ItemCompleted: Timeline._item_completed,
    TimerSet: Timeline._timer_set,
    TimerFired: Timeline._timer_fired,
    PatchMarked: Timeline._patch_marked,
    FlowBegan: _says("began"),
    CancelRequested: _says("cancellation was asked for"),
    Paused: _says("paused"),
    Resumed: _says("resumed"),
    FlowParked: Timeline._parked,
    Redriven: Timeline._redriven,
    FlowCompleted: Timeline._completed,
    FlowFailed: Timeline._failed,
    FlowCancelled: _says("cancelled"),
}

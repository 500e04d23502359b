"""Explain a flow from its record and its log. Pure: the time is an argument."""

from collections.abc import Sequence

from redrive.explain.children import tell_of_taken_failure
from redrive.explain.compensation import failure_handling_steps, uncompensated_steps
from redrive.explain.current_state import describe_current_state
from redrive.explain.explanation import Explanation
from redrive.explain.flow_facts import FlowFacts
from redrive.explain.log_line import lifecycle_lines
from redrive.explain.message_notes import came_too_late
from redrive.explain.schedule import add_schedules
from redrive.explain.shortened import ends
from redrive.explain.timeline import build_timeline
from redrive.flows.events import Line
from redrive.flows.history import fold
from redrive.flows.schedules.schedule import tick_of_key
from redrive.flows.stored_inputs import start_arguments
from redrive.flows.tags import read_tags
from redrive.formatting.text import summarize, summarize_call
from redrive.formatting.times import utc_datetime
from redrive.stores.flow_control import NOT_USED, QueueUse
from redrive.stores.leases import WorkerRecord
from redrive.stores.queues import QueueRecord
from redrive.stores.records import DeadLetter, FlowRecord


def explain_flow(
    record: FlowRecord,
    lines: list[Line],
    dead: DeadLetter | None,
    live_workers: Sequence[WorkerRecord],
    queues: Sequence[QueueRecord],
    now: float,
    ahead: bool = False,
    most: int | None = None,
    use: QueueUse = NOT_USED,
    current_run: int | None = None,
) -> Explanation:
    """Say everything that happened to a flow and why, what it waits for, and what to do next.

    `live_workers`, `queues` and `use` tell why a flow that could go on does not. `ahead`: also attempts still to come.
    `current_run`: the number of the flow's current run, if this is an earlier one.
    `most`: leave out the middle of a longer timeline, of items with more attempts, and of longer lists of events.
    """
    history = fold(lines)
    has_ended = history.ending is not None or current_run is not None
    has_owner = record.owner in [worker.epoch for worker in live_workers]
    began = lines[0].at if lines else record.start_at
    timeline = build_timeline(lines, has_ended=has_ended, has_owner=has_owner, most=most)
    tell_of_taken_failure(record, lines, timeline)
    facts = FlowFacts(
        record=record,
        history=history,
        timeline=[*timeline, *came_too_late(record, began)],
        dead=dead,
        live_workers=live_workers,
        queues=queues,
        use=use,
        uncompensated=uncompensated_steps(lines),
        failure_handling=failure_handling_steps(history, lines),
        events=len(lines),
        current_run=current_run,
        now=now,
        began=began,
    )
    if ahead and current_run is None:
        add_schedules(facts)
    state = describe_current_state(facts)
    shown = ends(facts.timeline, most)
    events, elided_events = lifecycle_lines(lines, most)
    return Explanation(
        flow_id=record.id,
        definition=record.definition,
        status=record.status,
        headline=state.headline,
        input=summarize_call(start_arguments(record.definition, record.input)),
        queue=record.queue,
        priority=record.priority,
        key=None if record.key is None else summarize(record.key, 100),
        batch=record.batch,
        tags=read_tags(record.tags),
        explained_at=utc_datetime(now),
        created_at=utc_datetime(record.created_at),
        start_at=utc_datetime(record.start_at),
        began_at=utc_datetime(lines[0].at) if lines else None,
        finished_at=None if record.finished_at is None else utc_datetime(record.finished_at),
        timeline=shown,
        events=events,
        waits_for=state.waits_for[:most],
        next_steps=state.next_steps,
        begun_by=tick_of_key(record.key),
        parent=record.parent,
        run=history.run,
        current_run=current_run,
        elided=len(facts.timeline) - len(shown),
        elided_events=elided_events,
    )

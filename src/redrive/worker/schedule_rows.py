"""Turns schedules into what a store keeps: their rows, and the flows that they start."""

from collections.abc import Collection

from redrive.flows.schedules.schedule import Schedule, ScheduledRun, key_of_tick, write_schedule_body
from redrive.stores.records import NewFlow
from redrive.stores.schedules import ScheduleRow


def row_of(schedule: Schedule, version: int, unfinished: Collection[str] | None = None) -> ScheduleRow:
    """Return the row of a schedule that was read in this version; 0 when there was none.

    unfinished: its flows that have not ended; None when that is not known.
    """
    waits_for = None
    if schedule.pending is not None and schedule.pause is None:
        # Without any, it is due at once: there is no flow without an id.
        waits_for = next((run.flow_id for run in schedule.runs if unfinished is None or run.flow_id in unfinished), "")
    return ScheduleRow(schedule.name, write_schedule_body(schedule), schedule.next_at, waits_for, version)


def flow_of_run(schedule: Schedule, run: ScheduledRun) -> NewFlow:
    """Return the flow that begins with the run."""
    spec = schedule.spec
    return NewFlow(
        id=run.flow_id,
        definition=spec.definition,
        input=spec.input,
        created_at=run.at,
        start_at=run.at,
        queue=spec.queue,
        priority=spec.priority,
        key=key_of_tick(schedule.name, run.tick, run.by_hand),
        tags=spec.tags,
    )

"""Read the earlier runs of a flow that continued as new."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from redrive.determinism.off_loop import off_loop
from redrive.errors import RunNotFoundError
from redrive.flows.events import Line
from redrive.flows.run_events import RunContinued
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.interface import Store
from redrive.stores.records import EventRow, FlowRecord
from redrive.stores.runs import EndedRun
from redrive.worker.event_rows import lines_of_run

ROWS_AT_ONCE = 1000


class FlowRun(NamedTuple):
    record: FlowRecord
    """The flow; of an earlier run, with the input that it had and the time at which it ended."""
    lines: list[Line]
    current: int | None
    """The number of the flow's current run, if this is an earlier one."""


async def read_run(store: Store, record: FlowRecord, lines: list[Line], run: int | None) -> FlowRun:
    """Return that run of a flow, given its current one; None: the current one.

    RunNotFoundError when there is no such run, or no longer.
    """
    current = _number(lines) or 1
    if run is None or run == current:
        return FlowRun(record, lines, None)
    if not 0 < run < current:
        raise RunNotFoundError(f"flow {record.id} has no run {run}; use 1 to {current}")
    back = current - run
    while (ended := await store.find_run(record.id, back)) is not None:
        found = await _lines_of(store, record.id, ended)
        number = _number(found)
        if number == run:
            return FlowRun(
                msgspec.structs.replace(record, input=ended.input, finished_at=ended.ended_at), found, current
            )
        if number is None or number < run:
            break
        # The flow has continued as new meanwhile.
        back += number - run
    raise RunNotFoundError(
        f"run {run} of flow {record.id} is no longer there: keep_finished says how long runs that ended stay"
    )


def _number(lines: Sequence[Line]) -> int | None:
    """Return which run the log is of; None when its beginning is gone."""
    if not lines:
        return None
    first = lines[0]
    if isinstance(first.event, RunContinued):
        return first.event.run
    return 1 if first.seq == 1 else None


async def _lines_of(store: Store, flow_id: str, ended: EndedRun) -> list[Line]:
    rows: list[EventRow] = []
    after = ended.run_from
    while after < ended.run_to and (page := await store.read_events_after(flow_id, after, ROWS_AT_ONCE)):
        rows += page
        after = page[-1].seq
    size = sum(len(row.body) for row in rows)
    return await off_loop(size > LARGE_JSON, lines_of_run, rows, ended.run_from, ended.run_to)

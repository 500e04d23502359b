"""Creates, lists, pauses, triggers and removes schedules, and starts flows for ticks of the past."""

from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from redrive.client.flow_access import FlowAccess
from redrive.client.readable_payloads import refuse_unreadable
from redrive.client.schedule_views import NEXT_SHOWN, ScheduleView, view_of
from redrive.errors import CommitUnknownError, ScheduleError, ScheduleNotFoundError
from redrive.flows.messages import check_by_and_why
from redrive.flows.schedules.advance import run_of_tick, with_runs
from redrive.flows.schedules.definition import define
from redrive.flows.schedules.schedule import Schedule, ScheduledRun, ScheduleOrder, ScheduleSpec, read_schedule_body
from redrive.flows.schedules.settings import check_name
from redrive.flows.schedules.ticks import ticks_after
from redrive.flows.start_settings import check_priority
from redrive.near_names import did_you_mean
from redrive.stores.queue_names import check_queue
from redrive.stores.records import FlowStatus
from redrive.worker.schedule_rows import flow_of_run, row_of

MOST_LISTED = 500
MOST_BACKFILLED = 10_000
BACKFILLED_AT_ONCE = 500

T = TypeVar("T")


class Backfilled(NamedTuple):
    """What became of the ticks of a backfill."""

    started: list[str]
    """The ids of the flows that were started, in the order of their ticks."""
    existing: int
    """How many ticks had their flow already."""


class ScheduleControl:
    def __init__(self, flows: FlowAccess, on_change: Callable[[], None]) -> None:
        """on_change: called when the worker of this process should look at the schedules."""
        self._flows = flows
        self._on_change = on_change

    async def define(self, name: str, spec: ScheduleSpec) -> ScheduleView:
        """Create the schedule, or change the one of that name."""
        check_name(name)
        check_queue(spec.queue)
        check_priority(spec.priority)
        schedule = await self._change(name, lambda known, now: define(name, spec, now, known), may_be_new=True)
        return await self._view(schedule)

    async def views(self, after: str, limit: int) -> list[ScheduleView]:
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
            raise ValueError(f"limit: {limit!r:.40} is not allowed; use a whole number from 1 to {MOST_LISTED}")
        rows = await self._flows.store.list_schedules(after, limit)
        schedules = [read_schedule_body(row.name, row.body) for row in rows]
        statuses = await self._statuses([schedule.runs[0].flow_id for schedule in schedules if schedule.runs])
        return [view_of(one, self._flows.now(), statuses, next_shown=1, runs_shown=1) for one in schedules]

    async def view(self, name: str, next_shown: int = NEXT_SHOWN) -> ScheduleView:
        return await self._view((await self._find(name))[0], next_shown)

    async def pause(self, name: str, by: str, why: str) -> bool:
        check_by_and_why(by, why)
        changed = False

        def pause(known: Schedule, now: float) -> Schedule:
            nonlocal changed
            changed = changed or known.pause is None
            return known if known.pause is not None else replace(known, pause=ScheduleOrder(now, by, why), resumed=None)

        await self._change(name, pause)
        return changed

    async def resume(self, name: str, by: str, why: str) -> bool:
        check_by_and_why(by, why)
        changed = False

        def resume(known: Schedule, now: float) -> Schedule:
            nonlocal changed
            changed = changed or known.pause is not None
            # What would have been due meanwhile is not made up for: it was paused.
            order = ScheduleOrder(now, by, why)
            return known if known.pause is None else replace(known, pause=None, resumed=order, settled=now)

        await self._change(name, resume)
        return changed

    async def trigger(self, name: str, by: str, why: str) -> str:
        """Start a flow now, whatever else runs, and return its id."""
        check_by_and_why(by, why)
        if not by:
            raise ValueError("by: say who triggers the schedule")
        started: list[ScheduledRun] = []

        def trigger(known: Schedule, now: float) -> Schedule:
            if not started:
                started.append(run_of_tick(known, now, now, by, why))
            if started[0] in known.runs:
                return known  # written by a commit whose outcome was unknown
            return with_runs(known, started)

        await self._change(name, trigger, lambda: started)
        return started[0].flow_id

    async def backfill(self, name: str, begin: datetime, end: datetime, by: str, why: str) -> Backfilled:
        """Start the flows of all ticks from `begin` to `end` that have none yet."""
        check_by_and_why(by, why)
        schedule, now = (await self._find(name))[0], self._flows.now()
        first, last = _instant("begin", begin), _instant("end", end)
        if first > last:
            raise ScheduleError(f"backfill: it begins at {begin.isoformat()}, after its end at {end.isoformat()}")
        if last > now:
            raise ScheduleError(f"backfill: {end.isoformat()} is in the future; use a time up to now")
        anchor = schedule.anchor
        if schedule.spec.timing.every is not None:
            # The ticks that the interval would have had before the schedule was made.
            anchor -= (max(0.0, anchor - first) // schedule.spec.timing.every + 2) * schedule.spec.timing.every
        ticks: list[float] = []
        for tick in islice(ticks_after(schedule.spec.timing, anchor, first - 1e-6), MOST_BACKFILLED + 1):
            if tick > last:
                break
            ticks.append(tick)
        if len(ticks) > MOST_BACKFILLED:
            raise ScheduleError(
                f"backfill: more than {MOST_BACKFILLED} ticks lie between these times; use shorter ones"
            )
        started: list[str] = []
        for begun in range(0, len(ticks), BACKFILLED_AT_ONCE):
            runs = [run_of_tick(schedule, tick, now) for tick in ticks[begun : begun + BACKFILLED_AT_ONCE]]
            await refuse_unreadable(self._flows.store)
            answers = await self._flows.store.add_flows([flow_of_run(schedule, run) for run in runs])
            started += [run.flow_id for run, existing in zip(runs, answers, strict=True) if existing is None]
        return Backfilled(started, len(ticks) - len(started))

    async def drop(self, name: str) -> bool:
        """Remove the schedule; its flows stay. Return False when there is none."""
        return await self._flows.store.drop_schedule(name)

    async def _find(self, name: str) -> tuple[Schedule, int]:
        """Return the schedule and its version; ScheduleNotFoundError where there is none."""
        row = await self._flows.store.find_schedule(check_name(name))
        if row is None:
            others = [one.name for one in await self._flows.store.list_schedules("", MOST_LISTED)]
            hint = did_you_mean(name, others, "see redrive schedules list")
            raise ScheduleNotFoundError(f"there is no schedule {name!r} in {self._flows.store.address}; {hint}")
        return read_schedule_body(row.name, row.body), row.version

    async def _change(
        self,
        name: str,
        change: Callable[[Any, float], Schedule],
        starts: Callable[[], list[ScheduledRun]] = list,
        may_be_new: bool = False,
    ) -> Schedule:
        """Write what `change` makes of the schedule as it is stored, with the flows that it starts."""
        store = self._flows.store
        await refuse_unreadable(store)
        while True:
            if may_be_new and await store.find_schedule(name) is None:
                known, version = None, 0
            else:
                known, version = await self._find(name)
            now = self._flows.now()
            changed = change(known, now)
            if changed is known:
                return changed
            try:
                flows = [flow_of_run(changed, run) for run in starts()]
                if await store.write_schedule(row_of(changed, version), flows, (), now) is not None:
                    self._on_change()
                    return changed
            except CommitUnknownError:
                continue  # read what became of it

    async def _view(self, schedule: Schedule, next_shown: int = NEXT_SHOWN) -> ScheduleView:
        statuses = await self._statuses([run.flow_id for run in schedule.runs])
        return view_of(schedule, self._flows.now(), statuses, next_shown)

    async def _statuses(self, flow_ids: list[str]) -> dict[str, FlowStatus]:
        found = await self._flows.store.find_flows(flow_ids)
        return {flow_id: record.status for flow_id, record in found.items()}


def _instant(field: str, value: object) -> float:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ScheduleError(f"{field}: {value!r:.60} is not allowed; use a datetime with a time zone")
    return value.timestamp()

"""The verbs of an app about schedules."""

from datetime import datetime
from typing import Any, Unpack

from redrive.client.flow_inputs import Schedulable, call_without_arguments, input_of
from redrive.client.handle import Handle
from redrive.client.running_app import RunningApp
from redrive.client.schedule_control import Backfilled
from redrive.client.schedule_views import NEXT_SHOWN, ScheduleView
from redrive.flows.schedules.settings import ScheduleSettings, schedule_spec


class AppSchedules(RunningApp):
    async def schedule(self, name: str, call: Schedulable, **settings: Unpack[ScheduleSettings]) -> ScheduleView:
        """Start flows by a schedule: `await app.schedule("nightly", Report.call(), cron="0 2 * * *")`.

        The workers of the fleet start one flow for each tick. A schedule of the same name is changed.

        call: as in `start`; a workflow or an action without arguments may be given itself.
        cron: when, as five fields such as "0 2 * * *", in `timezone` (UTC by default).
        every: or an interval, such as "10m"; at: or one time, a datetime with a zone.
        overlap: what a tick does while an earlier flow still runs: "skip", "queue" (one), "cancel" the earlier one,
        or "allow" both.
        catch_up: how late a tick may be that no worker was there for ("1h"); later ones are skipped and counted.
        jitter: delays each tick by up to this.
        queue, priority, tags: of the flows.
        """
        given = input_of(call_without_arguments(call))
        return await self._schedules.define(name, schedule_spec(given.definition, given.text, **settings))

    async def schedules(self, *, after: str = "", limit: int = 100) -> list[ScheduleView]:
        """The schedules by name, each with its next tick and its last flow; `after` the one of that name."""
        return await self._schedules.views(after, limit)

    async def find_schedule(self, name: str, *, ticks: int = NEXT_SHOWN) -> ScheduleView:
        """The schedule with its next ticks, its last flows and what it skipped; ScheduleNotFoundError without one."""
        return await self._schedules.view(name, ticks)

    async def pause_schedule(self, name: str, *, by: str, why: str) -> bool:
        """Start no flows by this schedule until it is resumed; False when it was paused already."""
        return await self._schedules.pause(name, by, why)

    async def resume_schedule(self, name: str, *, by: str, why: str) -> bool:
        """Let a paused schedule go on with its next tick; False when it was not paused."""
        return await self._schedules.resume(name, by, why)

    async def trigger_schedule(self, name: str, *, by: str, why: str) -> Handle[Any]:
        """Start a flow of this schedule now, also while another one runs or the schedule is paused."""
        return Handle(await self._schedules.trigger(name, by, why), self._flows, self._results)

    async def backfill_schedule(self, name: str, begin: datetime, end: datetime, *, by: str, why: str) -> Backfilled:
        """Start the flows of all ticks from `begin` to `end` that have none yet, all at once."""
        return await self._schedules.backfill(name, begin, end, by, why)

    async def delete_schedule(self, name: str) -> bool:
        """Remove a schedule; its flows stay. Return False when there is none."""
        return await self._schedules.drop(name)

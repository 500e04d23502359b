"""Start the flows of schedules when they are due.

Every worker does so, for all schedules. Whoever writes a schedule first settles its ticks; what the others wanted to
write is refused by the store, because they have seen an earlier version.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from redrive.determinism.clock import Clock, whole_microseconds
from redrive.errors import CommitUnknownError, LeaseLostError, StoreUnavailableError
from redrive.failures.traces import trace_of
from redrive.flows.messages import Cancel, write_message
from redrive.flows.schedules.advance import advance
from redrive.flows.schedules.schedule import Schedule, read_schedule_body
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED
from redrive.stores.schedules import ScheduleRow
from redrive.worker.maintenance.declared_schedules import DeclaredSchedules
from redrive.worker.schedule_rows import flow_of_run, row_of
from redrive.worker.store_outages import log_outage
from redrive.worker.timer_queue import Timer, TimerQueue

log = logging.getLogger("redrive")


class Ticker:
    def __init__(
        self, store: Store, clock: Clock, timers: TimerQueue, poll: float, on_started: Callable[[], None]
    ) -> None:
        """poll: seconds between looks at the store, which somebody else may have changed.

        on_started: called when there are new flows to claim.
        """
        self._store = store
        self._clock = clock
        self._timers = timers
        self._poll = poll
        self._on_started = on_started
        self._declared = DeclaredSchedules(store, clock)
        self._wake = asyncio.Event()
        self._timer: Timer | None = None
        self._waits_for: frozenset[str] = frozenset()
        """The flows after whose end a schedule goes on."""
        self._stop_listening: Callable[[], None] | None = None
        self._broken: dict[str, int] = {}
        """Schedules that could not be advanced -> the version that was reported."""

    def wake(self) -> None:
        """A schedule has changed."""
        self._wake.set()

    def flows_ended(self, flow_ids: Sequence[str] | None) -> None:
        """These flows have ended; None: any may have."""
        # Others in the fleet end flows all the time: when it is not known which, the next poll is soon enough.
        if flow_ids is not None and not self._waits_for.isdisjoint(flow_ids):
            self._wake.set()

    async def run(self) -> None:
        """Look when something is due or has changed, and at each poll, until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._wake.clear()
                try:
                    with self._clock.busy():
                        await self._declared.assert_new()
                        await self._fire_due()
                except StoreUnavailableError as error:
                    log_outage(self._store.address, error)
                poll = loop.call_later(self._poll, self._wake.set)
                try:
                    await self._wake.wait()
                finally:
                    poll.cancel()
        finally:
            self._listen(frozenset())

    async def _fire_due(self) -> None:
        store = self._store
        while True:
            now = whole_microseconds(self._clock.wall())
            due = await store.due_schedules(now)
            self._listen(due.waits_for)
            advanced = [await self._advance(row, now) for row in due.rows]
            if not any(advanced):
                self._alarm(due.next_at)
                return

    def _listen(self, waits_for: frozenset[str]) -> None:
        """Hear of ends only while a schedule goes on after one: a store that tells of them makes each end dearer."""
        self._waits_for = waits_for
        if waits_for and self._stop_listening is None:
            self._stop_listening = self._store.on_ended(self.flows_ended)
            # One may have ended since the last look.
            self._wake.set()
        elif not waits_for and self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None

    async def _advance(self, row: ScheduleRow, now: float) -> bool:
        """Settle the ticks of a schedule that are due; return whether there may be more to do."""
        try:
            return await self._settle(row, now)
        except (StoreUnavailableError, LeaseLostError):
            raise
        except Exception as error:  # noqa: BLE001 - the other schedules go on
            if self._broken.get(row.name) != row.version:
                self._broken[row.name] = row.version
                log.error("schedule %r cannot go on\n%s", row.name, trace_of(error))
            return False

    async def _settle(self, row: ScheduleRow, now: float) -> bool:
        schedule = read_schedule_body(row.name, row.body)
        unfinished = await self._unfinished(schedule)
        step = advance(schedule, now, unfinished)
        latest = row_of(step.schedule, row.version, {*unfinished, *(run.flow_id for run in step.started)})
        if step.schedule is schedule and latest.waits_for == row.waits_for:
            return False
        flows = [flow_of_run(schedule, run) for run in step.started]
        cancel = write_message(Cancel(by=f"schedule {row.name}", why="its next tick has come"))
        # Whatever became of it is read next; if it was not written, the same ticks start the same flows.
        with contextlib.suppress(CommitUnknownError):
            await self._store.write_schedule(latest, flows, [(one, cancel) for one in step.cancelled], now)
        if flows:
            # Not every store tells its own worker at once.
            self._on_started()
        return True

    async def _unfinished(self, schedule: Schedule) -> frozenset[str]:
        if schedule.spec.overlap == "allow" or not schedule.runs:
            return frozenset()
        found = await self._store.find_flows([run.flow_id for run in schedule.runs])
        return frozenset(one.id for one in found.values() if one.status not in FINISHED)

    def _alarm(self, when: float | None) -> None:
        """Wake when the next schedule is due."""
        if self._timer is not None:
            self._timers.cancel(self._timer)
        self._timer = None if when is None else self._timers.schedule(when, self._wake.set)

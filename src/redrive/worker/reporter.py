"""Report to the store how this worker is, and what its attempts came to; obey orders about dependencies."""

import logging
import math
import os
import socket
import sys
from collections.abc import Callable, Sequence

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.failures.traces import trace_of
from redrive.resilience.dependencies import Dependency
from redrive.stores.activity import ActivityRow
from redrive.stores.interface import Store
from redrive.stores.worker_reports import (
    MOST_DEPENDENCIES,
    MOST_RUNNING,
    DependencyState,
    ReportBody,
    ReportedPhase,
    RunningAttempt,
    SlotUse,
    WorkerReport,
)
from redrive.worker.activity import ActivityCounts
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.flow_table import FlowTable
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.slots import ExecutionSlots
from redrive.worker.store_outages import log_outage

log = logging.getLogger("redrive")

EVERY = 1.0
"""Seconds between two looks at what has changed."""
AT_LEAST_EVERY = 10.0
"""Seconds after which a report is repeated although nothing has changed."""
MOST_KEPT = 10_000
"""Rows of activity that are kept while the store is away."""


class Reporter:
    def __init__(
        self,
        store: Store,
        held: HeldLease,
        slots: ExecutionSlots,
        guard: DependencyGuard,
        flows: FlowTable,
        activity: ActivityCounts,
        wall: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._held = held
        self._slots = slots
        self._guard = guard
        self._flows = flows
        self._activity = activity
        self._wall = wall
        self._monotonic = monotonic
        self._began_at = wall()
        # Fixed, so that a state which does not change looks the same each time.
        self._to_wall = self._began_at - monotonic()
        self._last = b""
        self._last_at = -math.inf
        self._unsent: list[ActivityRow] = []

    async def run(self) -> None:
        """Report until cancelled. Nothing that fails here stops the worker."""
        while True:
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + EVERY)
            try:
                await self.look()
            except StoreUnavailableError as error:
                log_outage(self._store.address, error)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a report, the work goes on
                log.error("a worker could not report how it is; its work goes on\n%s", trace_of(error))

    async def look(self) -> None:
        """Send what has changed, and obey the orders that have come."""
        now = self._wall()
        body = msgspec.json.encode(self._body())
        is_due = body != self._last or now - self._last_at >= AT_LEAST_EVERY or now < self._last_at
        rows = [*self._unsent, *self._activity.take()]
        self._unsent = []
        if is_due or rows:
            epoch = self._held.lease.epoch
            report = WorkerReport(epoch=epoch, at=now, body=body.decode()) if is_due else None
            await self._send(report, rows)
            if is_due:
                self._last, self._last_at = body, now
        self._guard.obey(await self._store.list_dependency_orders(), self._monotonic())

    async def send_counts(self) -> None:
        """Send what was counted: the worker is about to stop."""
        if rows := [*self._unsent, *self._activity.take()]:
            await self._send(None, rows)

    async def _send(self, report: WorkerReport | None, rows: Sequence[ActivityRow]) -> None:
        try:
            await self._store.report(self._held.lease, report, rows)
        except StoreUnavailableError:
            # With the next one. What was sent may be counted twice, where the answer alone was lost.
            self._unsent = list(rows[-MOST_KEPT:])
            raise

    def _body(self) -> ReportBody:
        running = []
        for attempt in self._slots.first_attempts(MOST_RUNNING):
            run = self._flows.by_id.get(attempt.flow_id)
            item = None if run is None else run.log.history.items.get(attempt.item)
            if item is not None:
                running.append(
                    RunningAttempt(
                        flow_id=attempt.flow_id,
                        item=attempt.item,
                        step=attempt.step,
                        attempt=attempt.number,
                        began_at=item.attempt_began,
                    )
                )
        return ReportBody(
            version=_version(),
            pid=os.getpid(),
            host=socket.gethostname(),
            began_at=self._began_at,
            slots={name: SlotUse(*use) for name, use in self._slots.use().items()},
            running=running,
            held_loop=self._held.held_loop,
            dependencies=self._dependencies(),
        )

    def _dependencies(self) -> list[DependencyState]:
        now = self._monotonic()
        found = [self._state(one, now) for one in self._guard.dependencies.all()]
        found.sort(key=lambda one: (one.phase == "closed", not one.in_line, -one.failures))
        return found[:MOST_DEPENDENCIES]

    def _state(self, dependency: Dependency, now: float) -> DependencyState:
        circuit, budget = dependency.circuit, dependency.budget
        budget_left = None if budget is None else max(0, int(budget.left(now)))
        in_line = self._guard.in_line(dependency.name)
        if circuit is None:
            return DependencyState(name=dependency.name, budget_left=budget_left, in_line=in_line)
        state = circuit.state
        phase: ReportedPhase = "recovering" if state.ramp is not None else state.phase
        probe = None if state.by_hand else circuit.probe_due()
        return DependencyState(
            name=dependency.name,
            phase=phase,
            since=None if state.phase == "closed" else state.opened_at + self._to_wall,
            failures=state.failures,
            probe_at=None if probe is None else probe + self._to_wall,
            rate=None if state.ramp is None else round(state.ramp.rate, 1),
            budget_left=budget_left,
            in_line=in_line,
            by_hand=state.by_hand,
        )


def _version() -> str:
    # Of the package, which this module is part of and so cannot import; its metadata would take 20 ms to read.
    return str(getattr(sys.modules.get("redrive"), "__version__", ""))

"""Stop a worker: let attempts finish, return the others uncounted, and release all flows."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.flows.history import Item
from redrive.runners.attempt import Attempt
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.journal import Journal
from redrive.worker.maintenance.lease_keeper import HeldLease
from redrive.worker.settings import WorkerSettings
from redrive.worker.slots import ExecutionSlots
from redrive.worker.store_outages import is_away

# Seconds that cancelled attempts have to clean up before another worker repeats them.
CLEAN_UP = 2.0
# Seconds to release an expired lease: if no other worker has reaped it yet, its flows do not count as lost.
LAST_CALL = 0.5


class Shutdown:
    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        journal: Journal,
        runner: Runner,
        flows: FlowTable,
        slots: ExecutionSlots,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._settings = settings
        self._journal = journal
        self._runner = runner
        self._flows = flows
        self._slots = slots
        self._now = now

    async def run(self, *until: "asyncio.Task[Any]") -> None:
        """Wait for running attempts, return the others, and release all flows; give up when a task of `until` ends."""
        loop = asyncio.get_running_loop()
        attempts_end = loop.create_task(self._end_attempts())
        # If this is cancelled, so are the attempts, and whatever waits for them.
        await asyncio.wait([attempts_end, *until], return_when=asyncio.FIRST_COMPLETED)
        if attempts_end.cancel() or any(task.done() for task in until):
            return
        attempts_end.result()
        for run in self._flows:
            if not run.log.released:
                self._return_unstarted(run)
                run.log.release("ready", self._now())
        ends = [loop.create_task(self._journal.drained()), *until]
        try:
            while not (await asyncio.wait(ends, timeout=self._settings.lease, return_when=asyncio.FIRST_COMPLETED))[0]:
                if is_away(self._store.address):
                    # A whole lease has passed: nothing can be written under it any more.
                    return
        finally:
            ends[0].cancel()

    async def _end_attempts(self) -> None:
        running = await self._runner.drain(self._settings.grace)
        returned = [attempt for attempt in running if self._may_be_returned(attempt)]
        for attempt in returned:
            self._runner.cancel(attempt)
        await self._runner.wait_for(returned, CLEAN_UP)
        for attempt in returned:
            # It may have succeeded before the cancellation reached it.
            if (found := self._find(attempt)) is not None:
                _return(*found)

    def _may_be_returned(self, attempt: Attempt) -> bool:
        """False for an attempt that may keep running or take effect twice: its next owner counts it as lost."""
        found = self._find(attempt)
        return found is not None and attempt.executor != "thread" and found[1].policy.idempotent is not False

    def _find(self, attempt: Attempt) -> tuple[FlowRun, Item] | None:
        run = self._flows.by_id.get(attempt.flow_id)
        item = run.log.history.items.get(attempt.item) if run else None
        if run is None or item is None or item.delivery != attempt.delivery_token or run.log.released:
            return None
        return run, item

    def _return_unstarted(self, run: FlowRun) -> None:
        """Return attempts that are logged but were not dispatched before the worker stopped."""
        for number in run.starter.running_items() - self._slots.items_of(run.id):
            _return(run, run.log.history.items[number])


def _return(run: FlowRun, item: Item) -> None:
    at = run.log.now()
    run.starter.active -= 1
    run.attempts.return_attempt(item, at, at, "its worker was shut down")


async def release_lease(store: Store, held: HeldLease) -> None:
    """Release the lease, for no longer than it lasts: after that, other workers reap it."""
    with contextlib.suppress(StoreError, TimeoutError):
        async with asyncio.timeout(max(LAST_CALL, held.ends - SYSTEM_CLOCK.monotonic())):
            await store.release_lease(held.lease)

"""Stop a worker: let attempts finish, return the others uncounted, and release all flows."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.flows.item import Item
from redrive.formatting.text import format_count
from redrive.formatting.times import format_duration
from redrive.runners.attempt import Attempt
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.journal import Journal
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.reporter import Reporter
from redrive.worker.settings import WorkerSettings
from redrive.worker.slots import ExecutionSlots
from redrive.worker.store_outages import is_away

log = logging.getLogger("redrive")

# Seconds that cancelled attempts have to clean up before another worker repeats them.
CLEAN_UP = 2.0
# Seconds to release an expired lease: if no other worker has reaped it yet, its flows do not count as lost.
LAST_CALL = 0.5
STOPPED = "its worker was shut down"


class Shutdown:
    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        journal: Journal,
        runner: Runner,
        flows: FlowTable,
        slots: ExecutionSlots,
        read_inbox: Callable[[], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._settings = settings
        self._journal = journal
        self._runner = runner
        self._flows = flows
        self._slots = slots
        self._read_inbox = read_inbox
        self._now = now
        self._returned = 0

    async def run(self, *until: "asyncio.Task[Any]") -> None:
        """Wait for running attempts, return the others, and release all flows; give up when a task of `until` ends."""
        loop = asyncio.get_running_loop()
        if running := self._runner.attempts:
            attempts = f"{format_count(running, 'attempt')} {'runs' if running == 1 else 'run'}"
            log.info("stopping: %s, grace %s", attempts, format_duration(self._settings.grace))
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
        if running or self._returned:
            log.info("stopped; %s", self._given_back())

    def _given_back(self) -> str:
        if not self._returned:
            return "no attempt was given back"
        them = "it is" if self._returned == 1 else "they are"
        return f"{format_count(self._returned, 'attempt')} given back uncounted: {them} made again by another worker"

    async def _end_attempts(self) -> None:
        running = await self._runner.drain(self._settings.grace)
        returned = [attempt for attempt in running if self._may_be_returned(attempt)]
        for attempt in returned:
            self._runner.cancel(attempt)
        await self._runner.wait_for(returned, CLEAN_UP)
        for attempt in returned:
            # It may have succeeded before the cancellation reached it.
            if (found := self._find(attempt)) is not None:
                run, item = found
                run.attempts.return_stopped(item, STOPPED)
                self._returned += 1
        if any(item.closed for run in self._flows for item in run.log.history.items.values()):
            # Reports about these attempts count, and may be in the inbox.
            await self._journal.written()
            await self._read_inbox()

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
            item = run.log.history.items[number]
            if not item.closed:
                at = run.log.now()
                run.starter.active -= 1
                run.attempts.return_attempt(item, at, at, STOPPED)
                self._returned += 1


async def send_counts(reporter: Reporter, held: HeldLease) -> None:
    """Send what was counted since the last report, unless that takes long."""
    if not held.is_lost:
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST_CALL):
                await reporter.send_counts()


async def release_lease(store: Store, held: HeldLease) -> None:
    """Release the lease, for no longer than it lasts: after that, other workers reap it."""
    if held.is_lost and held.not_renewed is None:
        # Something in this process may be to blame, and a release would say that nothing happened.
        return
    with contextlib.suppress(StoreError, TimeoutError):
        async with asyncio.timeout(max(LAST_CALL, held.ends - SYSTEM_CLOCK.monotonic())):
            await store.release_lease(held.lease)

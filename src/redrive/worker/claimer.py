"""Claim flows when there is room: on a wake-up from the store, when a flow is due, and on each poll."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from redrive.determinism.clock import Clock
from redrive.flows.registry import known_definitions, registered_counts
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, Lease
from redrive.worker.flow_table import FlowTable
from redrive.worker.settings import WorkerSettings
from redrive.worker.store_outages import log_recovery
from redrive.worker.store_retries import retry_until_available
from redrive.worker.timer_queue import Timer, TimerQueue

CLAIMED_AT_ONCE = 500


class Claimer:
    def __init__(
        self,
        store: Store,
        lease: Lease,
        settings: WorkerSettings,
        clock: Clock,
        flows: FlowTable,
        timers: TimerQueue,
        load: Callable[[Sequence[FlowRecord]], Awaitable[None]],
        claim_time: Callable[[float], float],
    ) -> None:
        """load: loads claimed flows into memory. claim_time: when to claim a flow that wakes at a given time."""
        self._store = store
        self._lease = lease
        self._settings = settings
        self._clock = clock
        self._flows = flows
        self._timers = timers
        self._load = load
        self._claim_time = claim_time
        self._wake = asyncio.Event()
        self._wakes_on_removal = False
        """Whether another flow can be claimed once one leaves memory."""
        self._timer: Timer | None = None
        """For the next claim."""
        self.caught_up = False
        """Whether the worker has everything that it could claim, and room for more."""

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def flow_removed(self) -> None:
        if self._wakes_on_removal:
            self._wake.set()

    async def run(self) -> None:
        store, clock = self._store, self._clock
        definitions, known = known_definitions(), registered_counts()
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            if registered_counts() != known:
                definitions, known = known_definitions(), registered_counts()
            room, more = self._room(), False
            if room > 0:
                most, queues = min(room, CLAIMED_AT_ONCE), self._settings.queues
                with clock.busy():
                    claimed = await retry_until_available(
                        store, store.claim, self._lease, definitions, queues, most, clock.wall()
                    )
                    log_recovery(store.address)
                    if claimed.flows:
                        await self._load(claimed.flows)
                # Other workers may hold locks on the rest: claiming again immediately would find nothing.
                more = claimed.more and bool(claimed.flows)
                self._wakes_on_removal = claimed.limited
                if claimed.next_wake is not None:
                    self.claim_at(claimed.next_wake)
            self.caught_up = room > 0 and not more
            if room <= 0 or not more:
                self._wakes_on_removal |= room <= 0
                poll = loop.call_later(self._settings.poll, self._wake.set)
                await self._wake.wait()
                poll.cancel()

    def _room(self) -> int:
        """How many more flows to claim. Idle flows stay in memory, unless there is hardly anything else."""
        most = self._settings.flows
        return max(most - len(self._flows), max(1, most // 4) - self._flows.busy)

    def claim_at(self, when: float) -> None:
        """Claim when a flow that nobody owns wakes; one timer at a time is enough."""
        when = self._claim_time(when)
        if self._timer is not None:
            if when >= self._timer.when:
                return
            # The earlier claim finds out when the next one is due.
            self._timers.cancel(self._timer)
        self._timer = self._timers.schedule(when, self._claim_now)

    def _claim_now(self) -> None:
        self._timer = None
        self._wake.set()

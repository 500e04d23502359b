"""Claim flows when there is room: on a wake-up from the store, when a flow is due, and on each poll."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from redrive.determinism.clock import SYSTEM_CLOCK, Clock
from redrive.flows.registry import known_definitions, registered_counts
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.records import FlowRecord
from redrive.worker.flow_table import FlowTable
from redrive.worker.large_pace import LONGEST_REST
from redrive.worker.settings import WorkerSettings
from redrive.worker.slots import ExecutionSlots
from redrive.worker.store_outages import log_recovery
from redrive.worker.store_retries import retry_until_available
from redrive.worker.timer_queue import Timer, TimerQueue

CLAIMED_AT_FIRST, CLAIMED_AT_ONCE = 10, 500
"""How many flows a worker claims at first, and at most."""
GROWTH, GROWTH_WHEN_QUICK = 1.5, 4
"""Factor by which each claim grows while there are more flows. At 2, the first worker would take most of a backlog.

Flows that are done within a round need not be shared.
"""
ROUND = 0.02
"""Seconds between the first claims, so that other workers that are woken by the same flows get their share."""


class Claimer:
    def __init__(
        self,
        store: Store,
        lease: Lease,
        settings: WorkerSettings,
        clock: Clock,
        flows: FlowTable,
        slots: ExecutionSlots,
        timers: TimerQueue,
        load: Callable[[Sequence[FlowRecord]], Awaitable[None]],
        claim_time: Callable[[float], float],
        on_paused: Callable[[frozenset[str] | None], None],
    ) -> None:
        """load: loads claimed flows into memory. claim_time: when to claim a flow that wakes at a given time.

        on_paused: called with the paused queues that each claim tells.
        """
        self._store = store
        self._lease = lease
        self._settings = settings
        self._clock = clock
        self._flows = flows
        self._slots = slots
        self._timers = timers
        self._load = load
        self._claim_time = claim_time
        self._on_paused = on_paused
        self._asked_at = -math.inf
        """When the store last told which queues are paused."""
        self._wake = asyncio.Event()
        self._wakes_on_removal = False
        """Whether another flow can be claimed once one leaves memory."""
        self._most = CLAIMED_AT_FIRST
        """How many flows the next claim takes at most."""
        self._crowded: dict[str, int] = {}
        """Definitions that the last claim skipped, since their flows wait for slots here -> how many slots."""
        self._removed = 0
        """How many flows have left memory."""
        self._done_at = math.inf
        """The value of `_removed` at which half of the last claim is done; infinity while nobody waits for that."""
        self._most_are_done = asyncio.Event()
        self._timer: Timer | None = None
        """For the next claim."""
        self.caught_up = False
        """Whether the worker has everything that it could claim, and room for more."""

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def flow_removed(self) -> None:
        self._removed += 1
        if self._removed >= self._done_at:
            self._most_are_done.set()
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
                self._leave_crowded_kinds_to_others()
                most, queues, skipped = min(room, self._most), self._settings.queues, self._crowded
                growth: float = GROWTH
                with clock.busy():
                    began, removed = SYSTEM_CLOCK.monotonic(), self._removed
                    claimed = await retry_until_available(
                        store, store.claim, self._lease, definitions, queues, most, clock.wall(), skipped
                    )
                    log_recovery(store.address)
                    # Before the flows are loaded: their queue may have been paused or resumed just now.
                    self._asked_at = began
                    self._on_paused(claimed.paused)
                    if claimed.flows:
                        await self._load(claimed.flows)
                    # Other workers may hold locks on the rest: claiming again immediately would find nothing.
                    more = claimed.more and bool(claimed.flows)
                    if more and any(len(record.input) > LARGE_JSON for record in claimed.flows):
                        # What the claimed flows commit next must not wait behind another claim like this one.
                        now = SYSTEM_CLOCK.monotonic()
                        await SYSTEM_CLOCK.asleep_until(now + min(now - began, LONGEST_REST))
                    elif more and self._most < CLAIMED_AT_ONCE and not self._slots.has_waiters:
                        quick = await self._are_done_by(began + ROUND, removed + len(claimed.flows) // 2)
                        growth = GROWTH_WHEN_QUICK if quick else GROWTH
                self._most = min(int(growth * self._most), CLAIMED_AT_ONCE) if more else CLAIMED_AT_FIRST
                self._wakes_on_removal = claimed.limited or bool(skipped)
                if claimed.next_wake is not None:
                    self.claim_at(claimed.next_wake)
            elif SYSTEM_CLOCK.monotonic() - self._asked_at >= self._settings.poll:
                await self._ask_for_pauses(definitions)
            self.caught_up = room > 0 and not more and not self._crowded
            if room <= 0 or not more:
                self._wakes_on_removal |= room <= 0
                poll = loop.call_later(self._settings.poll, self._wake.set)
                await self._wake.wait()
                poll.cancel()

    async def _ask_for_pauses(self, definitions: Sequence[str]) -> None:
        """Learn from a claim that takes nothing which queues are paused, while there is no room for flows."""
        self._asked_at = SYSTEM_CLOCK.monotonic()
        with self._clock.busy():
            claimed = await retry_until_available(
                *(self._store, self._store.claim, self._lease, definitions, self._settings.queues),
                *(1, self._clock.wall(), definitions),
            )
            self._on_paused(claimed.paused)

    async def _are_done_by(self, end: float, removed: int) -> bool:
        """Wait until so many flows have left memory; False when that takes until `end`."""
        self._most_are_done.clear()
        if self._removed < removed:
            self._done_at = removed
            waiting = asyncio.get_running_loop().call_later(end - SYSTEM_CLOCK.monotonic(), self._most_are_done.set)
            await self._most_are_done.wait()
            waiting.cancel()
            self._done_at = math.inf
        return self._removed >= removed

    def _room(self) -> int:
        """How many more flows to claim. Idle flows stay in memory, unless there is hardly anything else."""
        most = self._settings.flows
        return max(most - len(self._flows), max(1, most // 4) - self._flows.busy)

    def _leave_crowded_kinds_to_others(self) -> None:
        """Skip the definitions whose flows stand in line here; take few of a kind whose line has become short."""
        before, flows = self._crowded, self._flows.by_id
        self._crowded = {
            flows[flow_id].log.record.definition: slots
            for flow_id, slots in self._slots.flows_in_long_lines().items()
            if flow_id in flows
        }
        for definition in before.keys() - self._crowded.keys():
            self._most = min(self._most, max(CLAIMED_AT_FIRST, before[definition]))

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

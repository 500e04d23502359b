"""A worker asks for flows: when it has room, when someone calls, when one is due, and now and then."""

import asyncio
from typing import TYPE_CHECKING

from redrive.flows.registry import known_definitions, registered_counts
from redrive.worker.journal import patiently
from redrive.worker.recovery.claimed_flows import adopt
from redrive.worker.store_outages import store_is_back
from redrive.worker.timer_queue import Alarm

if TYPE_CHECKING:
    from redrive.worker.worker import Worker

CLAIMED_AT_ONCE = 500


class Claims:
    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._wake = asyncio.Event()
        self._wants_ends = False
        """Whether the end of a flow may make it possible to claim another."""
        self._alarm: Alarm | None = None
        """For the next look."""
        self.caught_up = False
        """Whether the worker has all that it could claim, and room for more."""

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def flow_ended(self) -> None:
        if self._wants_ends:
            self._wake.set()

    async def run(self) -> None:
        worker, lease = self._worker, self._worker.lease
        assert lease is not None  # noqa: S101 - it was made when the worker began
        definitions, known = known_definitions(), registered_counts()
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            if registered_counts() != known:
                definitions, known = known_definitions(), registered_counts()
            room, more = self._room(), False
            if room > 0:
                most, queues = min(room, CLAIMED_AT_ONCE), worker.settings.queues
                with worker.clock.busy():
                    claimed = await patiently(
                        worker.store, worker.store.claim, lease, definitions, queues, most, worker.now()
                    )
                    store_is_back(worker.store.address)
                    if claimed.flows:
                        await adopt(worker, claimed.flows)
                # What there is may be locked by others for long: to ask again at once would be in vain.
                more = claimed.more and bool(claimed.flows)
                self._wants_ends = claimed.limited
                if claimed.next_wake is not None:
                    self.look_again_at(claimed.next_wake)
            self.caught_up = room > 0 and not more
            if room <= 0 or not more:
                self._wants_ends |= room <= 0
                poll = loop.call_later(worker.settings.poll, self._wake.set)
                await self._wake.wait()
                poll.cancel()

    def _room(self) -> int:
        """How many more flows to claim. Those that wait for a little stay, unless there is hardly anything else."""
        worker = self._worker
        most, active = worker.settings.flows, len(worker.runs) - len(worker.idle)
        return max(most - len(worker.runs), max(1, most // 4) - active)

    def look_again_at(self, when: float) -> None:
        """When a flow that nobody owns will wake; one alarm at a time is enough."""

        def look() -> None:
            self._alarm = None
            self._wake.set()

        when, alarms = self._worker.handing_on.look_at(when), self._worker.alarms
        if self._alarm is not None:
            if when >= self._alarm.when:
                return
            # The look that comes first finds out when the next one is to be.
            alarms.take_back(self._alarm)
        self._alarm = alarms.at(when, look)

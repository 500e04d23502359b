"""The store of a simulated fleet: it is reached over a network, and is itself always right."""

from collections.abc import Collection, Sequence
from typing import Any

from redrive.stores.claimed import Claimed
from redrive.stores.leases import Lease
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Batch, FlowRecord
from redrive.stores.refusals import lease_lost
from redrive.testing.fleet.ledger import Ledger


class Server:
    """One store for all machines.

    As on PostgreSQL, a worker that asks what became of a commit or a claim fences it off: it has happened, or it never
    will, however late its request arrives.
    """

    def __init__(self) -> None:
        self.data = MemoryData()
        self.ledger = Ledger()
        self.problems: list[str] = []
        self.store = MemoryStore(self.data)
        self._commit_floor: dict[int, int] = {}
        """Epoch -> the first commit that is not fenced off."""
        self._claim_floor: dict[int, int] = {}
        self._taken: dict[str, tuple[int, int]] = {}
        """Flow id -> the epoch and the number of the claim that took it last."""

    def call(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out a request, at once."""
        own = getattr(self, verb, None)
        request = (own or getattr(self.store, verb))(*args, **kwargs)
        try:
            request.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError(f"{verb} waits for something")

    async def commit(self, lease: Lease, batch: Batch, number: int) -> None:
        if number < self._commit_floor.get(lease.epoch, 0):
            raise lease_lost(lease)
        await self.store.commit(lease, batch)
        self.ledger.saw_commit(batch)

    async def committed(self, lease: Lease, batch: Batch, number: int) -> bool:
        self._commit_floor[lease.epoch] = number
        return await self.store.committed(lease, batch)

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str],
        number: int,
        unanswered: Sequence[int],
    ) -> Claimed:
        """unanswered: earlier claims whose answers were lost."""
        self.data.valid_holder(lease)
        if number < self._claim_floor.get(lease.epoch, 0):
            return Claimed([], None)
        if unanswered:
            self._claim_floor[lease.epoch] = number
            lost = [
                flow
                for flow in map(self.data.flows.__getitem__, self._taken)
                if self._was_taken(flow, lease, unanswered)
            ]
            if lost:
                return Claimed(lost, None, more=True)
        answer = await self.store.claim(lease, definitions, queues, limit, now, skipped)
        for flow in answer.flows:
            self._taken[flow.id] = lease.epoch, number
        if self.data.queue_settings:
            self._check_limits()
        return answer

    def _was_taken(self, flow: FlowRecord, lease: Lease, claims: Sequence[int]) -> bool:
        epoch, number = self._taken[flow.id]
        return flow.owner == epoch == lease.epoch and number in claims

    def _check_limits(self) -> None:
        for queue, settings in self.data.queue_settings.items():
            of_queue, of_keys = self.data.owned_in(queue), self.data.held_in(queue)
            if settings.limit is not None and of_queue > settings.limit:
                self.problems.append(
                    f"{of_queue} flows of queue {queue} are owned at once; its limit is {settings.limit}"
                )
            for key, owned in of_keys.items():
                if settings.per_key is not None and owned > settings.per_key:
                    self.problems.append(
                        f"{owned} flows of key {key} of queue {queue} are owned at once, not {settings.per_key} at most"
                    )

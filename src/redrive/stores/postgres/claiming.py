"""Claims: one statement, or a few where queues have limits; and no flow is forgotten when an answer is lost."""

import asyncio
from collections.abc import Sequence
from typing import Any

from redrive.errors import StoreUnavailableError
from redrive.stores.postgres.claim_statement import CLAIM, CLAIMED_UNHEARD, END_CLAIMS_BEFORE, LOCK_LIMITS
from redrive.stores.postgres.columns import FLOW, flow_record
from redrive.stores.postgres.connections import Lane
from redrive.stores.postgres.faults import lease_lost
from redrive.stores.postgres.statements import KNOWS
from redrive.stores.records import Claimed, FlowRecord, Lease


class Claiming:
    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._number = 0
        self._unheard: dict[int, list[int]] = {}
        """Epoch -> the claims whose answers were lost: there may be flows that their owner does not know of."""
        self._listed: tuple[int, list[str]] | None = None
        """Epoch and definitions, as the worker is listed."""
        self._limited = False
        """Whether there were flows in queues with limits the last time."""

    async def claim(
        self, lease: Lease, definitions: Sequence[str], queues: Sequence[str] | None, limit: int, now: float
    ) -> Claimed:
        asked = list(definitions), None if queues is None else list(queues)
        self._number += 1
        number = self._number

        async def claim(connection: Any, locked: Sequence[str] | None) -> Claimed:
            rows = await connection.fetch(CLAIM, lease.epoch, *asked, limit, now, locked, number)
            if not rows:
                raise lease_lost(lease)
            *_, next_wake, more, self._limited = rows[0]
            flows = [flow_record(row[: len(FLOW)]) for row in rows if row["id"] is not None]
            return Claimed(flows, next_wake, more, self._limited)

        async def claim_within_limits(connection: Any) -> Claimed:
            async with connection.transaction():
                locked = [name for (name,) in await connection.fetch(LOCK_LIMITS, asked[1], now)]
                return await claim(connection, locked)

        async def claim_all(connection: Any) -> Claimed:
            if self._listed != (lease.epoch, asked[0]):
                await connection.execute(KNOWS, lease.epoch, asked[0])
                self._listed = lease.epoch, asked[0]
            unheard = self._unheard.get(lease.epoch)
            if unheard and (flows := await _found(connection, lease, unheard, number)):
                return Claimed(flows, None, more=True)
            if not self._limited:
                first = await claim(connection, None)
                if not self._limited:
                    return first
            return await claim_within_limits(connection)

        try:
            answer = await self._lane.run(claim_all)
        except (StoreUnavailableError, asyncio.CancelledError):
            self._unheard.setdefault(lease.epoch, []).append(number)
            raise
        self._unheard.pop(lease.epoch, None)
        return answer


async def _found(connection: Any, lease: Lease, unheard: list[int], number: int) -> list[FlowRecord]:
    """The flows of claims that did happen; none of these claims can happen any more."""
    if not await connection.fetch(END_CLAIMS_BEFORE, lease.epoch, number):
        raise lease_lost(lease)
    return [flow_record(row) for row in await connection.fetch(CLAIMED_UNHEARD, lease.epoch, unheard)]

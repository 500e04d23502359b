"""Claims flows, and finds those of a claim whose answer was lost."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from redrive.errors import StoreUnavailableError
from redrive.stores.claimed import Claimed
from redrive.stores.leases import Lease
from redrive.stores.pools import pools_of
from redrive.stores.postgres.claim_statement import CLAIM, CLAIMED_BY, RAISE_CLAIM_FLOOR
from redrive.stores.postgres.columns import FLOW, flow_record
from redrive.stores.postgres.connections import SharedConnection
from redrive.stores.postgres.statements import UPDATE_DEFINITIONS
from redrive.stores.postgres.turns import claim_in_turns
from redrive.stores.records import FlowRecord
from redrive.stores.refusals import lease_lost


class Claimer:
    """Claims with one statement, or with a few where queues have settings or flows have concurrency keys."""

    def __init__(self, connection: SharedConnection, check: Callable[[Lease], None]) -> None:
        """check: raises LeaseLostError when the server is not the one that issued the lease."""
        self._connection = connection
        self._check = check
        self._number = 0
        self._unanswered: dict[int, list[int]] = {}
        """Epoch -> the claims whose answers were lost: they may have taken flows unknown to their owner."""
        self._listed: tuple[int, list[str]] | None = None
        """The epoch and the definitions with which the worker is listed."""
        self._limited = False
        """Whether the last claim found flows in queues with settings, or with concurrency keys."""

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str],
    ) -> Claimed:
        known = list(definitions)
        wanted = (
            pools_of((one for one in known if one not in skipped), lease.version),
            None if queues is None else list(queues),
        )
        self._number += 1
        number = self._number

        async def claim(connection: Any) -> Claimed:
            rows = await connection.fetch(CLAIM, lease.epoch, *wanted, limit, now, number)
            if not rows:
                raise lease_lost(lease)
            *_, next_wake, more, self._limited, paused = rows[0]
            flows = [flow_record(row[: len(FLOW)]) for row in rows if row["id"] is not None]
            return Claimed(flows, next_wake, more, self._limited, frozenset(paused))

        async def claim_within_limits(connection: Any) -> Claimed:
            async with connection.transaction():
                claimed = await claim_in_turns(connection, lease, *wanted, limit, now, number)
            self._limited = claimed.limited
            return claimed

        async def claim_all(connection: Any) -> Claimed:
            self._check(lease)
            if self._listed != (lease.epoch, known):
                await connection.execute(UPDATE_DEFINITIONS, lease.epoch, known)
                self._listed = lease.epoch, known
            unanswered = self._unanswered.get(lease.epoch)
            if unanswered and (flows := await _taken_by(connection, lease, unanswered, number)):
                return Claimed(flows, None, more=True)
            if not self._limited:
                first = await claim(connection)
                if not self._limited:
                    return first
            return await claim_within_limits(connection)

        try:
            answer = await self._connection.run(claim_all)
        except (StoreUnavailableError, asyncio.CancelledError):
            self._unanswered.setdefault(lease.epoch, []).append(number)
            raise
        self._unanswered.pop(lease.epoch, None)
        return answer


async def _taken_by(connection: Any, lease: Lease, unanswered: list[int], number: int) -> list[FlowRecord]:
    """Return the flows that these claims took, and make sure that none of them can still take one."""
    if not await connection.fetch(RAISE_CLAIM_FLOOR, lease.epoch, number):
        raise lease_lost(lease)
    return [flow_record(row) for row in await connection.fetch(CLAIMED_BY, lease.epoch, unanswered)]

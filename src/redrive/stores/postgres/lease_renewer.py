"""Renews leases from another thread, on a connection of its own."""

from collections.abc import Callable
from typing import Any

from redrive.stores.leases import Lease
from redrive.stores.postgres import statements
from redrive.stores.postgres.connections import SharedConnection
from redrive.stores.postgres.server import USE_INDEXES, Server


class PostgresLeaseRenewer:
    """Implements LeaseRenewer. The connection belongs to the event loop of the first use."""

    def __init__(self, server: Server, timeout: float, check: Callable[[Lease], None]) -> None:
        """timeout: after how many seconds without an answer the connection is replaced.

        check: raises LeaseLostError when the server is not the one that issued the lease.
        """
        self._check = check
        self._connection = SharedConnection(server, USE_INDEXES, timeout=timeout)
        self._connection.open()

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        async def extend(connection: Any) -> bool:
            self._check(lease)
            return bool(await connection.fetchval(statements.EXTEND_LEASE, lease.epoch, ttl))

        return await self._connection.run(extend)

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        async def accuse(connection: Any) -> None:
            self._check(lease)
            await connection.execute(statements.ACCUSE, lease.epoch, flow_id, blame)

        await self._connection.run(accuse)

    async def close(self) -> None:
        await self._connection.close()

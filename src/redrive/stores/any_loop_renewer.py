"""Renews leases through a store whose verbs can be called from any event loop."""

from redrive.stores.interface import Store
from redrive.stores.leases import Lease


class AnyLoopRenewer:
    """Implements LeaseRenewer for the memory store and SQLite, which have no connection that belongs to one loop."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        return await self._store.extend_lease(lease, ttl)

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        await self._store.accuse(lease, flow_id, blame)

    async def close(self) -> None:
        pass

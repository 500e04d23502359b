"""After a failover to a standby that lacks the last commits, no lease of before is valid."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.chaos.network import Network
from tests.chaos.processes import through
from tests.postgres_server import PostgresServer

from redrive.errors import LeaseLostError, StoreUnavailableError
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, EventRow, NewFlow

WORKER = NewWorker(name="w", definitions=("workflow:A",))


async def until_back(ask: Callable[[], Awaitable[object]]) -> object:
    for _ in range(200):
        try:
            return await ask()
        except StoreUnavailableError:
            await asyncio.sleep(0.02)
    raise AssertionError("the store is not back")


@pytest.mark.promise("X1")
def test_a_lease_of_the_old_server_cannot_write_claim_or_be_extended_on_the_new_one() -> None:
    primary = PostgresServer()
    standby = PostgresServer(standby_of=primary, port=primary.port)

    async def play() -> None:
        address = primary.fresh_database()
        with Network(primary.port, 1) as network:
            store = PostgresStore(through(address, network.port(0)))
            await store.open()
            try:
                leases: list[Lease] = [await store.acquire_lease(WORKER, 60.0) for _ in range(4)]
                now = 1.0
                await store.add_flows(
                    [NewFlow(id="f", definition="workflow:A", input="[]", created_at=now, start_at=now)]
                )
                assert len((await store.claim(leases[0], WORKER.definitions, None, 5, now)).flows) == 1
                # On both servers, so that only the timeline tells that commits may be missing.
                await asyncio.to_thread(standby.catch_up, primary)
                await asyncio.to_thread(primary.kill)
                await asyncio.to_thread(standby.promote)
                network.retarget(standby.port)
                batch = Batch(number=1, events=[EventRow("f", 1, now, "[]")])
                asks: list[Callable[[], Awaitable[object]]] = [
                    lambda: store.commit(leases[0], batch),
                    lambda: store.committed(leases[1], batch),
                    lambda: store.claim(leases[2], WORKER.definitions, None, 5, now),
                    lambda: store.extend_lease(leases[3], 60.0),
                    lambda: store.release_lease(leases[3]),
                ]
                for ask in asks:
                    with pytest.raises(LeaseLostError, match="failed over"):
                        await until_back(ask)
                assert (await store.read_events(["f"]))["f"] == []
                again = await store.acquire_lease(WORKER, 60.0)
                assert await store.extend_lease(again, 60.0)
            finally:
                await store.close()

    try:
        asyncio.run(play())
    finally:
        primary.remove()
        standby.remove()

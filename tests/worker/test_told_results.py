"""Whoever waits for a flow that another process runs is told when it has ended, and does not have to poll for it."""

import asyncio
from typing import Any

import psycopg
import pytest
from tests.postgres_server import shared_server

import redrive
from redrive import action
from redrive.client import results
from redrive.client.app import App
from redrive.stores.postgres.notifications import NotificationListener

PATIENCE = 20.0
MANY = 200


@action(name="told_results.one")
async def one(n: int) -> int:
    return n


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody finds a result by polling."""
    monkeypatch.setattr(results, "SWEEP", 3600.0)


def count_look_ups(app: App, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many flows each look-up asks for."""
    counts: list[int] = []
    find_flows = app.store.find_flows

    async def counted(ids: Any) -> Any:
        counts.append(len(ids))
        return await find_flows(ids)

    monkeypatch.setattr(app.store, "find_flows", counted)
    return counts


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("beside_worker", [False, True])
def test_a_result_from_another_worker_is_told(address: str, beside_worker: bool) -> None:
    async def scenario() -> None:
        # The client's own worker takes other flows.
        async with redrive.open(address, worker=beside_worker, queues=["other"]) as client, redrive.open(address):
            for n in range(20):
                handle = await client.start(one(n))
                assert await handle.result(timeout=PATIENCE) == n

    asyncio.run(scenario())


def test_an_end_is_told_by_a_worker_that_connects_late(monkeypatch: pytest.MonkeyPatch) -> None:
    address = shared_server().fresh_database()
    listen = NotificationListener._listen

    async def scenario() -> None:
        async with redrive.open(address, worker=False) as client:
            handle = await client.start(one(1))
            waiting = asyncio.create_task(handle.result(timeout=PATIENCE))
            while not sessions(address, "ShareLock"):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            ended = asyncio.Event()

            async def listen_late(self: NotificationListener, connection: Any) -> asyncio.Event:
                await ended.wait()
                return await listen(self, connection)

            monkeypatch.setattr(NotificationListener, "_listen", listen_late)
            async with redrive.open(address) as app:
                while (await app.find(handle.id)).status != "completed":  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
                assert not waiting.done()
                ended.set()
                assert await waiting == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_many_who_wait_share_their_look_ups(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[int]:
        async with redrive.open(address, worker=False) as client:
            handles = await asyncio.gather(*(client.start(one(n), delay=0.2) for n in range(MANY)))
            waiting = [asyncio.create_task(handle.result(timeout=PATIENCE)) for handle in handles]
            counts = count_look_ups(client, monkeypatch)
            async with redrive.open(address):
                assert await asyncio.gather(*waiting) == list(range(MANY))
            return counts

    assert len(asyncio.run(scenario())) < MANY / 2


GATES: list[asyncio.Event] = []


@action(name="told_results.gated")
async def gated(n: int) -> int:
    await GATES[-1].wait()
    return n


def sessions(address: str, query: str) -> int:
    with psycopg.connect(address) as operator:
        found = operator.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid IN"
            " (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = %s)",
            [query],
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_an_app_listens_on_one_connection_and_nobody_is_told_where_nobody_waits() -> None:
    address = shared_server().fresh_database()

    async def scenario() -> None:
        with psycopg.connect(address, autocommit=True) as stranger:
            stranger.execute("LISTEN redrive_ends")

            def told() -> set[str]:
                return {one for told in stranger.notifies(timeout=0.1) for one in told.payload.split(" ")}

            async with redrive.open(address) as app:
                # It runs its own flows, and asks nobody about them.
                gate = asyncio.Event()
                GATES.append(gate)
                for n in range(5):
                    async with asyncio.timeout(PATIENCE):
                        while app._worker is None or not app._worker.caught_up:  # noqa: ASYNC110 - nobody tells
                            await asyncio.sleep(0.001)
                    handle = await app.start(gated(n))
                    waiting_for_own = asyncio.create_task(handle.result(timeout=PATIENCE))
                    await asyncio.sleep(0)
                    gate.set()
                    assert await waiting_for_own == n
                    gate.clear()
                assert told() == set()
                assert sessions(address, "ShareLock") == 0
                async with redrive.open(address, worker=False) as client:
                    waiting = [await client.start(one(n), delay=0.3) for n in range(5)]
                    results = [asyncio.create_task(handle.result(timeout=PATIENCE)) for handle in waiting]
                    assert await asyncio.gather(*results) == list(range(5))
                    assert sessions(address, "ShareLock") == 1
                assert told() == {handle.id for handle in waiting}

    asyncio.run(scenario())


def test_who_waits_is_told_again_after_the_connection_was_lost() -> None:
    address = shared_server().fresh_database()

    async def scenario() -> None:
        async with redrive.open(address, worker=False) as client, redrive.open(address):
            assert await (await client.start(one(1))).result(timeout=PATIENCE) == 1
            handle = await client.start(one(2), delay=1)
            waiting = asyncio.create_task(handle.result(timeout=PATIENCE))
            await asyncio.sleep(0)
            with psycopg.connect(address, autocommit=True) as operator:
                operator.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            assert await waiting == 2

    asyncio.run(scenario())

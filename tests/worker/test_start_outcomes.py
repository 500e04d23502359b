"""A start that raises an error has added nothing, and one that added a flow returns it."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgres_server import shared_server
from tests.stores.postgres_proxy import Proxy

import redrive
from redrive import action
from redrive.client.app import App

SHORT_LEASE = 0.5


@action(name="start_outcomes.twice")
async def twice(n: int) -> int:
    return 2 * n


class Disk:
    """A disk that flushes nothing while it is told to be slow."""

    def __init__(self) -> None:
        self.is_fast, self.is_waited_for = threading.Event(), threading.Event()
        self.is_fast.set()

    def connect(self, *args: Any, **settings: Any) -> sqlite3.Connection:
        disk = self

        class Connection(sqlite3.Connection):
            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                if statement == "COMMIT" and not disk.is_fast.is_set():
                    disk.is_waited_for.set()
                    disk.is_fast.wait(30)
                return super().execute(statement, *values)

        return sqlite3_connect(*args, factory=Connection, **settings)


sqlite3_connect = sqlite3.connect


async def until(is_true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def caught_up(app: App) -> None:
    await until(lambda: app._worker is not None and app._worker.caught_up)


@pytest.mark.promise("X4")
def test_a_start_whose_commit_outlasts_the_lease_returns_its_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    monkeypatch.setattr(sqlite3, "connect", disk.connect)

    async def scenario() -> None:
        async with redrive.open(f"sqlite:///{tmp_path}/app.db", lease=SHORT_LEASE) as app:
            await caught_up(app)
            first = app._worker
            disk.is_fast.clear()
            start = asyncio.create_task(app.start(twice(21)))
            # Its worker has lost the lease, and another one waits behind the commit that is still being flushed.
            await until(lambda: app._worker is not first)
            for _ in range(50):
                await asyncio.sleep(0.001)
            disk.is_fast.set()
            handle = await start
            assert handle.is_new
            assert await handle.result(timeout=20) == 42
            assert [flow.id for flow in await app.flows()] == [handle.id]

    asyncio.run(scenario())


@pytest.mark.promise("X4")
def test_starts_during_lost_leases_add_one_flow_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(sqlite3, "connect", disk.connect)

    async def scenario() -> None:
        async with redrive.open(f"sqlite:///{tmp_path}/app.db", lease=SHORT_LEASE) as app:
            await caught_up(app)
            first = app._worker
            disk.is_fast.clear()
            starts = [asyncio.create_task(app.start(twice(n))) for n in range(20)]
            await until(lambda: app._worker is not first)
            disk.is_fast.set()
            handles = await asyncio.gather(*starts)
            assert [await handle.result(timeout=20) for handle in handles] == [2 * n for n in range(20)]
            assert {flow.id for flow in await app.flows()} == {handle.id for handle in handles}

    asyncio.run(scenario())


@pytest.mark.promise("X4")
@pytest.mark.parametrize("key", [None, "order-17"])
@pytest.mark.parametrize("happened", [True, False])
def test_a_start_whose_answer_is_lost_returns_its_flow(happened: bool, key: str | None) -> None:
    """The connection breaks while the server adds the flow, or before it hears of it."""
    address = shared_server().fresh_database()

    async def scenario() -> None:
        async with Proxy(shared_server()) as network:
            async with redrive.open(network.url(address), worker=False) as app:
                await app.start(twice(1), key="the connection is open")
                with psycopg.connect(address) as blocker:
                    if happened:
                        # The insert waits inside the server until this transaction ends.
                        blocker.execute("LOCK TABLE redrive.flows IN SHARE MODE")
                    else:
                        network.keep()
                    start = asyncio.create_task(app.start(twice(21), key=key))
                    if happened:
                        await until(lambda: inserts_that_wait(address))
                    else:
                        await network.kept.wait()
                    network.cut_off_clients()
                    if not happened:
                        network.deliver()
                    for _ in range(50):
                        await asyncio.sleep(0.001)
                    blocker.rollback()
                handle = await asyncio.wait_for(start, 20)
                assert handle.is_new
            async with redrive.open(address) as app:
                assert await app.handle(handle.id).result(timeout=20) == 42
                assert len(await app.flows()) == 2

    asyncio.run(scenario())


def inserts_that_wait(address: str) -> bool:
    with psycopg.connect(address) as connection:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO%'"
        return connection.execute(waiting).fetchone() is not None


@pytest.mark.promise("X4")
def test_a_start_says_so_where_nobody_can_know_whether_it_added_a_flow() -> None:
    """The answer is lost and the app is closed before the store answers again."""
    address = shared_server().fresh_database()

    async def scenario() -> None:
        async with Proxy(shared_server()) as network:
            async with redrive.open(network.url(address), worker=False) as app:
                await app.start(twice(1), key="the connection is open")
                network.keep()
                start = asyncio.create_task(app.start(twice(21)))
                await network.kept.wait()
                network.refuse()
                network.cut_off_clients()
                for _ in range(50):
                    await asyncio.sleep(0.001)
                assert not start.done()
            with pytest.raises(redrive.errors.CommitUnknownError, match="may or may not have been added"):
                await start

    asyncio.run(scenario())

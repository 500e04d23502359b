"""A store that goes away in the middle of the work: nothing is lost, nothing is done twice, and the work goes on."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import PostgresServer, shared_server
from tests.worker.fleet import Fleet, check_notes
from tests.worker.shop import Order, expected

import redrive
from redrive.client.app import App
from redrive.errors import StoreUnavailableError, StoreUnusableError
from redrive.stores.sqlite.store import SqliteStore

ORDERS = 40


@redrive.action(name="store_faults.wait_long")
async def wait_long() -> None:
    await asyncio.sleep(1)


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet("", tmp_path) as fleet:
        yield fleet
    os.environ.pop("SHOP_NOTES", None)


async def orders(app: App) -> list[redrive.Handle[list[str]]]:
    return [await app.start(Order.call(number)) for number in range(ORDERS)]


async def all_delivered(handles: list[redrive.Handle[list[str]]]) -> None:
    for number, handle in enumerate(handles):
        assert await handle.result(timeout=60) == expected(number)


@redrive.action(name="store_faults.ready")
async def ready() -> str:
    return "ready"


@redrive.workflow(name="store_faults.Sleeps")
class Sleeps(redrive.Workflow):
    async def run(self) -> str:
        await asyncio.sleep(3)
        return "slept"


@pytest.mark.promise("A14")
def test_an_app_can_be_closed_while_its_postgres_is_away() -> None:
    server = PostgresServer()
    address = server.fresh_database()

    async def scenario() -> None:
        async with redrive.open(address, lease=0.5, grace=0) as app:
            flow = await app.start(Sleeps.call())
            async with asyncio.timeout(10):
                while app._worker is None or flow.id not in app._worker.flows.by_id:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        async with redrive.open(address, poll=0.1) as app:
            assert await app.handle(flow.id).result(timeout=20) == "slept"

    try:
        asyncio.run(scenario())
    finally:
        server.remove()


def test_a_start_waits_for_its_postgres_though_that_is_away_for_longer_than_a_lease() -> None:
    server = PostgresServer()
    address = server.fresh_database()

    async def scenario() -> None:
        async with redrive.open(address, lease=0.5) as app:
            await (await app.start(ready())).result(timeout=10)
            await asyncio.to_thread(server.stop)
            start = asyncio.create_task(app.start(ready()))
            done, _ = await asyncio.wait([start], timeout=2.0)
            assert not done
            await asyncio.to_thread(server.start)
            assert await (await start).result(timeout=20) == "ready"

    try:
        asyncio.run(scenario())
    finally:
        server.remove()


def test_a_postgres_that_became_read_only_is_not_told_as_back_and_is_why_the_lease_was_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = shared_server().fresh_database()
    name = address.rpartition("/")[2]

    def told(text: str) -> list[str]:
        return [line for record in caplog.records if text in (line := record.getMessage())]

    async def until_told(text: str) -> None:
        async with asyncio.timeout(20):
            while not told(text):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with (
            redrive.open(address, lease=1.0, poll=0.05) as app,
            await psycopg.AsyncConnection.connect(address, autocommit=True) as admin,
        ):
            await (await app.start(ready())).result(timeout=10)
            await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await until_told("lost its lease")
            assert not told("is back after")
            (lost,) = told("lost its lease")
            assert "not renewed within 1 s" in lost
            assert "read-only transaction" in lost
            await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
            await until_told("is back after")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())


@pytest.mark.promise("A14")
def test_a_postgres_that_is_restarted_in_the_middle_of_the_work(notes: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    server = PostgresServer()

    async def scenario() -> None:
        async with redrive.open(server.fresh_database(), lease=60.0, concurrency=3) as app:
            handles = await orders(app)
            await asyncio.sleep(0.05)
            await asyncio.to_thread(server.stop)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.start)
            await all_delivered(handles)

    try:
        with caplog.at_level(logging.WARNING):
            asyncio.run(scenario())
    finally:
        server.remove()
    check_notes(notes.notes())


@pytest.mark.promise("A14")
def test_connections_that_are_cut_in_mid_commit(notes: Fleet) -> None:
    address = shared_server().fresh_database()

    def cut_all() -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    async def scenario() -> None:
        async with redrive.open(address, lease=60.0, concurrency=3) as app:
            handles = await orders(app)
            for _ in range(8):
                await asyncio.to_thread(cut_all)
                await asyncio.sleep(0.03)
            await all_delivered(handles)

    asyncio.run(scenario())
    check_notes(notes.notes())


@pytest.mark.promise("R7")
def test_a_worker_whose_claim_waits_for_a_frozen_neighbour_keeps_its_lease() -> None:
    address, renewals = shared_server().fresh_database(), 4

    async def scenario() -> None:
        async with redrive.open(address, lease=1.5, worker=False) as starter:
            await starter.store.configure_queue("small", {"limit": 1})
            await starter.start(wait_long(), queue="small")
            with psycopg.connect(address, options="-c search_path=redrive") as frozen:
                frozen.execute("SELECT FROM queue_limits FOR UPDATE")
                async with redrive.open(address, lease=1.5, worker=True) as app:
                    leases: set[tuple[int, float]] = set()
                    async with asyncio.timeout(20):
                        while len(leases) <= renewals:
                            leases |= {(worker.epoch, worker.expires_at) for worker in await app.store.list_workers()}
                            await asyncio.sleep(0.05)
                    frozen.rollback()
                    assert len({epoch for epoch, _ in leases}) == 1

    asyncio.run(scenario())


@pytest.mark.promise("A14")
def test_a_sqlite_file_that_another_process_keeps_locked(notes: Fleet, tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")

    async def scenario() -> None:
        async with redrive.open(SqliteStore(path, busy_timeout=0.05), lease=60.0, concurrency=3) as app:
            handles = await orders(app)
            other = sqlite3.connect(path, isolation_level=None)
            for _ in range(3):
                try:
                    other.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    continue
                await asyncio.sleep(0.2)
                other.execute("ROLLBACK")
                await asyncio.sleep(0.02)
            other.close()
            await all_delivered(handles)

    asyncio.run(scenario())
    check_notes(notes.notes())


def test_a_store_that_is_gone_for_good_is_told_to_all_who_wait_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "app.db"

    async def main() -> list[BaseException | None]:
        async with redrive.open(f"sqlite:///{path}") as app:
            handles = [await app.start(wait_long()) for _ in range(3)]
            async with redrive.open(f"sqlite:///{path}", worker=False) as other:
                # Those who have no worker find out by themselves.
                handles += [other.handle(handle.id) for handle in handles]
                waiting = [asyncio.ensure_future(handle.result()) for handle in handles]
                await asyncio.sleep(0.1)
                path.rename(tmp_path / "moved.db")
                async with asyncio.timeout(20):
                    return await asyncio.gather(*waiting, return_exceptions=True)

    for error in asyncio.run(main()):
        assert isinstance(error, StoreUnusableError)
        assert "the file was deleted, moved or replaced while it was in use" in str(error)
    assert "the worker of this app has ended; the flows it starts wait for other workers: sqlite:///" in caplog.text


def test_a_store_that_no_worker_can_join_is_told_to_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def acquire_lease(*_: object) -> None:
        raise StoreUnusableError("the disk is full")

    monkeypatch.setattr(SqliteStore, "acquire_lease", acquire_lease)

    async def main() -> None:
        async with redrive.open(f"sqlite:///{tmp_path}/app.db", worker=False) as other:
            flow = await other.start(ready())
        async with redrive.open(f"sqlite:///{tmp_path}/app.db") as app:
            with pytest.raises(StoreUnusableError, match="the disk is full"):
                await app.handle(flow.id).result(timeout=5)

    asyncio.run(main())


@pytest.mark.promise("A14")
def test_an_app_whose_store_is_away_from_the_start_can_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def acquire_lease(*_: object) -> None:
        asked.set()
        raise StoreUnavailableError("the disk is away")

    monkeypatch.setattr(SqliteStore, "acquire_lease", acquire_lease)

    async def main() -> None:
        async with asyncio.timeout(5), redrive.open(f"sqlite:///{tmp_path}/app.db"):
            await asked.wait()

    asyncio.run(main())
    assert "the worker failed" not in caplog.text

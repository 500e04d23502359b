"""Who may read an SQLite store, and what happens when its files are moved, deleted or replaced while it is in use."""

import asyncio
import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import redrive
from redrive import action
from redrive.client.app import App
from redrive.errors import StoreUnusableError
from redrive.stores.leases import NewWorker
from redrive.stores.records import Batch, NewFlow
from redrive.stores.sqlite.store import SqliteStore

WORKER = NewWorker(name="host:1", definitions=("action:work",))
HOUR = 3600.0
LEFT_BEHIND = ("", "-wal", "-shm")


@action(name="sqlite_files.one")
async def one() -> int:
    return 1


def new_flow(flow_id: str) -> NewFlow:
    return NewFlow(id=flow_id, definition="action:work", input="{}", created_at=1.0, start_at=1.0)


def move(old: Path, new: Path, suffixes: tuple[str, ...] = ("",)) -> None:
    for suffix in suffixes:
        Path(f"{old}{suffix}").rename(f"{new}{suffix}")


async def joined(app: App) -> None:
    async with asyncio.timeout(10):
        while app._worker is None or not app._worker.caught_up:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


@pytest.mark.promise("X4")
@pytest.mark.parametrize("moved", [("",), LEFT_BEHIND])
def test_no_client_makes_a_new_store_where_a_worker_has_one_open(tmp_path: Path, moved: tuple[str, ...]) -> None:
    path, away = tmp_path / "app.db", tmp_path / "moved.db"
    address = f"sqlite:///{path}"

    async def scenario() -> None:
        async with redrive.open(address) as app:
            await joined(app)
            first = await app.start(one())
            assert await first.result(timeout=10) == 1
            move(path, away, moved)
            with pytest.raises(StoreUnusableError, match=r"app\.db: the file is missing, but .* put the file back"):
                async with redrive.open(address, worker=False):
                    pass
            assert not path.exists()
            move(away, path, moved)
            async with redrive.open(address, worker=False) as client:
                assert [flow.id for flow in await client.flows()] == [first.id]

    asyncio.run(scenario())


@pytest.mark.promise("X4")
@pytest.mark.parametrize("emptied", [False, True])
def test_the_log_of_a_missing_file_is_kept_for_it(tmp_path: Path, emptied: bool) -> None:
    """SQLite would delete the log, and with it the commits that are nowhere else."""
    path, away = tmp_path / "app.db", tmp_path / "moved.db"

    async def scenario() -> None:
        store = SqliteStore(str(path))
        await store.open()
        await store.add_flows([new_flow("a")])
        move(path, away)
        await store.close()
        if emptied:
            path.touch()
        with pytest.raises(StoreUnusableError, match=r"its log app\.db-wal is there: .* or delete the log to begin"):
            await store.open()
        move(away, path)
        await store.open()
        assert await store.find_flow("a") is not None
        await store.close()

    asyncio.run(scenario())


@pytest.mark.promise("X4")
def test_a_log_that_was_replaced_is_noticed_when_the_file_is_back(tmp_path: Path) -> None:
    """Another program makes a database at the path, and so deletes the log that is in use."""
    path, away = tmp_path / "app.db", tmp_path / "moved.db"

    async def scenario() -> None:
        store = SqliteStore(str(path))
        await store.open()
        await store.add_flows([new_flow("a")])
        move(path, away)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA journal_mode = WAL")
            other.execute("CREATE TABLE other (x)")
            move(away, path)
        told = r"app\.db: its log app\.db-wal was deleted or replaced while it was in use; stop all processes that use"
        for _ in range(2):
            with pytest.raises(StoreUnusableError, match=told):
                await store.add_flows([new_flow("b")])
            with pytest.raises(StoreUnusableError, match=told):
                await store.find_flow("a")
        await store.close()

    asyncio.run(scenario())


def test_the_log_may_be_written_and_emptied_by_all_who_have_the_file_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, other = SqliteStore(str(tmp_path / "app.db")), SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        for round_ in range(3):
            await other.open()
            await other.add_flows([new_flow(f"other {round_}")])
            await other.close()
            with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as program:
                program.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            await store.add_flows([new_flow(f"{round_}")])
            assert await store.find_flow(f"other {round_}") is not None
        await store.close()

    asyncio.run(scenario())


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): oct(stat.S_IMODE(file.stat().st_mode)) for file in sorted(folder.rglob("*"))}


@pytest.mark.promise("X10")
@pytest.mark.usefixtures("open_umask")
def test_new_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async def scenario() -> dict[str, str]:
        store = SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        lease = await store.acquire_lease(WORKER, HOUR)
        await store.commit(lease, Batch(number=1))
        made = modes(tmp_path)
        await store.close()
        return made

    assert asyncio.run(scenario()) == {
        "app.db": "0o600",
        "app.db-shm": "0o600",
        "app.db-wal": "0o600",
        "app.db-workers": "0o700",
        "app.db-workers/1.lock": "0o600",
    }


@pytest.mark.promise("X10")
@pytest.mark.usefixtures("open_umask")
def test_a_file_that_a_group_may_use_is_shared_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    async def scenario() -> dict[str, str]:
        store = SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        await store.close()
        (tmp_path / "app.db").chmod(0o660)
        os.umask(0o077)
        await store.open()
        await store.acquire_lease(WORKER, HOUR)
        made = modes(tmp_path)
        await store.close()
        return made

    assert set(asyncio.run(scenario()).values()) == {"0o660", "0o770"}

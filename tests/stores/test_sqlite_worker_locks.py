"""A worker's lock tells whether it lives, also where one could not join, or could not lock."""

import asyncio
import errno
import fcntl
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redrive.errors import StoreError
from redrive.stores.leases import NewWorker
from redrive.stores.sqlite.store import SqliteStore

WORKER = NewWorker(name="host:1", definitions=("action:work",))


async def opened(path: Path | str) -> SqliteStore:
    store = SqliteStore(str(path))
    await store.open()
    return store


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """No file may grow beyond the log of the database."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{path}-wal"), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


async def cannot_join(store: SqliteStore, path: Path, times: int = 1) -> None:
    with full_disk(path):
        for _ in range(times):
            with pytest.raises(StoreError):
                await store.acquire_lease(WORKER, 60.0)


def test_joining_a_full_disk_again_and_again_leaves_no_files_open(tmp_path: Path) -> None:
    async def play() -> None:
        store = await opened(path := tmp_path / "app.db")
        await cannot_join(store, path)
        before = len(os.listdir("/proc/self/fd"))
        await cannot_join(store, path, times=10)
        assert len(os.listdir("/proc/self/fd")) == before
        lease = await store.acquire_lease(WORKER, 60.0)
        assert await store.reap_leases() == []
        assert await store.extend_lease(lease, 60.0)
        await store.close()

    asyncio.run(play())


@pytest.mark.promise("R7")
def test_a_worker_that_got_the_number_of_one_who_could_not_join_is_known_to_live_and_to_be_gone(tmp_path: Path) -> None:
    async def play() -> None:
        path = tmp_path / "app.db"
        failed, living, other = [await opened(path) for _ in range(3)]
        await cannot_join(failed, path)
        lease = await living.acquire_lease(WORKER, 60.0)
        assert await failed.reap_leases() == []
        await failed.close()
        assert await other.reap_leases() == []
        assert await living.extend_lease(lease, 60.0)
        await living.close()
        assert [gone.epoch for gone in await other.reap_leases()] == [lease.epoch]
        await other.close()

    asyncio.run(play())


@pytest.mark.promise("R7")
def test_a_lease_that_came_with_a_copy_of_the_file_does_not_last_by_the_clock_of_another_machine(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        store = await opened(tmp_path / "app.db")
        lease = await store.acquire_lease(WORKER, 0.0)
        await store.close()
        copied = (tmp_path / "app.db").rename(tmp_path / "copied.db")
        with sqlite3.connect(copied) as database:
            # That machine was started long before this one.
            database.execute("UPDATE workers SET expires_at_monotonic = 1e9")
        database.close()
        here = await opened(copied)
        assert [worker.alive for worker in await here.list_workers()] == [False]
        assert [gone.epoch for gone in await here.reap_leases()] == [lease.epoch]
        await here.close()

    asyncio.run(play())


@pytest.mark.promise("R7")
def test_where_a_file_cannot_be_locked_its_worker_does_not_pass_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    async def play() -> None:
        path = tmp_path / "app.db"
        living, other = await opened(path), await opened(path)
        with monkeypatch.context() as patched:
            patched.setattr(fcntl, "flock", no_locks)
            lease = await living.acquire_lease(WORKER, 60.0)
        assert await other.reap_leases() == []
        assert await living.extend_lease(lease, 60.0)
        await living.close()
        await other.close()

    asyncio.run(play())


@pytest.mark.promise("R7")
def test_a_process_that_changes_its_folder_finds_the_locks_of_its_own_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"

    async def play() -> None:
        for folder in (here, elsewhere):
            folder.mkdir()
        # Another application died there, and left its worker's file behind.
        dead = await opened(elsewhere / "app.db")
        await dead.acquire_lease(WORKER, 60.0)
        await dead.close()
        monkeypatch.chdir(here)
        living, other = await opened("app.db"), await opened("app.db")
        lease = await living.acquire_lease(WORKER, 60.0)
        monkeypatch.chdir(elsewhere)
        assert await other.reap_leases() == []
        assert await living.extend_lease(lease, 60.0)
        await other.close()
        await other.open()
        assert [worker.epoch for worker in await other.list_workers()] == [lease.epoch]
        await living.close()
        await other.close()

    asyncio.run(play())


@pytest.mark.promise("R7")
def test_who_comes_through_a_link_to_the_file_knows_who_lives_and_who_is_gone(tmp_path: Path) -> None:
    async def play() -> None:
        link, other_file = tmp_path / "link.db", tmp_path / "other.db"
        # The link led elsewhere before, where a worker died with the number that another one has now.
        link.symlink_to(other_file)
        before = await opened(link)
        await before.acquire_lease(WORKER, 60.0)
        await before.close()
        link.unlink()
        link.symlink_to(tmp_path / "app.db")
        living, through_link = await opened(tmp_path / "app.db"), await opened(link)
        lease = await living.acquire_lease(WORKER, 60.0)
        assert await through_link.reap_leases() == []
        assert await living.extend_lease(lease, 60.0)
        await living.close()
        assert [gone.epoch for gone in await through_link.reap_leases()] == [lease.epoch]
        await through_link.close()

    asyncio.run(play())

"""What goes wrong around an SQLite file: locks, full disks, killed processes, files that are something else."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO

import pytest

from redrive.errors import CommitUnknownError, LeaseLostError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.stores.leases import NewWorker
from redrive.stores.migrations import load_migrations
from redrive.stores.records import Batch, EventRow, FlowQuery, NewFlow
from redrive.stores.sqlite import store as store_module
from redrive.stores.sqlite.faults import as_store_error
from redrive.stores.sqlite.store import SqliteStore

WORKER = NewWorker(name="host:1", definitions=("workflow:Work",))
HOUR = 3600.0


def new_flow(flow_id: str) -> NewFlow:
    return NewFlow(id=flow_id, definition="workflow:Work", input="{}", created_at=1.0, start_at=1.0)


async def opened(path: Path, busy_timeout: float = 5.0) -> SqliteStore:
    store = SqliteStore(str(path), busy_timeout)
    await store.open()
    return store


@contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that has said its first line; it is killed at the end, if it still runs."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own script
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        for stream in (running.stdin, running.stdout):
            assert stream is not None
            stream.close()


def said(running: subprocess.Popen[str]) -> str:
    return stream(running.stdout).readline().strip()


def tell(running: subprocess.Popen[str], line: str = "") -> None:
    print(line, file=stream(running.stdin), flush=True)


def stream(one: IO[str] | None) -> IO[str]:
    assert one is not None
    return one


HOLDS_THE_WRITE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
connection.execute(sys.stdin.readline())
connection.execute("COMMIT")
print("free", flush=True)
"""

WORKS = """
import asyncio, sys
from redrive.errors import LeaseLostError
from redrive.stores.records import Batch, EventRow
from redrive.stores.leases import NewWorker
from redrive.stores.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    lease = await store.acquire_lease(NewWorker(name="other:1", definitions=("workflow:Work",)), 3600)
    flows = (await store.claim(lease, ["workflow:Work"], None, 10, 2.0)).flows
    print(lease.epoch, len(flows), flush=True)
    number = 0
    while True:
        number += 1
        events = [EventRow(flow.id, 2 * number + half, 1.0, "x" * 500) for flow in flows for half in (0, 1)]
        try:
            await store.commit(lease, Batch(number=number, events=events))
        except LeaseLostError:
            print("LeaseLostError", flush=True)
            return await store.close()
        if number == 1:
            print("committed", flush=True)
        if sys.argv[2] == "once":
            sys.stdin.readline()

asyncio.run(main())
"""


def test_a_lock_held_by_another_process_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path / "app.db", busy_timeout=0.05)
        await store.add_flows([new_flow("before")])
        lease = await store.acquire_lease(WORKER, HOUR)
        with process(HOLDS_THE_WRITE_LOCK, tmp_path / "app.db") as holder:
            assert said(holder) == "locked"
            with pytest.raises(
                StoreUnavailableError, match=r"app\.db: another connection, .* held the write lock for too long"
            ):
                await store.commit(lease, Batch(number=1, events=[EventRow("before", 1, 1.0, "{}")]))
            with pytest.raises(StoreUnavailableError):
                await store.add_flows([new_flow("during")])
            # Whoever only looks is not held up.
            assert [flow.id for flow in await store.list_flows(FlowQuery())] == ["before"]
            tell(holder)
            assert said(holder) == "free"
        await store.commit(lease, Batch(number=1, events=[EventRow("before", 1, 1.0, "{}")]))
        assert len((await store.read_events(["before"]))["before"]) == 1
        await store.close()

    asyncio.run(scenario())


def test_a_write_waits_for_those_of_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path / "app.db", busy_timeout=30)
        with process(HOLDS_THE_WRITE_LOCK, tmp_path / "app.db") as holder:
            assert said(holder) == "locked"
            adding = asyncio.create_task(store.add_flows([new_flow("a")]))
            await asyncio.sleep(0.05)
            assert not adding.done()
            tell(holder)
            assert await adding == [None]
        await store.close()

    asyncio.run(scenario())


def limit_pages(connection: sqlite3.Connection, extra: int) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + extra}")


def test_a_full_disk_is_said_and_work_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path / "app.db")
        lease = await store.acquire_lease(WORKER, HOUR)
        await store.add_flows([new_flow("a")])
        await store.claim(lease, ["workflow:Work"], None, 1, 2.0)
        await store._writer.do(limit_pages, 20)
        large = Batch(number=1, events=[EventRow("a", seq, 1.0, "x" * 4000) for seq in range(1, 101)])
        for _ in range(3):
            with pytest.raises(
                StoreUnavailableError, match="the disk is full; nothing was changed, so free some space"
            ):
                await store.commit(lease, large)
        assert not await store.committed(lease, large)
        assert await store.read_events(["a"]) == {"a": []}
        await store.commit(lease, Batch(number=1, events=[EventRow("a", 1, 1.0, "{}")]))
        await store._writer.do(limit_pages, 10_000)
        await store.commit(lease, Batch(number=2, events=large.events[1:]))
        assert len((await store.read_events(["a"]))["a"]) == 100
        await store.close()

    asyncio.run(scenario())


WRITES_UNTIL_THE_DISK_FAILS = """
import asyncio, os, resource, sys
from redrive.errors import CommitUnknownError, StoreUnavailableError
from redrive.stores.records import Batch, EventRow
from redrive.stores.leases import NewWorker
from redrive.stores.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    lease = await store.acquire_lease(NewWorker(name="other:1", definitions=()), 3600)
    log = os.path.getsize(sys.argv[1] + "-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log + 20_000, resource.RLIM_INFINITY))
    events = [EventRow("a", seq, 1.0, "x" * 4000) for seq in range(1, 101)]
    batch = Batch(number=1, events=events)
    try:
        await store.commit(lease, batch)
    except StoreUnavailableError as error:
        print(type(error).__name__, error)
    print(await store.committed(lease, batch), len((await store.read_events(["a"]))["a"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.commit(lease, batch)
    print(await store.committed(lease, batch), len((await store.read_events(["a"]))["a"]))
    await store.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_disk_that_fails_is_said_and_work_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with process(WRITES_UNTIL_THE_DISK_FAILS, tmp_path / "app.db") as writer:
        assert said(writer).startswith(
            f"StoreUnavailableError sqlite:///{tmp_path}/app.db: the disk failed to read or write"
        )
        assert said(writer) == "False 0"
        assert said(writer) == "True 100"


def test_a_file_that_became_read_only_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path / "app.db")
        await store._writer.do(lambda connection: connection.execute("PRAGMA query_only = ON"))
        # Waiting does not mend it.
        with pytest.raises(StoreUnusableError, match=r"app\.db: the database is read-only for this user; allow"):
            await store.acquire_lease(WORKER, HOUR)
        with pytest.raises(StoreUnusableError, match="read-only"):
            await store.add_flows([new_flow("a")])
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("fate", ["deleted", "moved", "replaced"])
def test_a_file_that_is_gone_while_it_is_in_use_is_said(
    tmp_path: Path, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, work would go on in a file that nobody can find."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        store = await opened(Path("app.db"))
        lease = await store.acquire_lease(WORKER, HOUR)
        # Where the process is has nothing to do with it.
        monkeypatch.chdir(tmp_path / "elsewhere")
        await store.commit(lease, Batch(number=1))
        if fate == "moved":
            (tmp_path / "app.db").rename(tmp_path / "moved.db")
        else:
            (tmp_path / "app.db").unlink()
        if fate == "replaced":
            (tmp_path / "app.db").touch()
        told = r"app\.db: the file was deleted, moved or replaced while it was in use; put it back and open the store"
        with pytest.raises(StoreUnusableError, match=told):
            await store.claim(lease, ["workflow:Work"], None, 1, 2.0)
        with pytest.raises(StoreUnusableError, match=told):
            await store.commit(lease, Batch(number=2))
        with pytest.raises(StoreUnusableError, match=told):
            await store.list_flows(FlowQuery())
        if fate == "moved":
            (tmp_path / "moved.db").rename(tmp_path / "app.db")
            assert await store.committed(lease, Batch(number=1))
        await store.close()
        if fate != "moved":
            with pytest.raises(StoreUnusableError, match="delete the log to begin with an empty store"):
                await store.open()
            (tmp_path / "app.db-wal").unlink()
        monkeypatch.chdir(tmp_path)
        await store.open()
        await store.add_flows([new_flow("a")])
        await store.close()

    asyncio.run(scenario())


def test_a_commit_that_perhaps_reached_the_disk_is_unknown() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    assert isinstance(as_store_error(error, "sqlite:///app.db", committing=True), CommitUnknownError)
    assert not isinstance(as_store_error(error, "sqlite:///app.db"), CommitUnknownError)


@pytest.mark.promise("A14")
def test_a_killed_process_is_noticed_at_once_and_its_last_commit_is_whole(tmp_path: Path) -> None:
    dice = random.Random(7)

    async def prepare(path: Path) -> None:
        store = await opened(path)
        await store.add_flows([new_flow(f"f{number}") for number in range(10)])
        await store.close()

    async def take_over(path: Path, killed: int) -> None:
        store = await opened(path)
        # The lease of the dead one has an hour left.
        (reaped,) = await store.reap_leases()
        assert (reaped.epoch, reaped.worker, reaped.flows) == (killed, "other:1", 10)
        lease = await store.acquire_lease(WORKER, HOUR)
        flows = (await store.claim(lease, ["workflow:Work"], None, 100, 2.0)).flows
        logs = list((await store.read_events([flow.id for flow in flows])).values())
        batches = len(logs[0]) // 2
        assert batches >= 1
        for log in logs:
            assert [event.seq for event in log] == list(range(2, 2 + 2 * batches))
        await store.release_lease(lease)
        await store.close()

    for round_ in range(6):
        path = tmp_path / f"{round_}.db"
        asyncio.run(prepare(path))
        with process(WORKS, path, "on and on") as worker:
            epoch, flows = map(int, said(worker).split())
            assert flows == 10
            assert said(worker) == "committed"
            # Somewhere in a commit, wherever that is.
            time.sleep(dice.random() * 0.03)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        asyncio.run(take_over(path, epoch))
        assert not Path(f"{path}-workers").exists()


def run_out(connection: sqlite3.Connection, epoch: int) -> None:
    connection.execute("UPDATE workers SET expires_at_monotonic = 0 WHERE epoch = ?", (epoch,))


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs a signal that freezes")
def test_a_frozen_process_keeps_its_lease_until_it_runs_out_and_is_fenced_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    async def scenario() -> None:
        store = await opened(path)
        await store.add_flows([new_flow("a")])
        with process(WORKS, path, "once") as worker:
            epoch = int(said(worker).split()[0])
            assert said(worker) == "committed"
            worker.send_signal(signal.SIGSTOP)
            assert await store.reap_leases() == []
            await store._writer.do(run_out, epoch)
            assert [(reaped.epoch, reaped.flows) for reaped in await store.reap_leases()] == [(epoch, 1)]
            worker.send_signal(signal.SIGCONT)
            tell(worker)
            assert said(worker) == "LeaseLostError"
        assert len((await store.read_events(["a"]))["a"]) == 2
        await store.close()

    asyncio.run(scenario())


FORKS = """
import asyncio, os, sys, time
from redrive.stores.leases import NewWorker
from redrive.stores.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    lease = await store.acquire_lease(NewWorker(name="other:1", definitions=()), 3600)
    print("worker", lease.epoch, flush=True)
    if os.fork() == 0:
        print("child", os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)
    sys.stdin.readline()

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_outlives_its_worker_does_not_pass_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with process(FORKS, tmp_path / "app.db") as worker:
            epoch, child = int(said(worker).removeprefix("worker ")), int(said(worker).removeprefix("child "))
            store = await opened(tmp_path / "app.db")
            assert await store.reap_leases() == []
            assert [one.epoch for one in await store.list_workers()] == [epoch]
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            try:
                # Its lease has an hour left, and nobody has reaped it.
                assert await store.list_workers() == []
                assert [reaped.epoch for reaped in await store.reap_leases()] == [epoch]
            finally:
                os.kill(child, signal.SIGKILL)
            await store.close()

    asyncio.run(scenario())


OPENS = """
import asyncio, sys
from redrive.stores.records import NewFlow
from redrive.stores.sqlite.store import SqliteStore

async def main():
    sys.stdin.readline()
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.add_flows([NewFlow(id=sys.argv[2], definition="d", input="{}", created_at=1, start_at=1)])
    await store.close()
    print("added", flush=True)

print("ready", flush=True)
asyncio.run(main())
"""


def test_many_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    async def count(path: Path) -> int:
        store = await opened(path)
        flows = await store.list_flows(FlowQuery())
        await store.close()
        return len(flows)

    for round_ in range(2):
        path = tmp_path / f"{round_}.db"
        with ExitStack() as stack:
            processes = [stack.enter_context(process(OPENS, path, number)) for number in range(5)]
            assert [said(one) for one in processes] == ["ready"] * 5
            for one in processes:
                tell(one)
            assert [said(one) for one in processes] == ["added"] * 5
        assert asyncio.run(count(path)) == 5


async def refused(path: str) -> str:
    store = SqliteStore(path)
    with pytest.raises(StoreUnusableError) as raised:
        await store.open()
    with pytest.raises(StoreError, match="not open"):
        await store.list_flows(FlowQuery())
    await store.close()
    (line,) = str(raised.value).splitlines()
    return line


def test_a_file_that_cannot_be_used_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, and no database at all\n" * 100)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE flows (mine TEXT)")
    connection.close()

    async def scenario() -> None:
        assert "notes.txt: the file is not an SQLite database; use another path" in await refused(
            str(tmp_path / "notes.txt")
        )
        assert await refused(str(tmp_path / "none" / "app.db")) == (
            f"sqlite:///{tmp_path}/none/app.db: folder {tmp_path}/none does not exist; create it"
        )
        assert "this is a folder; name a file in it" in await refused(str(tmp_path))
        assert "use another file" in await refused(str(tmp_path / "shop.db"))
        assert "memory://" in await refused(":memory:")

    asyncio.run(scenario())
    # Nothing was changed in what belongs to others.
    connection = sqlite3.connect(tmp_path / "shop.db")
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("flows",)]
    connection.close()


def test_a_store_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path / "app.db")
        await store._writer.do(
            lambda connection: connection.execute("INSERT INTO redrive_migrations VALUES (99, '0099_future.sql', 1.0)")
        )
        await store.close()
        newest = load_migrations("redrive.stores.sqlite")[-1].version
        assert await refused(str(tmp_path / "app.db")) == (
            f"sqlite:///{tmp_path}/app.db: its schema has version 99, and this redrive supports versions up to "
            f"{newest}; upgrade redrive, or use another store"
        )

    asyncio.run(scenario())


def test_a_lease_that_ran_out_while_the_commit_waited_is_noticed_in_that_commit(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path / "app.db", busy_timeout=30)
        lease = await store.acquire_lease(WORKER, HOUR)
        with process(HOLDS_THE_WRITE_LOCK, tmp_path / "app.db") as holder:
            assert said(holder) == "locked"
            late = asyncio.create_task(store.commit(lease, Batch(number=1, events=[EventRow("a", 1, 1.0, "{}")])))
            await asyncio.sleep(0)
            tell(holder, "UPDATE workers SET expires_at_monotonic = 0")
            with pytest.raises(LeaseLostError, match=r"the lease of host:1 \(epoch 1\) has expired or was taken away"):
                await late
        assert await store.read_events(["a"]) == {"a": []}
        await store.close()

    asyncio.run(scenario())


def test_a_worker_hears_that_the_file_is_locked_while_its_lease_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MIN_BUSY_TIMEOUT", 0.01)

    async def scenario() -> None:
        store = SqliteStore(str(tmp_path / "app.db"), busy_timeout=60.0)
        await store.open()
        lease = await store.acquire_lease(NewWorker(name="w", definitions=()), 0.1)
        with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match=r"a transaction of your own .* held the write lock"):
                await asyncio.wait_for(store.extend_lease(lease, 0.1), 20)
        await store.close()

    asyncio.run(scenario())


def test_what_nobody_waits_for_any_more_is_not_waited_for_while_the_file_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "flows.db"

    async def scenario() -> None:
        store = await opened(path, busy_timeout=60)
        await store.add_flows([new_flow("a")])
        with ExitStack() as stack:
            other = sqlite3.connect(path, isolation_level=None)
            stack.callback(other.close)
            other.execute("BEGIN IMMEDIATE")
            sent = [asyncio.create_task(store.send("a", "1", 1.0)) for _ in range(3)]
            await asyncio.wait(sent, timeout=0.05)
            for one in sent:
                one.cancel()
            async with asyncio.timeout(10):
                await store.close()
        again = await opened(path)
        assert await again.count_unread("a") == 0
        await again.close()

    asyncio.run(scenario())

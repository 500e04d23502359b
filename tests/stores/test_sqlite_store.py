"""The SQLite store passes the suite; and what is its own: threads, files beside the database, what SQL sees."""

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import Batch, EventRow, FlowQuery, NewFlow, RetryQuery, RetryRow
from redrive.stores.sqlite import claims
from redrive.stores.sqlite.connection import PAGE, WAL_PAGES
from redrive.stores.sqlite.store import PREALLOCATE_AFTER, SqliteStore
from redrive.testing.store_conformance import MakeStore, StoreConformance
from redrive.testing.store_conformance.scenario import until

WORKER = NewWorker(name="host:1", definitions=("workflow:Work",))


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        async def make_store() -> SqliteStore:
            store = SqliteStore(str(tmp_path / "app.db"))
            await store.open()
            return store

        return make_store


def played(path: Path, play: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def scenario() -> None:
        store = SqliteStore(str(path / "app.db"))
        await store.open()
        try:
            await play(store)
        finally:
            await store.close()

    asyncio.run(scenario())


def new_flow(flow_id: str, **fields: float | str) -> NewFlow:
    given = {"definition": "workflow:Work", "input": "{}", "created_at": 1.0, "start_at": 1.0, **fields}
    return NewFlow(id=flow_id, **given)  # type: ignore[arg-type]


def settings(connection: sqlite3.Connection) -> tuple[str, int]:
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    return journal, synchronous


def test_what_must_not_be_lost_is_flushed_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(store: SqliteStore) -> None:
        full, normal = 2, 1
        assert await store._writer.do(settings) == ("wal", full)
        assert await store._writer.do_unflushed(settings) == ("wal", normal)
        assert await store._writer.do(settings) == ("wal", full)
        lease = await store.acquire_lease(WORKER, 60)
        kept: list[Callable[[], Awaitable[object]]] = [
            lambda: store.add_flows([new_flow("a")]),
            lambda: store.commit(lease, Batch(number=1)),
            lambda: store.send("a", "{}", 2.0),
            lambda: store.close_dead_letters(["a"], "discarded", "me", "why", 2.0, None),
            lambda: store.configure_queue("default", {"limit": 5}),
        ]
        flushed: list[str] = []
        transact = store._writer._transact

        def watched(*args: Any) -> Any:
            outcome = transact(*args)
            flushed.append(store._writer._flush)
            return outcome

        monkeypatch.setattr(store._writer, "_transact", watched)
        for verb in kept:
            await store.claim(lease, [], None, 1, 2.0)
            await verb()
        assert flushed == ["NORMAL", "FULL"] * len(kept)

    played(tmp_path, play)


async def commit_until_busy(store: SqliteStore) -> Lease:
    lease = await store.acquire_lease(WORKER, 60)
    await store.add_flows([new_flow("a")])
    await store.claim(lease, ["workflow:Work"], None, 1, 2.0)
    for number in range(1, PREALLOCATE_AFTER + 3):
        await store.commit(lease, Batch(number=number, events=[EventRow("a", number, 1.0, "[]")]))
    return lease


def all_is_well(connection: sqlite3.Connection) -> tuple[object, ...]:
    (found,) = connection.execute("PRAGMA integrity_check").fetchone()
    (beats,) = connection.execute("SELECT count(*) FROM heartbeats").fetchone()
    (events,) = connection.execute("SELECT count(*) FROM events").fetchone()
    return found, beats, events


def test_a_busy_worker_makes_room_in_the_log_and_changes_nothing_else(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        await commit_until_busy(store)
        assert await store._writer.do(all_is_well) == ("ok", 0, PREALLOCATE_AFTER + 2)
        log, database = tmp_path / "app.db-wal", tmp_path / "app.db"
        assert log.stat().st_size >= WAL_PAGES * PAGE
        assert database.stat().st_size < 100 * PAGE
        # What another connection sees, and what is left when all have gone.
        with closing(sqlite3.connect(database)) as connection:
            assert all_is_well(connection) == ("ok", 0, PREALLOCATE_AFTER + 2)

    played(tmp_path, play)
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        assert all_is_well(connection) == ("ok", 0, PREALLOCATE_AFTER + 2)


def test_where_there_is_no_room_for_the_log_work_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(store: SqliteStore) -> None:
        await store._writer.do(lambda connection: connection.execute("PRAGMA max_page_count = 60").fetchone())
        lease = await commit_until_busy(store)
        await store.commit(
            lease, Batch(number=PREALLOCATE_AFTER + 3, events=[EventRow("a", PREALLOCATE_AFTER + 3, 1.0, "[]")])
        )
        assert await store._writer.do(all_is_well) == ("ok", 0, PREALLOCATE_AFTER + 3)

    played(tmp_path, play)
    gc.collect()
    assert caplog.records == []


def test_a_long_look_holds_up_no_commit(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def long_look(connection: sqlite3.Connection) -> int:
            connection.execute("SELECT count(*) FROM flows").fetchone()
            begun.set()
            go_on.wait(30)
            (flows,) = connection.execute("SELECT count(*) FROM flows").fetchone()
            return int(flows)

        looking = store._reader.do(long_look)
        await asyncio.to_thread(begun.wait, 30)
        await store.add_flows([new_flow("a")])
        assert not looking.done()
        go_on.set()
        # One look is of one moment.
        assert await looking == 0
        assert await store.find_flow("a") is not None

    played(tmp_path, play)


def instructions(connection: sqlite3.Connection, lease: Lease) -> int:
    """What an idle claim costs the database, in its own steps."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    try:
        claimed = claims.claim(connection, lease, ["workflow:Work", "workflow:Other"], None, 100, 2.0)
    finally:
        connection.set_progress_handler(None, 0)
    assert claimed.flows == []
    assert claimed.next_wake == 1000.0
    return steps


def test_flows_that_wait_cost_a_claim_nothing(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        lease = await store.acquire_lease(WORKER, 60)
        await store.configure_queue("full", {"limit": 0})

        async def add(tag: str, each: int) -> None:
            for number in range(each):
                await store.add_flows(
                    [
                        new_flow(f"{tag}{number}", start_at=1000.0 + number),
                        new_flow(f"{tag}other{number}", definition="workflow:Other", start_at=1000.0 + number),
                        new_flow(f"{tag}unasked{number}", definition="workflow:Unasked"),
                        new_flow(f"{tag}full{number}", queue="full"),
                    ]
                )

        await add("few", 2)
        few = await store._writer.do(instructions, lease)
        await add("many", 200)
        many = await store._writer.do(instructions, lease)
        assert many <= few + 20

    played(tmp_path, play)


def test_a_great_backlog_is_made_ready_in_pieces_until_all_of_it_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_MADE_READY", 3)

    async def play(store: SqliteStore) -> None:
        lease = await store.acquire_lease(WORKER, 60)
        await store.add_flows([new_flow(f"f{number:02}", start_at=5.0 + number) for number in range(10)])
        claimed = []
        for _ in range(4):
            answer = await store.claim(lease, ["workflow:Work"], None, 100, 100.0)
            claimed += [flow.id for flow in answer.flows]
            assert answer.more == (len(claimed) < 10)
            assert answer.next_wake is None
        assert claimed == [f"f{number:02}" for number in range(10)]

    played(tmp_path, play)


RETRY = RetryRow(
    flow_id="a",
    item=3,
    step="charge",
    queue="default",
    status="waiting",
    attempt_number=1,
    max_retries=4,
    timeout_seconds=2.5,
    timeout_retry_limit=None,
    backoff_kind="exponential",
    backoff_base_delay_ms=500.0,
    retry_kind="exception",
    scheduled_at=1_700_000_000.25,
)


@pytest.mark.promise("R6")
def test_sql_alone_says_what_waits_and_until_when(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        lease = await store.acquire_lease(WORKER, 60)
        await store.commit(lease, Batch(number=1, retries=[RETRY]))
        assert await store.list_retries(RetryQuery()) == [RETRY]

    played(tmp_path, play)
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.row_factory = sqlite3.Row
    (stored,) = connection.execute("SELECT * FROM retry_queue").fetchall()
    assert tuple(stored.keys()) == RetryRow.__struct_fields__
    assert (stored["attempt_number"], stored["max_retries"], stored["backoff_kind"]) == (1, 4, "exponential")
    (shown,) = connection.execute("SELECT * FROM waiting_retries").fetchall()
    assert shown["next_attempt_utc"] == "2023-11-14 22:13:20.250"
    assert (shown["flow_id"], shown["step"], shown["retry_kind"]) == ("a", "charge", "exception")
    connection.close()


def test_the_files_of_workers_are_gone_when_the_workers_are(tmp_path: Path) -> None:
    folder = tmp_path / "app.db-workers"

    async def play(store: SqliteStore) -> None:
        first, second = await store.acquire_lease(WORKER, 60), await store.acquire_lease(WORKER, 60)
        assert {file.name for file in folder.iterdir()} == {f"{first.epoch}.lock", f"{second.epoch}.lock"}
        (folder / "999.lock").touch()
        await store.release_lease(first)
        assert {file.name for file in folder.iterdir()} == {f"{second.epoch}.lock"}
        await store.release_lease(second)
        assert not folder.exists()

    played(tmp_path, play)


def test_a_store_that_was_closed_without_leaving_is_noticed_at_once(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        other = SqliteStore(str(tmp_path / "app.db"))
        await other.open()
        gone = await other.acquire_lease(WORKER, 3600)
        assert await store.reap_leases() == []
        await other.close()
        assert [reaped.epoch for reaped in await store.reap_leases()] == [gone.epoch]

    played(tmp_path, play)


def test_without_the_files_of_workers_the_lease_alone_counts(tmp_path: Path) -> None:
    (tmp_path / "app.db-workers").write_text("something is in the way")

    async def play(store: SqliteStore) -> None:
        lease, other = await store.acquire_lease(WORKER, 60), await store.acquire_lease(WORKER, 60)
        assert await store.reap_leases() == []
        await store.extend_lease(lease, 0.05)
        assert [one.epoch for one in await until(store.reap_leases)] == [lease.epoch]
        await store.commit(other, Batch(number=1))
        await store.release_lease(other)

    played(tmp_path, play)


def test_a_caller_who_gave_up_does_not_hold_up_others(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        tasks = [asyncio.create_task(store.add_flows([new_flow(f"f{number}")])) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # What was asked for happens, whoever still waits for it.
        assert len(await store.list_flows(FlowQuery())) == 20

    played(tmp_path, play)


def test_a_closed_store_can_be_opened_again(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        await store.add_flows([new_flow("a")])
        await store.close()
        await store.close()
        await store.open()
        assert await store.find_flow("a") is not None

    played(tmp_path, play)


def test_one_store_serves_several_event_loops(tmp_path: Path) -> None:
    async def play(store: SqliteStore) -> None:
        woken = asyncio.Event()
        end = store.on_wake(woken.set)

        def elsewhere() -> None:
            asyncio.run(add_there())

        async def add_there() -> None:
            await store.add_flows([new_flow("a")])

        await asyncio.to_thread(elsewhere)
        async with asyncio.timeout(10):
            await woken.wait()
        end()
        assert await store.find_flow("a") is not None

    played(tmp_path, play)

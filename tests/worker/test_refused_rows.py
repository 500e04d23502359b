"""What one flow writes and the database refuses for good takes nothing from the others, and nothing is lost."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import shared_server

import redrive
from redrive import Workflow, action, workflow
from redrive.client.app import App
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows import chunks, replay
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import Batch, EventRow, FlowChange, HeartbeatRow, NewFlow
from redrive.stores.sqlite.store import SqliteStore
from redrive.telemetry.events import AttemptFailed
from redrive.telemetry.stream import listen
from redrive.worker import journal
from redrive.worker.commit_parts import parts_of
from redrive.worker.journal import Journal
from redrive.worker.maintenance.held_lease import HeldLease

RAN: list[str] = []
NO_CURSING = """
CREATE TRIGGER no_cursing BEFORE INSERT ON events WHEN new.body LIKE '%cursed%'
BEGIN SELECT RAISE(ABORT, 'no cursing here'); END
"""


@action(name="refused.do")
async def do(what: str) -> str:
    RAN.append(what)
    return what


@workflow(name="refused.Two")
class Two(Workflow):
    async def run(self, first: str, second: str) -> str:
        return await do(first) + await do(second)


def on_sqlite(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)


def on_postgres(address: str, statement: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(statement.encode())


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], None], Callable[[], None]]:
    """An address, what makes the database refuse a word, and what makes it take it again."""
    RAN.clear()
    if request.param == "sqlite":
        path = tmp_path / "app.db"
        return (
            f"sqlite:///{path}",
            lambda: on_sqlite(path, NO_CURSING),
            lambda: on_sqlite(path, "DROP TRIGGER no_cursing"),
        )
    address = shared_server().fresh_database()
    table = "ALTER TABLE redrive.events"
    return (
        address,
        lambda: on_postgres(address, f"{table} ADD CONSTRAINT no_cursing CHECK (body::text NOT LIKE '%cursed%')"),
        lambda: on_postgres(address, f"{table} DROP CONSTRAINT no_cursing"),
    )


def test_the_parts_of_a_transaction_are_all_of_it_each_of_one_flow() -> None:
    batch = Batch(
        number=7,
        new_flows=[NewFlow(id="a", definition="workflow:x", input="{}", created_at=1.0, start_at=1.0)],
        events=[EventRow(flow_id, seq, 1.0, "[]") for seq in (1, 2) for flow_id in ("a", "b")],
        flows=[FlowChange(flow_id="b", status="completed", finished_at=1.0)],
        retries_done=[("c", 1), ("a", 2)],
        messages_read={11: "d", 12: "a"},
        heartbeats=[HeartbeatRow("a", 1, 1.0, "{}")],
    )
    parts = dict(parts_of(batch))
    assert [(flow_id, part.number) for flow_id, part in parts.items()] == [("a", 7), ("b", 8), ("c", 9), ("d", 10)]
    for field in ("new_flows", "events", "flows", "retries_done", "messages_read", "heartbeats"):
        written = [row for part in parts.values() for row in getattr(part, field)]
        assert sorted(written, key=repr) == sorted(getattr(batch, field), key=repr)
    assert [row.flow_id for row in parts["a"].events] == ["a", "a"]
    assert parts["d"].messages_read == {11: "d"}


def test_nothing_follows_in_the_log_of_what_was_refused(tmp_path: Path) -> None:
    """What the flow logs while its refused transaction is under way would leave a gap before it."""

    async def scenario() -> None:
        store = SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        try:
            flows = [NewFlow(id=name, definition="d", input="{}", created_at=1.0, start_at=1.0) for name in "ab"]
            await store.add_flows(flows)
            lease = await store.acquire_lease(NewWorker(name="w", definitions=("d",)), 60)
            assert len((await store.claim(lease, ["d"], None, 2, 2.0)).flows) == 2
            on_sqlite(tmp_path / "app.db", NO_CURSING)
            aside: list[str] = []
            journal = Journal(
                store,
                HeldLease(lease, 60, SYSTEM_CLOCK.monotonic()),
                lambda _: None,
                lambda flow_id, _: aside.append(flow_id),
            )
            writing = asyncio.get_running_loop().create_task(journal.run())
            journal.append("a", 1, 2.0, b'"cursed"')
            journal.append("b", 1, 2.0, b"1")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            journal.append("a", 2, 3.0, b"2")
            journal.append("b", 2, 3.0, b"2")
            await journal.drained()
            writing.cancel()
            assert aside == ["a"]
            logs = await store.read_events(["a", "b"])
            assert {name: [row.seq for row in rows] for name, rows in logs.items()} == {"a": [], "b": [1, 2]}
        finally:
            await store.close()

    asyncio.run(scenario())


async def among_others(app: App, prefix: str) -> redrive.Handle[str]:
    """The one that is refused, started together with others, all of which end."""
    flows = [app.start(Two.call(f"{prefix}{number}", "x")) for number in range(20)]
    flows.insert(7, app.start(Two.call("first", "cursed")))
    handles = await asyncio.gather(*flows)
    refused = handles.pop(7)
    results = await asyncio.gather(*(handle.result(timeout=20) for handle in handles))
    assert results == [f"{prefix}{number}x" for number in range(20)]
    return refused


def test_the_others_go_on_and_the_flow_goes_on_when_it_may(
    database: tuple[str, Callable[[], None], Callable[[], None]], caplog: pytest.LogCaptureFixture
) -> None:
    address, refuse, take_again = database

    async def refused() -> list[str]:
        async with redrive.open(address, worker=False):
            refuse()
        async with redrive.open(address) as app:
            flows = [await among_others(app, "a"), await among_others(app, "b")]
            for flow in flows:
                # As its log has it: it was about to begin its second step, which is in no log and was not done.
                assert (await app.find(flow.id)).status == "running"
                assert [type(line.event).__name__ for line in await app.read_lines(flow.id)] == ["ItemStarted"]
            return [flow.id for flow in flows]

    async def taken(flow_ids: list[str]) -> list[str]:
        async with redrive.open(address) as app:
            return [await app.handle(flow_id).result(timeout=20) for flow_id in flow_ids]

    flow_ids = asyncio.run(refused())
    assert "cursed" not in RAN
    for flow_id in flow_ids:
        assert f"flow {flow_id}: internal error; the flow is ignored until this worker ends" in caplog.text
    assert "the worker failed" not in caplog.text
    take_again()
    assert asyncio.run(taken(flow_ids)) == ["firstcursed"] * 2
    assert RAN.count("cursed") == 2


@action(name="refused.fail", retry=redrive.RetryPolicy(attempts=2, backoff_seconds=60))
async def fail_with(first: str, rest: str) -> None:
    raise ConnectionError(first + rest)


def test_a_failure_that_the_database_refuses_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has the flow next finds that the attempt was lost, and tells of that."""

    async def scenario() -> list[str]:
        told: list[str] = []

        def hear(event: object) -> None:
            if isinstance(event, AttemptFailed):
                told.append(event.failure.message)

        async with redrive.open(f"sqlite:///{tmp_path}/app.db") as app, asyncio.timeout(10):
            on_sqlite(tmp_path / "app.db", NO_CURSING)
            stop_listening = listen(hear)
            try:
                await app.start(fail_with("cur", "sed"))
                while "is ignored until" not in caplog.text:  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.01)
                await app.start(fail_with("", "plain"))
                while "plain" not in told:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.01)
            finally:
                stop_listening()
        return told

    assert asyncio.run(scenario()) == ["plain"]


@action(name="refused.fail_once")
async def fail_once() -> str:
    RAN.append("tried")
    if RAN.count("tried") == 1:
        raise redrive.Permanent("said no")
    return "paid"


@workflow(name="refused.Long")
class Long(Workflow):
    async def run(self) -> str:
        for number in range(50):
            await do(str(number))
        return await fail_once()


def test_a_redrive_that_the_database_refuses_while_the_flow_is_still_replayed_leaves_no_gap_in_its_log(
    database: tuple[str, Callable[[], None], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    address, refuse, take_again = database
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 1)
    monkeypatch.setattr(replay, "LINES_PER_CHUNK", 1)

    async def refused() -> str:
        async with redrive.open(address) as app, asyncio.timeout(20):
            flow = await app.start(Long.call())
            with pytest.raises(redrive.Permanent):
                await flow.result()
            refuse()
            await app.redrive(flow.id, by="ann", why="cursed")
            while "is ignored until" not in caplog.text and RAN.count("tried") == 1:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.01)
            return flow.id

    async def taken(flow_id: str) -> list[int]:
        async with redrive.open(address) as app:
            assert await app.handle(flow_id).result(timeout=20) == "paid"
            return [line.seq for line in await app.read_lines(flow_id)]

    flow_id = asyncio.run(refused())
    assert RAN.count("tried") == 1
    take_again()
    lines = asyncio.run(taken(flow_id))
    assert lines == list(range(1, len(lines) + 1))


@pytest.mark.promise("R5")
def test_one_start_that_is_refused_takes_no_other_with_it() -> None:
    address = shared_server().fresh_database()

    async def main() -> list[object]:
        async with redrive.open(address, worker=False) as app:
            on_postgres(
                address, "ALTER TABLE redrive.flows ADD CONSTRAINT no_cursing CHECK (input::text NOT LIKE '%cursed%')"
            )
            words = ["a", "cursed", "b", "c"]
            starts = [app.start(do(word)) for word in words]
            return await asyncio.gather(*starts, return_exceptions=True)

    started = asyncio.run(main())
    assert [isinstance(one, redrive.Handle) for one in started] == [True, False, True, True]
    assert "no_cursing" in str(started[1])


def test_what_is_too_large_for_one_transaction_is_written_flow_by_flow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A lease is renewed between two commits, and not in the middle of one that takes longer than it lasts."""
    commits: list[int] = []

    class Watched(SqliteStore):
        async def commit(self, lease: Lease, batch: Batch) -> None:
            commits.append(sum(len(row.body) for row in batch.events))
            await super().commit(lease, batch)

    monkeypatch.setattr(journal, "LARGEST_COMMIT", 100_000)

    async def main() -> list[str]:
        async with App(Watched(str(tmp_path / "app.db"))) as app:
            handles = await asyncio.gather(*(app.start(Two.call("x" * 40_000, "y")) for _ in range(20)))
            return [await handle.result(timeout=20) for handle in handles]

    assert asyncio.run(main()) == ["x" * 40_000 + "y"] * 20
    assert max(commits) <= 100_000

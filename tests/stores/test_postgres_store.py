"""The PostgreSQL store passes the suite, on a real server, and can be read with SQL alone."""

import asyncio
from typing import Any

import pytest
from tests.postgres_server import shared_server
from tests.stores.postgres_scene import (
    NOW,
    PATIENCE,
    WORK,
    Scene,
    claimed,
    fresh_schema,
    joined,
    new_flow,
    played,
    shared_database,
)

from redrive.stores.leases import Lease
from redrive.stores.postgres.claim_statement import CLAIM, MAX_DUE
from redrive.stores.postgres.commit_statement import commit_statement
from redrive.stores.postgres.list_statements import list_flows
from redrive.stores.postgres.server import USE_INDEXES, Server
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, DeadLetter, DeadQuery, EventRow, FlowChange, FlowQuery, RetryQuery, RetryRow
from redrive.testing.store_conformance import MakeStore, StoreConformance
from redrive.testing.store_conformance.flows import retry


class TestPostgresStore(StoreConformance):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        url, schema = shared_database(), fresh_schema()

        async def make_store() -> PostgresStore:
            store = PostgresStore(url, schema)
            await store.open()
            return store

        return make_store


def test_stores_in_two_schemas_of_a_database_share_nothing() -> None:
    async def play(scene: Scene) -> None:
        one, other = await scene.store(), await scene.store(schema='the "other" schema; ü')
        woken, other_woken = asyncio.Event(), asyncio.Event()
        one.on_wake(woken.set)
        other.on_wake(other_woken.set)
        async with asyncio.timeout(PATIENCE):
            # Both are told once, when they have begun to listen.
            for event in (woken, other_woken):
                await event.wait()
                event.clear()
            await one.add_flows([new_flow("a")])
            await woken.wait()
        assert await other.find_flow("a") is None
        assert not other_woken.is_set()
        assert await claimed(other, await joined(other)) == []
        await other.add_flows([new_flow("a")])
        assert len(await claimed(one, await joined(one))) == 1

    played(play)


def test_times_keep_their_microseconds_and_a_flow_is_due_at_its_very_time() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        times = {f"f{number:03}": NOW + number * 1.000_000_1 + number / 7 for number in range(1, 100)}
        await store.add_flows([new_flow(flow_id, start_at) for flow_id, start_at in times.items()])
        for flow_id, flow in (await store.find_flows(list(times))).items():
            assert flow.start_at == pytest.approx(times[flow_id], abs=1e-6, rel=0)
            assert flow.wake_at == flow.start_at
        for flow_id, start_at in times.items():
            (flow,) = await claimed(store, lease, now=start_at)
            assert flow.id == flow_id

    played(play)


@pytest.mark.promise("R6")
def test_sql_alone_tells_what_waits_and_until_when() -> None:
    row = RetryRow(
        flow_id="a",
        item=1,
        step="charge",
        queue="default",
        status="waiting",
        attempt_number=1,
        max_retries=4,
        timeout_seconds=2.5,
        timeout_retry_limit=1,
        backoff_kind="exponential",
        backoff_base_delay_ms=500.0,
        retry_kind="timeout",
        scheduled_at=NOW + 0.5,
        timeout_at=NOW + 3,
        delivery_token="t-1",
    )

    async def play(scene: Scene) -> None:
        store = await scene.store()
        await store.commit(await joined(store), Batch(number=1, retries=[row]))
        assert await store.list_retries(RetryQuery()) == [row]
        (answer,) = await (await scene.connection()).fetch(
            "SELECT max_retries, attempt_number, timeout_seconds, timeout_retry_limit, backoff_kind,"
            " backoff_base_delay_ms, retry_kind, scheduled_at::text, timeout_at::text, delivery_token FROM retry_queue"
        )
        assert tuple(answer) == (
            *(4, 1, 2.5, 1, "exponential", 500.0, "timeout"),
            *("2023-11-14 22:13:20.5+00", "2023-11-14 22:13:23+00", "t-1"),
        )

    played(play)


def test_sql_can_look_into_bodies() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        events = [EventRow("a", 1, NOW, '{"type": "started", "step": "charge"}')]
        await store.commit(await joined(store), Batch(number=1, events=events))
        assert await (await scene.connection()).fetchval("SELECT body ->> 'step' FROM events") == "charge"

    played(play)


def test_a_pile_of_flows_that_are_due_is_claimed_to_the_last_by_priority() -> None:
    most = MAX_DUE + 150

    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        await store.add_flows([new_flow(f"f{number}", NOW + number, priority=number % 3) for number in range(most)])
        flows = []
        while (answer := await store.claim(lease, [WORK], None, 100, NOW + most)).more:
            flows += answer.flows
        flows += answer.flows
        assert len({flow.id for flow in flows}) == len(flows) == most
        # Those that were due first were all looked at before any was chosen.
        assert [flow.priority for flow in flows[:100]] == [2] * 100
        assert answer.next_wake is None

    played(play)


def test_a_flow_is_found_by_prefix_or_key_through_an_index() -> None:
    async def play(scene: Scene) -> None:
        await scene.store()
        connection = await scene.connection(Server(scene.url, scene.schema).connect(USE_INDEXES))
        for query, index in ((FlowQuery(prefix="0197"), "flows_pkey"), (FlowQuery(key="k"), "flows_key")):
            statement, values = list_flows(query)
            rows = await connection.fetch(f"EXPLAIN {statement}", *values)
            plan = "\n".join(row[0] for row in rows)
            assert index in plan
            assert "Index Cond: " in plan

    played(play)


def test_a_claim_goes_by_index_whatever_is_in_the_table() -> None:
    """Plans are made when the tables are empty, and kept."""

    async def play(scene: Scene) -> None:
        await scene.store()
        connection = await scene.connection(Server(scene.url, scene.schema).connect(USE_INDEXES))
        await connection.execute(f"PREPARE claim AS {CLAIM}")
        rows = await connection.fetch("EXPLAIN EXECUTE claim (1, '{action:work}', NULL, 10, 1.0, 1)")
        plan = "\n".join(line for (line,) in rows)
        assert "Seq Scan on flows" not in plan
        assert "Bitmap Heap Scan on flows" not in plan
        for index in ("flows_ready", "flows_waiting", "flows_pkey"):
            assert index in plan

    played(play)


def test_a_commit_finds_its_flows_by_their_ids() -> None:
    """By their owner it would come across every flow that this worker ever had, until the table is vacuumed."""

    async def play(scene: Scene) -> None:
        await scene.store()
        connection = await scene.connection(Server(scene.url, scene.schema).connect(USE_INDEXES))
        statement, _ = commit_statement(Batch(number=1, flows=[FlowChange(flow_id="a", status="completed")]), "'told'")
        await connection.execute(f"PREPARE commits AS {statement}")
        rows = await connection.fetch("EXPLAIN EXECUTE commits (1, 1, 0, '[]')")
        plan = "\n".join(line for (line,) in rows)
        assert "flows_pkey" in plan
        assert "flows_owned" not in plan

    played(play)


def test_what_flows_do_makes_no_new_versions_of_the_lease() -> None:
    """All of them would stay while anyone has an old snapshot, and each commit and claim would go through them all."""

    async def play(scene: Scene) -> None:
        store, watcher = await scene.store(), await scene.connection()
        lease = await joined(store)
        await store.add_flows([new_flow("a"), new_flow("b")])
        await claimed(store, lease)
        before = await watcher.fetchval("SELECT ctid::text FROM workers")
        done = FlowChange(flow_id="a", status="completed", wake_at=None, messages_read=0, finished_at=NOW)
        for batch in (
            Batch(number=1, events=[EventRow("b", 1, NOW, "{}")], retries=[retry("b", 1)]),
            Batch(number=2, events=[EventRow("b", 2, NOW, "{}")], retries_done=[("b", 1)]),
            Batch(number=3, events=[EventRow("a", 1, NOW, "{}")], flows=[done], dead=[letter("a", "no")]),
        ):
            assert not await store.committed(lease, batch)
            await store.commit(lease, batch)
            assert await store.committed(lease, batch)
        assert await watcher.fetchval("SELECT ctid::text FROM workers") == before

    played(play)


def test_a_commit_finds_what_is_left_unread_by_index_though_its_plan_was_made_when_there_was_no_mail() -> None:
    async def play(scene: Scene) -> None:
        await scene.store()
        connection = await scene.connection(Server(scene.url, scene.schema).connect(USE_INDEXES))
        await connection.execute("VACUUM messages")  # else the server takes it for ten pages
        statement, _ = commit_statement(Batch(number=1, flows=[FlowChange(flow_id="a", status="completed")]), "'told'")
        await connection.execute(f"PREPARE commits AS {statement}")
        rows = await connection.fetch("EXPLAIN EXECUTE commits (1, 1, 0, '[]')")
        assert "Index Cond: (flow_id = ANY" in "\n".join(line for (line,) in rows)

    played(play)


def test_plans_that_were_made_for_empty_tables_are_not_kept_for_long() -> None:
    async def play(scene: Scene) -> None:
        store, connection = await scene.store(), await scene.connection()
        lease = await joined(store)
        await connection.execute("VACUUM retry_queue")  # else the server takes it for ten pages
        await store.commit(lease, Batch(number=1, retries_done=[("a", 1)]))
        waiting = [retry("b", item) for item in range(2000)]
        await store.commit(lease, Batch(number=2, retries=waiting))

        async def plan(connection: Any) -> str:
            known = "SELECT name FROM pg_prepared_statements WHERE statement ~ $1"
            name = await connection.fetchval(known, "done_retry_queue")
            rows = await connection.fetch(f"EXPLAIN EXECUTE {name} (1, 0, 3, 'a', '{{1}}')")
            return "\n".join(line for (line,) in rows)

        through_all, by_key = "Join Filter: ((t.flow_id = ", "Index Cond: ((flow_id = "
        assert through_all in await store._commits.run(plan)
        store._commits._plans_expire_at = 0.0
        anew = await store._commits.run(plan)
        assert by_key in anew
        assert through_all not in anew

    played(play)


def test_characters_that_postgresql_refuses_do_not_keep_a_worker_from_writing() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        await store.add_flows([new_flow("a"), new_flow("b")])
        assert len(await claimed(store, lease)) == 2
        letters = [letter("a", "nul \x00, half a \ud83e fox"), letter("b", r"a text about \u0000")]
        changes = [FlowChange(flow_id=one, status="failed", finished_at=NOW) for one in "ab"]
        await store.commit(lease, Batch(number=1, flows=changes, dead=letters))
        messages = [one.message for one in await store.list_dead_letters(DeadQuery())]
        assert messages == [r"nul \x00, half a \ud83e fox", r"a text about \u0000"]

    played(play)


def letter(flow_id: str, message: str) -> DeadLetter:
    return DeadLetter(
        flow_id=flow_id,
        definition=WORK,
        queue="default",
        at=NOW,
        kind="unknown",
        step="work",
        attempts=1,
        error_type="ValueError",
        message=message,
        payload="{}",
    )


def test_the_defaults_of_the_database_change_nothing() -> None:
    server = shared_server()
    url = server.fresh_database()
    for setting in ("default_transaction_isolation TO serializable", "search_path TO no", "TimeZone TO 'Asia/Tokyo'"):
        server.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET {setting}")

    async def play(scene: Scene) -> None:
        several = [await scene.store() for _ in range(3)]
        leases = [await joined(store) for store in several]
        await several[0].add_flows([new_flow(f"f{number}", NOW + 1) for number in range(60)])

        async def work(store: PostgresStore, lease: Lease) -> int:
            done = 0
            while flows := await claimed(store, lease, 5, NOW + 1):
                changes = [FlowChange(flow_id=flow.id, status="completed", finished_at=NOW) for flow in flows]
                done += len(flows)
                await store.commit(lease, Batch(number=done, flows=changes))
            return done

        assert sum(await asyncio.gather(*map(work, several, leases))) == 60

    played(play, url)


def test_the_types_of_lines_are_found_where_backslashes_are_escapes() -> None:
    server = shared_server()
    url = server.fresh_database()
    server.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET standard_conforming_strings TO off")

    async def play(scene: Scene) -> None:
        store = await scene.store()
        await store.add_flows([new_flow("a")])
        lease = await joined(store)
        await claimed(store, lease)
        turn = EventRow("a", 2, NOW, '[{"type":"started"},{"type":"attempt_started"}]')
        await store.commit(lease, Batch(number=1, events=[turn]))
        rows = await (await scene.connection()).fetch("SELECT seq, type FROM event_log ORDER BY seq")
        assert [tuple(row) for row in rows] == [(1, "started"), (2, "attempt_started")]

    played(play, url)


def test_of_several_hosts_the_one_that_answers_is_used() -> None:
    async def play(scene: Scene) -> None:
        host = f"{shared_server().host}:{shared_server().port}"
        several = scene.url.replace(host, f"{shared_server().host}:1,{host}")
        store = await scene.store(url=f"{several}?target_session_attrs=primary")
        assert store.address == several
        await store.add_flows([new_flow("a")])

    played(play)

"""A store of an older version is brought up to date with all that is in it; one of a newer version is refused."""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import pytest
from tests.stores.postgres_scene import fresh_schema, shared_database

import redrive
from redrive import action
from redrive.errors import StoreUnavailableError, StoreUnusableError
from redrive.stores.interface import Store
from redrive.stores.migrations import migrations_of
from redrive.stores.postgres import migrating
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import (
    Batch,
    EventRow,
    FlowChange,
    KeyRow,
    NewFlow,
    NewWorker,
    RetryQuery,
    RetryRow,
    StepRow,
)
from redrive.stores.sqlite import opening
from redrive.stores.sqlite.store import SqliteStore

NOW = 1_700_000_000.0
WORK = "action:work"

# As a worker of version 1 left it: one flow with a retry that waits, two more in a queue that lets one run.
RETRY = RetryRow(
    flow_id="waits",
    item=1,
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
    scheduled_at=NOW + 0.25,
)
FILL = """
INSERT INTO flows (id, definition, input, queue, priority, key, status, created_at, start_at, wake_at) VALUES
    ('waits', 'action:work', '{"n": 1}', 'default', 0, 'order-17', 'waiting', TIME(0), TIME(0), TIME(0.25)),
    ('one', 'action:work', '{}', 'narrow', 0, NULL, 'ready', TIME(0), TIME(0), TIME(0)),
    ('two', 'action:work', '{}', 'narrow', 0, NULL, 'ready', TIME(1), TIME(1), TIME(1));
INSERT INTO events (flow_id, seq, at, body) VALUES ('waits', 1, TIME(0), '{"type": "started"}');
INSERT INTO retry_queue (
    flow_id, item, step, queue, status, attempt_number, max_retries, timeout_seconds, timeout_retry_limit,
    backoff_kind, backoff_base_delay_ms, retry_kind, scheduled_at
) VALUES (
    'waits', 1, 'charge', 'default', 'waiting', 1, 4, 2.5, NULL, 'exponential', 500.0, 'exception', TIME(0.25)
);
INSERT INTO queue_limits VALUES ('narrow', 1);
"""


def fill(time: str) -> str:
    return FILL.replace("TIME(", time.replace("NOW", f"{NOW:.0f}"))


def at_version_1(monkeypatch: pytest.MonkeyPatch, module: Any) -> pytest.MonkeyPatch:
    monkeypatch.setattr(module, "migrations_of", lambda package: migrations_of(package)[:1])
    return monkeypatch


async def closed(store: Store) -> None:
    try:
        await store.open()
    finally:
        await store.close()


class Old:
    """A database that version 1 made and filled."""

    def __init__(
        self,
        module: Any,
        make: Callable[[], Store],
        fill: Callable[[], None],
        do: Callable[..., None],
        ask: Callable[[str], Any],
    ):
        self.module = module
        self.make = make
        self.fill = fill
        self.do = do
        self.ask = ask
        """Both with plain SQL."""


def _sqlite(path: Path) -> Old:
    def do(*scripts: str) -> None:
        connection = sqlite3.connect(path)
        for script in scripts:
            connection.executescript(script)
        connection.close()

    def ask(statement: str) -> Any:
        connection = sqlite3.connect(path)
        rows = connection.execute(statement).fetchall()
        connection.close()
        return rows

    return Old(opening, lambda: SqliteStore(str(path)), lambda: do(fill("(NOW + ")), do, ask)


def _postgres() -> Old:
    url, schema = shared_database(), fresh_schema()

    def run(use: Callable[[Any], Awaitable[Any]]) -> Any:
        async def connected() -> Any:
            connection = await asyncpg.connect(url, server_settings={"search_path": schema})
            try:
                return await use(connection)
            finally:
                await connection.close()

        return asyncio.run(connected())

    def do(*scripts: str) -> None:
        async def execute(connection: Any) -> None:
            for script in scripts:
                await connection.execute(script)

        run(execute)

    return Old(
        migrating,
        lambda: PostgresStore(url, schema),
        lambda: do(fill("to_timestamp(NOW + ")),
        do,
        lambda statement: [tuple(row) for row in run(lambda connection: connection.fetch(statement))],
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Old:
    old = _sqlite(tmp_path / "app.db") if request.param == "sqlite" else _postgres()
    with monkeypatch.context() as before:
        at_version_1(before, old.module)
        asyncio.run(closed(old.make()))
    old.fill()
    return old


def test_what_version_1_left_goes_on(old: Old) -> None:
    async def scenario() -> None:
        store = old.make()
        await store.open()
        try:
            await goes_on(store)
        finally:
            await store.close()

    async def goes_on(store: Store) -> None:
        assert await store.list_retries(RetryQuery()) == [RETRY]
        assert [(queue.name, queue.limit, queue.ready) for queue in await store.list_queues()] == [
            *(("default", None, 0), ("narrow", 1, 2)),
        ]
        assert [event.body for event in (await store.read_events(["waits"]))["waits"]] == ['{"type": "started"}']
        (same,) = await store.add_flows(
            [NewFlow(id="new", definition=WORK, input="{}", created_at=NOW, start_at=NOW, key="order-17")]
        )
        assert same is not None
        assert (same.id, same.input) == ("waits", '{"n": 1}')
        # The limit holds, and can be lifted.
        lease = await store.join(NewWorker(name="host:1", definitions=(WORK,)), 60)
        claimed = await store.claim(lease, [WORK], None, 10, NOW + 5)
        assert sorted(flow.id for flow in claimed.flows) == ["one", "waits"]
        await store.set_queue_limit("narrow", None)
        assert [flow.id for flow in (await store.claim(lease, [WORK], None, 10, NOW + 5)).flows] == ["two"]
        done = Batch(
            number=1,
            flows=[FlowChange(flow_id="waits", status="completed", finished_at=NOW + 6)],
            retries_done=[("waits", 1)],
        )
        await store.commit(lease, done)
        assert await store.list_retries(RetryQuery()) == []
        # And there is room for what is new.
        assert await store.put_step(StepRow(name="ship", body="{}", updated_at=NOW))
        await store.add_key(KeyRow(id="k1", name="ann", role="viewer", digest="d", created_at=NOW))
        await store.leave(lease)

    asyncio.run(scenario())


def test_both_databases_have_the_same_views_and_names(old: Old) -> None:
    asyncio.run(closed(old.make()))
    # Once more: nothing is left to do.
    asyncio.run(closed(old.make()))
    assert old.ask('SELECT name, "limit" FROM queue_limits') == [("narrow", 1)]
    assert old.ask(
        "SELECT next_attempt_utc, flow_id, item, step, queue, attempt_number, max_retries, retry_kind, backoff_kind,"
        " backoff_base_delay_ms, timeout_seconds FROM waiting_retries"
    ) == [
        ("2023-11-14 22:13:20.250", "waits", 1, "charge", "default", 1, 4, "exception", "exponential", 500.0, 2.5),
    ]
    assert old.ask("SELECT flow_id, item, attempts, max_attempts, ready, reason FROM retry_eligibility") == [
        ("waits", 1, 1, 5, True, "may be retried"),
    ]
    assert old.ask("SELECT name, body, updated_at FROM step_catalogue") == []
    assert old.ask("SELECT id, name, role, digest, created_at FROM access_keys") == []


def test_lines_that_were_written_one_by_one_and_together_are_one_log(old: Old) -> None:
    """For people with SQL; tests/flows/test_history.py has it for the engine."""

    async def go_on() -> None:
        store = old.make()
        await store.open()
        try:
            lease = await store.join(NewWorker(name="host:1", definitions=(WORK,)), 60)
            await store.claim(lease, [WORK], None, 10, NOW + 5)
            turn = EventRow(
                "waits",
                3,
                NOW + 5,
                '[{"type":"attempt_started","attempt":2},{"type":"item_completed","result":"\\u0000"}]',
            )
            await store.commit(lease, Batch(number=1, events=[turn]))
            await store.leave(lease)
        finally:
            await store.close()

    asyncio.run(go_on())
    assert old.ask("SELECT flow_id, seq, type FROM log_lines ORDER BY seq") == [
        ("waits", 1, "started"),
        ("waits", 2, "attempt_started"),
        ("waits", 3, "item_completed"),
    ]


def test_a_view_that_was_made_where_backslashes_are_escapes_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    old = _postgres()
    until_3 = migrations_of("redrive.stores.postgres")[:3]
    with monkeypatch.context() as before:
        before.setattr(migrating, "migrations_of", lambda _package: until_3)
        asyncio.run(closed(old.make()))
    old.fill()
    # The setting counts from the next script on.
    old.do("SET standard_conforming_strings TO off; DROP VIEW log_lines", until_3[-1].sql)
    assert old.ask("SELECT type FROM log_lines") == [(None,)]
    asyncio.run(closed(old.make()))
    assert old.ask("SELECT type FROM log_lines") == [("started",)]


def test_version_1_refuses_what_was_brought_up_to_date(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(closed(old.make()))
    at_version_1(monkeypatch, old.module)
    with pytest.raises(
        StoreUnusableError, match=r"its schema has version 5, and this redrive knows up to 1; upgrade redrive"
    ):
        asyncio.run(closed(old.make()))


def test_a_worker_does_not_begin_anew_in_a_store_that_a_newer_version_has_changed_meanwhile(old: Old) -> None:
    newer = (
        "INSERT INTO redrive_schema (version, name) VALUES (99, '0099_new.sql')"
        if old.module is opening
        else "INSERT INTO migrations (version, name) VALUES (99, '0099_new.sql')"
    )

    async def scenario() -> None:
        begun = asyncio.Event()

        @action
        async def outlasts_its_worker() -> None:
            begun.set()
            await asyncio.Event().wait()

        async with redrive.open(old.make(), lease=0.5) as app:
            handle = await app.start(outlasts_its_worker())
            ended = asyncio.create_task(handle.result(timeout=20))
            await begun.wait()
            # As when the worker was frozen: a newer one is there, and has taken its lease away.
            await asyncio.to_thread(old.do, newer, "DELETE FROM workers")
            with pytest.raises(
                StoreUnusableError, match=r"its schema has version 99, and this redrive knows up to \d; "
            ):
                await ended

    asyncio.run(scenario())


def test_a_transaction_that_stays_open_does_not_hold_everyone_up_behind_a_migration(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = _postgres()
    with monkeypatch.context() as before:
        at_version_1(before, old.module)
        asyncio.run(closed(old.make()))
    old.fill()
    monkeypatch.setattr(migrating, "LOCKED_WITHIN", "50ms")
    monkeypatch.setattr(migrating, "PAUSE", 0.1)
    monkeypatch.setattr(migrating, "UNLOCKED_WITHIN", 0.2)
    (schema,) = old.ask("SELECT current_schema()")[0]

    async def scenario() -> None:
        async def read(connection: Any) -> None:
            await connection.fetch(f"SELECT FROM {schema}.flows JOIN {schema}.retry_queue ON flow_id = id", timeout=10)

        user, other = [
            await asyncpg.connect(shared_database(), server_settings={"application_name": name})
            for name in ("nightly report", "shop")
        ]
        using = user.transaction()
        await using.start()
        await read(user)
        opening_store = asyncio.create_task(closed(old.make()))
        while not opening_store.done():
            # It was behind the change, which would have waited for as long as the transaction stays open.
            await read(other)
        with pytest.raises(
            StoreUnavailableError,
            match=r"its tables cannot be brought up to date while a transaction uses them: process \d+ of user \w+ "
            r"\(nightly report\), idle in transaction, open for \d+ s; end it, then try again$",
        ):
            await opening_store
        (told,) = caplog.messages
        assert re.search(
            r": waiting up to 0\.2 s to bring its tables up to date, for a transaction that uses them: process \d+ of "
            r"user \w+ \(nightly report\), idle in transaction, open for \d+ s$",
            told,
        )
        # What ends in time is waited for.
        monkeypatch.setattr(migrating, "UNLOCKED_WITHIN", 30.0)
        opening_store = asyncio.create_task(closed(old.make()))
        await read(other)
        await using.rollback()
        await opening_store
        await user.close()
        await other.close()

    asyncio.run(scenario())
    assert old.ask("SELECT max(version) FROM migrations") == [(5,)]


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
def test_a_migration_is_waited_for_and_takes_as_long_as_it_must_whatever_the_user_is_allowed(limit: str) -> None:
    schema = fresh_schema()

    async def scenario() -> None:
        other = await asyncpg.connect(shared_database())
        try:
            migration = other.transaction()
            await migration.start()
            await other.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", schema)
            opening_store = asyncio.create_task(closed(PostgresStore(f"{shared_database()}?{limit}=50ms", schema)))
            await other.execute("SELECT pg_sleep(0.2)")
            await migration.rollback()
            await opening_store
        finally:
            other.terminate()

    asyncio.run(scenario())


def test_whoever_waits_for_another_process_that_migrates_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = _postgres()
    with monkeypatch.context() as before:
        at_version_1(before, old.module)
        asyncio.run(closed(old.make()))
    monkeypatch.setattr(migrating, "TOLD_AFTER", 0.01)
    (schema,) = old.ask("SELECT current_schema()")[0]

    async def scenario() -> None:
        other = await asyncpg.connect(shared_database())
        async with other.transaction():
            await other.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", schema)
            opening_store = asyncio.create_task(closed(old.make()))
            async with asyncio.timeout(10):
                while not caplog.messages and not opening_store.done():  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.01)
        await opening_store
        await other.close()

    asyncio.run(scenario())
    (told,) = caplog.messages
    assert told.endswith(": waiting for another process that brings its tables up to date")

"""Stores migrate their schema with all that is in it, and refuse a schema from a newer version."""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import msgspec
import pytest
from tests.stores.postgres_scene import fresh_schema, shared_database

import redrive
from redrive import action
from redrive.errors import StoreUnavailableError, StoreUnusableError
from redrive.stores.interface import Store
from redrive.stores.leases import NewWorker
from redrive.stores.migrations import Migration, load_migrations
from redrive.stores.postgres import migrator as postgres_migrator
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, EventRow, RetryQuery, RetryRow
from redrive.stores.registry_rows import KeyRow
from redrive.stores.sqlite import migrator as sqlite_migrator
from redrive.stores.sqlite.store import SqliteStore

NOW = 1_700_000_000.0
WORK = "action:work"

# One flow with a retry that waits, two more in a queue with a limit of one.
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
INSERT INTO events (flow_id, seq, at, body) VALUES ('waits', 1, TIME(0), '[{"type": "started"}]');
INSERT INTO retry_queue (
    flow_id, item, step, queue, status, attempt_number, max_retries, timeout_seconds, timeout_retry_limit,
    backoff_kind, backoff_base_delay_ms, retry_kind, scheduled_at
) VALUES (
    'waits', 1, 'charge', 'default', 'waiting', 1, 4, 2.5, NULL, 'exponential', 500.0, 'exception', TIME(0.25)
);
INSERT INTO queue_limits (name, "limit") VALUES ('narrow', 1);
"""
RETRY_LIKE = """
INSERT INTO retry_queue (
    flow_id, item, step, queue, status, attempt_number, backoff_kind, backoff_base_delay_ms, retry_kind, scheduled_at
) VALUES ('{status}-{kind}', 1, 'charge', 'default', '{status}', 1, 'none', 0, '{kind}', TIME(9));
"""


def fill(time: str) -> str:
    return FILL.replace("TIME(", time.replace("NOW", f"{NOW:.0f}"))


# The next version of the schema, as a later redrive would bring it.
PRESENT = [(one.version, one.name) for one in load_migrations("redrive.stores.sqlite")]
NEWEST = PRESENT[-1][0]
NEXT = Migration(
    NEWEST + 1,
    "9999_notes.sql",
    "ALTER TABLE retry_queue ADD COLUMN note text;\nALTER TABLE flows ADD COLUMN note text;\n",
)


def upgrade(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """From now on, this redrive has one migration more."""
    monkeypatch.setattr(module, "load_migrations", lambda package: [*load_migrations(package), NEXT])


async def closed(store: Store) -> None:
    try:
        await store.open()
    finally:
        await store.close()


class Database:
    """A database of the current version."""

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


def _sqlite(path: Path) -> Database:
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

    return Database(sqlite_migrator, lambda: SqliteStore(str(path)), lambda: do(fill("(NOW + ")), do, ask)


def _postgres() -> Database:
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

    return Database(
        postgres_migrator,
        lambda: PostgresStore(url, schema),
        lambda: do(fill("to_timestamp(NOW + ")),
        do,
        lambda statement: [tuple(row) for row in run(lambda connection: connection.fetch(statement))],
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    database = _sqlite(tmp_path / "app.db") if request.param == "sqlite" else _postgres()
    asyncio.run(closed(database.make()))
    database.fill()
    return database


def test_a_migration_is_applied_once_and_keeps_what_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = database.make()
        await store.open()
        try:
            assert await store.list_retries(RetryQuery()) == [RETRY]
            assert [(queue.name, queue.limit, queue.ready) for queue in await store.list_queues(NOW)] == [
                *(("default", None, 0), ("narrow", 1, 2)),
            ]
            lease = await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK,)), 60)
            claimed = await store.claim(lease, [WORK], None, 10, NOW + 5)
            assert sorted(flow.id for flow in claimed.flows) == ["one", "waits"]
            await store.release_lease(lease)
        finally:
            await store.close()

    upgrade(monkeypatch, database.module)
    asyncio.run(scenario())
    asyncio.run(closed(database.make()))
    assert database.ask("SELECT version, name FROM redrive_migrations ORDER BY version") == [
        *(*PRESENT, (NEWEST + 1, "9999_notes.sql")),
    ]
    assert database.ask("SELECT note FROM retry_queue") == [(None,)]


def _forget_newer_tables(older: pytest.MonkeyPatch) -> None:
    """What an earlier version did not read when it opened a store."""
    older.setattr("redrive.stores.sqlite.store.keep_up", lambda *_: None)


@pytest.mark.parametrize("version", range(1, NEWEST))
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_of_each_earlier_version_is_migrated_with_what_is_in_it(
    kind: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = _sqlite(tmp_path / "app.db") if kind == "sqlite" else _postgres()
    with monkeypatch.context() as older:
        older.setattr(database.module, "load_migrations", lambda package: load_migrations(package)[:version])
        _forget_newer_tables(older)
        asyncio.run(closed(database.make()))
        database.fill()

    async def scenario() -> None:
        store = database.make()
        await store.open()
        try:
            lease = await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK,)), 60)
            claimed = await store.claim(lease, [WORK], None, 10, NOW + 5)
            assert sorted(flow.id for flow in claimed.flows) == ["one", "waits"]
            assert {flow.blame for flow in claimed.flows} == {None}
            await store.release_lease(lease)
        finally:
            await store.close()

    asyncio.run(scenario())


def test_both_databases_have_the_same_views_and_names(database: Database) -> None:
    assert database.ask('SELECT name, "limit" FROM queue_limits') == [("narrow", 1)]
    assert database.ask(
        "SELECT next_attempt_utc, flow_id, item, step, queue, attempt_number, max_retries, retry_kind, backoff_kind,"
        " backoff_base_delay_ms, timeout_seconds FROM waiting_retries"
    ) == [
        ("2023-11-14 22:13:20.250", "waits", 1, "charge", "default", 1, 4, "exception", "exponential", 500.0, 2.5),
    ]
    assert database.ask("SELECT flow_id, item, attempts, max_attempts, ready, reason FROM retry_eligibility") == [
        ("waits", 1, 1, 5, True, "may be retried"),
    ]
    assert database.ask("SELECT name, body, updated_at FROM step_catalogue") == []
    assert database.ask("SELECT id, name, role, digest, created_at FROM access_keys") == []


def test_the_event_log_has_one_event_a_row(database: Database) -> None:
    """For people with SQL; tests/flows/test_history.py has it for the engine."""

    async def commit() -> None:
        store = database.make()
        await store.open()
        try:
            lease = await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK,)), 60)
            await store.claim(lease, [WORK], None, 10, NOW + 5)
            events = '[{"type":"attempt_started","attempt":2},{"type":"item_completed","result":"\\u0000"}]'
            await store.commit(lease, Batch(number=1, events=[EventRow("waits", 3, NOW + 5, events)]))
            await store.release_lease(lease)
        finally:
            await store.close()

    asyncio.run(commit())
    assert database.ask("SELECT flow_id, seq, type FROM event_log ORDER BY seq") == [
        ("waits", 1, "started"),
        ("waits", 2, "attempt_started"),
        ("waits", 3, "item_completed"),
    ]


def test_an_older_version_refuses_a_migrated_store(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        upgrade(newer, database.module)
        asyncio.run(closed(database.make()))
    with pytest.raises(
        StoreUnusableError,
        match=rf"its schema has version {NEWEST + 1}, and this redrive supports versions up to {NEWEST}; upgrade",
    ):
        asyncio.run(closed(database.make()))


def test_a_worker_does_not_begin_anew_in_a_store_that_a_newer_version_has_changed_meanwhile(database: Database) -> None:
    newer = "INSERT INTO redrive_migrations (version, name) VALUES (99, '0099_new.sql')"

    async def scenario() -> None:
        begun = asyncio.Event()

        @action
        async def outlasts_its_worker() -> None:
            begun.set()
            await asyncio.Event().wait()

        async with redrive.open(database.make(), lease=0.5) as app:
            handle = await app.start(outlasts_its_worker())
            ended = asyncio.create_task(handle.result(timeout=20))
            await begun.wait()
            # As when the worker was frozen: a newer one is there, and has taken its lease away.
            await asyncio.to_thread(database.do, newer, "DELETE FROM workers")
            with pytest.raises(StoreUnusableError, match=r"its schema has version 99, and this redrive supports"):
                await ended

    asyncio.run(scenario())


def test_a_transaction_that_stays_open_does_not_hold_everyone_up_behind_a_migration(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database = _postgres()
    asyncio.run(closed(database.make()))
    upgrade(monkeypatch, database.module)
    database.fill()
    monkeypatch.setattr(postgres_migrator, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(postgres_migrator, "RETRY_INTERVAL", 0.1)
    monkeypatch.setattr(postgres_migrator, "GIVE_UP_AFTER", 0.2)
    (schema,) = database.ask("SELECT current_schema()")[0]

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
        opening_store = asyncio.create_task(closed(database.make()))
        while not opening_store.done():
            # It was behind the change, which would have waited for as long as the transaction stays open.
            await read(other)
        with pytest.raises(
            StoreUnavailableError,
            match=r"the schema cannot be migrated while a transaction uses its tables: process \d+ of user \w+ "
            r"\(nightly report\), idle in transaction, open for \d+ s; end it, then try again$",
        ):
            await opening_store
        (told,) = caplog.messages
        assert re.search(
            r": waiting up to 0\.2 s to migrate the schema, for a transaction that uses its tables: process \d+ of "
            r"user \w+ \(nightly report\), idle in transaction, open for \d+ s$",
            told,
        )
        # What ends in time is waited for.
        monkeypatch.setattr(postgres_migrator, "GIVE_UP_AFTER", 30.0)
        opening_store = asyncio.create_task(closed(database.make()))
        await read(other)
        await using.rollback()
        await opening_store
        await user.close()
        await other.close()

    asyncio.run(scenario())
    assert database.ask("SELECT max(version) FROM redrive_migrations") == [(NEWEST + 1,)]


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
    database = _postgres()
    asyncio.run(closed(database.make()))
    upgrade(monkeypatch, database.module)
    monkeypatch.setattr(postgres_migrator, "REPORT_AFTER", 0.01)
    (schema,) = database.ask("SELECT current_schema()")[0]

    async def scenario() -> None:
        other = await asyncpg.connect(shared_database())
        async with other.transaction():
            await other.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", schema)
            opening_store = asyncio.create_task(closed(database.make()))
            async with asyncio.timeout(10):
                while not caplog.messages and not opening_store.done():  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.01)
        await opening_store
        await other.close()

    asyncio.run(scenario())
    (told,) = caplog.messages
    assert told.endswith(": waiting for another process that is migrating the schema")


OLD_KEYS = """
INSERT INTO access_keys (id, name, role, digest, created_at) VALUES
    ('0123456789ab', 'board', 'read', 'd1', TIME(0)),
    ('0123456789ac', 'ci', 'operate', 'd2', TIME(1)),
    ('0123456789ad', 'ops', 'admin', 'd3', TIME(2));
"""


@pytest.mark.promise("X10")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_keys_of_a_store_of_the_first_version_keep_what_they_could_see(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = _sqlite(tmp_path / "app.db") if kind == "sqlite" else _postgres()
    with monkeypatch.context() as older:
        older.setattr(database.module, "load_migrations", lambda package: load_migrations(package)[:1])
        _forget_newer_tables(older)
        asyncio.run(closed(database.make()))
    time = "(NOW + " if kind == "sqlite" else "to_timestamp(NOW + "
    database.do(OLD_KEYS.replace("TIME(", time.replace("NOW", f"{NOW:.0f}")))

    async def listed() -> list[KeyRow]:
        store = database.make()
        await store.open()
        try:
            return await store.list_keys()
        finally:
            await store.close()

    keys = asyncio.run(listed())
    assert [(key.name, key.role) for key in keys] == [("board", "read:payload"), ("ci", "operate"), ("ops", "admin")]
    assert [(key.queues, key.definitions, key.expires_at, key.used_at) for key in keys] == [((), (), None, None)] * 3


@pytest.mark.promise("X10")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_retries_of_an_older_store_say_what_they_wait_for(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = _sqlite(tmp_path / "app.db") if kind == "sqlite" else _postgres()
    with monkeypatch.context() as older:
        older.setattr(database.module, "load_migrations", lambda package: load_migrations(package)[:5])
        _forget_newer_tables(older)
        asyncio.run(closed(database.make()))
    time = "(NOW + " if kind == "sqlite" else "to_timestamp(NOW + "
    filled = fill(time.replace("NOW", f"{NOW:.0f}"))
    for status, retry_kind in (("dispatched", "exception"), ("waiting", "deferred"), ("waiting", "snooze")):
        filled += RETRY_LIKE.format(status=status, kind=retry_kind).replace("TIME(", time.replace("NOW", f"{NOW:.0f}"))
    database.do(filled)

    async def listed() -> list[RetryRow]:
        store = database.make()
        await store.open()
        try:
            return await store.list_retries(RetryQuery())
        finally:
            await store.close()

    rows = asyncio.run(listed())
    assert rows[0] == msgspec.structs.replace(RETRY, definition=WORK, waits_for="backoff")
    assert {(row.retry_kind, row.status): row.waits_for for row in rows} == {
        ("exception", "waiting"): "backoff",
        ("exception", "dispatched"): "",
        ("deferred", "waiting"): "circuit",
        ("snooze", "waiting"): "snooze",
    }


@pytest.mark.parametrize("package", ["redrive.stores.sqlite", "redrive.stores.postgres"])
def test_migrations_are_numbered_one_after_the_other(package: str) -> None:
    assert [one.version for one in load_migrations(package)] == [*range(1, len(load_migrations(package)) + 1)]

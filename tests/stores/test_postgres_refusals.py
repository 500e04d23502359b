"""What cannot be used is refused in one clear line: what, where, and what to do instead."""

import asyncio
import subprocess
import sys

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.postgres_server import GUARDED_PASSWORD, GUARDED_USER, shared_server
from tests.stores.postgres_pool import Pool
from tests.stores.postgres_scene import NOW, Scene, claimed, fresh_schema, joined, new_flow, played

import redrive
from redrive import action
from redrive.errors import CommitUnknownError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.stores.postgres.faults import connecting_failed
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, EventRow


def refused(store: PostgresStore) -> StoreError:
    """How opening it fails."""

    async def open_it() -> None:
        try:
            await store.open()
        finally:
            await store.close()

    with pytest.raises(StoreError) as raised:
        asyncio.run(open_it())
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None
    return raised.value


def test_a_server_that_is_not_there_is_named() -> None:
    error = refused(PostgresStore("postgresql://ann:s3cret-word@127.0.0.1:1/app"))
    assert isinstance(error, StoreUnavailableError)
    assert str(error).startswith("postgresql://ann@127.0.0.1:1/app: cannot connect (")
    assert "check that PostgreSQL is running" in str(error)
    assert "s3cret" not in str(error)


def test_a_host_that_does_not_exist_is_named() -> None:
    error = refused(PostgresStore("postgresql://ann:s3cret-word@no-such-host.invalid/app"))
    assert isinstance(error, StoreUnavailableError)
    assert "no-such-host.invalid/app" in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("user", "password", "database", "told"),
    [
        (GUARDED_USER, "wrong-s3cret", "postgres", "check the user and the password"),
        (GUARDED_USER, "", "postgres", "check the user and the password"),
        ("nobody-s", "", "postgres", "check the user and the password"),
        ("postgres", "", "no_such_database", "create the database, or correct its name"),
        (GUARDED_USER, GUARDED_PASSWORD, "postgres", "grant the user the privilege"),
    ],
)
def test_what_stands_in_the_way_is_told_with_what_to_do(user: str, password: str, database: str, told: str) -> None:
    server = shared_server()
    error = refused(PostgresStore(server.url(database, user, password)))
    assert isinstance(error, StoreUnusableError)
    assert told in str(error)
    assert f"{user}@{server.host}:{server.port}/{database}" in str(error)
    assert not password or password not in str(error)


def test_a_user_without_the_right_to_create_schemas_can_use_one_that_is_there() -> None:
    server = shared_server()
    database = server.fresh_database().rpartition("/")[2]
    server.execute(f"CREATE SCHEMA redrive AUTHORIZATION {GUARDED_USER}", database)

    async def play(scene: Scene) -> None:
        store = await scene.store(schema="redrive")
        await store.add_flows([new_flow("a")])
        assert await store.find_flow("a") is not None

    played(play, server.url(database, GUARDED_USER, GUARDED_PASSWORD))


def test_a_database_that_cannot_keep_all_text_is_refused() -> None:
    shared_server().execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    error = refused(PostgresStore(shared_server().url("latin")))
    assert isinstance(error, StoreUnusableError)
    assert "encoding LATIN1 cannot store all text" in str(error)
    assert "create the database with ENCODING 'UTF8'" in str(error)


def test_a_database_that_takes_text_as_it_comes_can_be_used() -> None:
    shared_server().execute("CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")

    async def play(scene: Scene) -> None:
        store = await scene.store()
        await store.add_flows([new_flow("a", input='"€ 日本"')])
        assert (await store.find_flows(["a"]))["a"].input == '"€ 日本"'

    played(play, shared_server().url("bytes"))


def test_a_pool_that_lends_a_session_for_a_transaction_only_is_refused() -> None:
    """What one connection sets in it would hold for others: the schema, and what a commit waits for."""

    async def play(scene: Scene) -> None:
        async with Pool(shared_server(), shared=True) as pool:
            with pytest.raises(
                StoreUnusableError,
                match="several connections; connect to the server itself, or to a pooler in session mode",
            ):
                await scene.store(url=pool.url(scene.url))

    played(play)


def test_a_pool_that_lends_a_session_for_good_can_be_used() -> None:
    async def play(scene: Scene) -> None:
        async with Pool(shared_server(), shared=False) as pool:
            store = await scene.store(url=pool.url(scene.url))
            await store.add_flows([new_flow("a")])
            assert len(await claimed(store, await joined(store))) == 1
            await store.close()

    played(play)


def test_a_setting_that_only_other_drivers_know_is_told() -> None:
    error = refused(PostgresStore(f"{shared_server().url()}?connect_timeout=10"))
    assert 'unrecognized configuration parameter "connect_timeout"' in str(error)
    assert str(error).endswith("remove that setting from the address")


@pytest.mark.parametrize(
    "url", ["mysql://ann:s3cret-word@host/app", "ann:s3cret-word@host/app", "", "postgresql://h:x/"]
)
def test_what_is_not_an_address_of_postgresql_is_refused_at_once(url: str) -> None:
    with pytest.raises(StoreUnusableError, match="write postgresql://user@host:5432/database") as raised:
        PostgresStore(url)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "password", ["17/s3cret", "17?s3cret", "17#s3cret", "s3cret/", "s3cret?", "s3cret#", "\u2100s3cret"]
)
def test_a_password_that_is_not_percent_encoded_is_not_taken_for_a_database_and_told(password: str) -> None:
    with pytest.raises(StoreUnusableError, match=r"/ \? # @ in a password or a name as %2F %3F %23 %40") as raised:
        PostgresStore(f"postgresql://ann:{password}@host/app")
    assert "s3cret" not in str(raised.value)
    assert "17" not in str(raised.value)


def test_a_user_and_a_database_may_have_an_at_sign() -> None:
    assert PostgresStore("postgresql://host/app?user=ann@shop").address == "postgresql://host/app"
    assert PostgresStore("postgresql://ann%40shop@host/a%40b").address == "postgresql://ann%40shop@host/a%40b"


@pytest.mark.parametrize("schema", ["", "x" * 59, "pg_mine", "a\x00b", "$user"])
def test_a_schema_that_cannot_be_is_refused_at_once(schema: str) -> None:
    with pytest.raises(StoreUnusableError, match="schema"):
        PostgresStore("postgresql://host/app", schema)


def test_a_schema_of_a_newer_version_is_refused() -> None:
    async def play(scene: Scene) -> None:
        await scene.store()
        await (await scene.connection()).execute(
            "INSERT INTO redrive_migrations (version, name) VALUES (9999, 'to come')"
        )
        with pytest.raises(StoreUnusableError, match=r"version 9999.*upgrade redrive"):
            await scene.store()

    played(play)


def test_many_workers_that_start_at_once_agree_on_the_schema() -> None:
    async def play(scene: Scene) -> None:
        for _ in range(3):
            schema = fresh_schema()
            stores = await asyncio.gather(*(scene.store(schema=schema) for _ in range(8)))
            leases = await asyncio.gather(*map(joined, stores))
            assert len({lease.epoch for lease in leases}) == 8

    played(play)


def test_a_schema_that_was_dropped_is_told() -> None:
    async def play(scene: Scene) -> None:
        store, connection = await scene.store(), await scene.connection()
        await connection.execute(f"DROP SCHEMA {scene.schema} CASCADE")
        with pytest.raises(StoreUnusableError, match="open the store again"):
            await store.add_flows([new_flow("a")])
        await store.open()
        await store.add_flows([new_flow("a")])

    played(play)


def test_a_database_that_may_only_be_read_says_so() -> None:
    """As a standby does, until it is promoted."""

    async def play(scene: Scene) -> None:
        await scene.store()
        store = await scene.store(url=f"{scene.url}?default_transaction_read_only=on")
        with pytest.raises(StoreUnavailableError, match="read-only") as raised:
            await store.add_flows([new_flow("a")])
        assert not isinstance(raised.value, CommitUnknownError)

    played(play)


def test_errors_do_not_repeat_what_is_in_the_rows() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        broken = Batch(number=1, events=[EventRow("a", 1, NOW, '{"password": s3cret-word}')])
        with pytest.raises(StoreError) as raised:
            await store.commit(lease, broken)
        assert "json" in str(raised.value)
        assert "s3cret" not in str(raised.value)

    played(play)


def test_a_store_that_was_not_opened_takes_nothing() -> None:
    async def play(scene: Scene) -> None:
        opened = await scene.store()
        lease = await joined(opened)
        store = PostgresStore(scene.url, scene.schema)
        for use in (
            lambda: store.add_flows([new_flow("a")]),
            lambda: store.steps_to_add([new_flow("a")]),
            lambda: store.find_flow("a"),
            lambda: store.send("a", "{}", NOW),
            lambda: joined(store),
            lambda: store.extend_lease(lease, 60.0),
            lambda: store.commit(lease, Batch(number=1)),
            lambda: store.read_inbox(lease),
            store.reap_leases,
        ):
            with pytest.raises(
                StoreError, match=r"the store is not open; use it inside `async with redrive.open"
            ) as told:
                await use()
            assert type(told.value) is StoreError
        assert await opened.find_flow("a") is None
        await store.close()

    played(play)


def test_an_app_that_was_not_entered_says_so() -> None:
    @action(name="refusals.noop")
    async def noop() -> None: ...

    async def play(scene: Scene) -> None:
        async with redrive.open(scene.url, worker=False):
            pass
        app = redrive.open(scene.url)
        connection = await scene.connection()
        with pytest.raises(StoreError, match="the store is not open"):
            await app.start(noop())
        with pytest.raises(StoreError, match="the store is not open"):
            await app.start(noop(), key="k", connection=connection)
        with pytest.raises(StoreError, match="the store is not open"):
            await app.handle("a").result(timeout=5)
        with pytest.raises(StoreError, match="the store is not open"):
            await app.flows()

    played(play, shared_server().fresh_database())


def test_a_missing_driver_says_what_to_install() -> None:
    script = """
import asyncio, sys
sys.modules["asyncpg"] = None
from redrive.errors import StoreUnusableError
from redrive.stores.postgres.store import PostgresStore
try:
    asyncio.run(PostgresStore("postgresql://host/app").open())
except StoreUnusableError as error:
    print(error)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script
    assert finished.stdout.strip() == "PostgreSQL needs the asyncpg driver: pip install 'redrive[postgres]'"


def test_a_driver_that_lost_track_of_a_connection_that_was_cut_tries_again() -> None:
    """That is no wrong address: a worker must not end for good of it."""
    confused = asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress")
    assert type(connecting_failed("postgresql://db", confused)) is StoreUnavailableError

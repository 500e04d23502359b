"""A flow started on the caller's own connection exists if, and only if, that transaction commits."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.postgres_server import PostgresServer, shared_server

import redrive
from redrive.errors import NoTransactionError, WrongDatabaseError

NOT_COMMITTED = "it was started on your connection, whose transaction has not committed yet or was rolled back"
PATIENCE = 30.0
Opened = Callable[[str, bool], AbstractContextManager[Any]]
"""Takes the store's address, and whether to commit; gives a connection with its transaction open."""
OpenedInLoop = Callable[[str, bool], AbstractAsyncContextManager[Any]]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Undone(Exception):
    """What the caller's own code may raise."""


@redrive.action(name="transactions.double")
async def double(n: int) -> int:
    return n * 2


def engine_of(address: str, **options: Any) -> sqlalchemy.Engine:
    url = address.replace("postgresql:", "postgresql+psycopg:")
    return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, **options)


def async_engine_of(address: str, driver: str, **options: Any) -> Any:
    scheme, _, rest = address.partition(":")
    return create_async_engine(f"{scheme}+{driver}:{rest}", poolclass=sqlalchemy.NullPool, **options)


@contextmanager
def sa_session(address: str, commits: bool) -> Any:
    with Session(engine_of(address)) as session:
        yield session
        session.commit() if commits else session.rollback()


@contextmanager
def sa_scoped_session(address: str, commits: bool) -> Any:
    session = scoped_session(sessionmaker(engine_of(address)))
    yield session
    session.commit() if commits else session.rollback()
    session.remove()


@contextmanager
def sa_connection(address: str, commits: bool) -> Any:
    with engine_of(address).connect() as connection:
        yield connection
        connection.commit() if commits else connection.rollback()


@contextmanager
def plain_psycopg(address: str, commits: bool) -> Any:
    with psycopg.connect(address, autocommit=True) as connection, connection.transaction(force_rollback=not commits):
        yield connection


@contextmanager
def plain_sqlite3(address: str, commits: bool) -> Any:
    connection = sqlite3.connect(address.removeprefix("sqlite:///"))
    connection.row_factory = sqlite3.Row
    yield connection
    connection.commit() if commits else connection.rollback()
    connection.close()


@contextmanager
def sqlite3_with_begin(address: str, commits: bool) -> Any:
    connection = sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None)
    connection.row_factory = lambda cursor, row: {
        one[0]: value for one, value in zip(cursor.description, row, strict=True)
    }
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.execute("COMMIT" if commits else "ROLLBACK")
    connection.close()


@asynccontextmanager
async def asyncpg_connection(address: str, commits: bool) -> Any:
    connection = await asyncpg.connect(address)
    with contextlib.suppress(Undone):
        async with connection.transaction():
            yield connection
            if not commits:
                raise Undone
    await connection.close()


@asynccontextmanager
async def async_psycopg(address: str, commits: bool) -> Any:
    async with await psycopg.AsyncConnection.connect(address) as connection:
        yield connection
        if not commits:
            await connection.rollback()


@asynccontextmanager
async def sa_async_session(address: str, commits: bool) -> Any:
    async with AsyncSession(async_engine_of(address, "asyncpg")) as session:
        yield session
        await (session.commit() if commits else session.rollback())


@asynccontextmanager
async def sa_async_scoped_session(address: str, commits: bool) -> Any:
    session = async_scoped_session(async_sessionmaker(async_engine_of(address, "asyncpg")), asyncio.current_task)
    yield session
    await (session.commit() if commits else session.rollback())
    await session.remove()


@asynccontextmanager
async def sa_async_connection(address: str, commits: bool) -> Any:
    async with async_engine_of(address, "psycopg").connect() as connection:
        yield connection
        await (connection.commit() if commits else connection.rollback())


@asynccontextmanager
async def aiosqlite_connection(address: str, commits: bool) -> Any:
    aiosqlite = pytest.importorskip("aiosqlite")
    async with aiosqlite.connect(address.removeprefix("sqlite:///")) as connection:
        connection.row_factory = sqlite3.Row
        yield connection
        await (connection.commit() if commits else connection.rollback())


@asynccontextmanager
async def sa_aiosqlite_session(address: str, commits: bool) -> Any:
    pytest.importorskip("aiosqlite")
    async with AsyncSession(async_engine_of(address, "aiosqlite")) as session:
        yield session
        await (session.commit() if commits else session.rollback())


PLAIN = [
    *((opened, "postgresql") for opened in (sa_session, sa_scoped_session, sa_connection, plain_psycopg)),
    *(
        (opened, "sqlite")
        for opened in (sa_session, sa_scoped_session, sa_connection, plain_sqlite3, sqlite3_with_begin)
    ),
]
IN_LOOP = [
    (asyncpg_connection, "postgresql"),
    (async_psycopg, "postgresql"),
    (sa_async_session, "postgresql"),
    (sa_async_scoped_session, "postgresql"),
    (sa_async_connection, "postgresql"),
    (aiosqlite_connection, "sqlite"),
    (sa_aiosqlite_session, "sqlite"),
]


def address_of(kind: str, folder: Path) -> str:
    return shared_server().fresh_database() if kind == "postgresql" else f"sqlite:///{folder}/app.db"


@pytest.mark.promise("L6")
@pytest.mark.parametrize(("opened", "kind"), PLAIN)
def test_with_open_sync_the_flow_exists_only_if_the_transaction_commits(
    opened: Opened, kind: str, tmp_path: Path
) -> None:
    address = address_of(kind, tmp_path)
    with redrive.open_sync(address) as app:
        with opened(address, False) as connection:
            undone = app.start(double(1), key="k", connection=connection)
        with pytest.raises(redrive.FlowNotFoundError, match=NOT_COMMITTED):
            undone.status()
        with opened(address, True) as connection:
            done = app.start(double(2), key="k", connection=connection)
            assert done.is_new
            assert not app.start(double(2), key="k", connection=connection).is_new
            with pytest.raises(redrive.FlowNotFoundError, match=NOT_COMMITTED):
                done.status()
        assert done.result(PATIENCE) == 4
        with opened(address, True) as connection:
            assert app.start(double(2), key="k", connection=connection).id == done.id
            with pytest.raises(redrive.KeyTakenError):
                app.start(double(3), key="k", connection=connection)
        assert [one.id for one in app.flows()] == [done.id]


@pytest.mark.promise("L6")
@pytest.mark.parametrize(("opened", "kind"), PLAIN)
def test_with_open_a_connection_that_is_not_async_works_too(opened: Opened, kind: str, tmp_path: Path) -> None:
    address = address_of(kind, tmp_path)

    async def main() -> None:
        async with redrive.open(address) as app:
            with opened(address, False) as connection:
                await app.start(double(1), key="k", connection=connection)
            with opened(address, True) as connection:
                done = await app.start(double(2), key="k", connection=connection, traceparent=TRACE)
            assert await done.result(PATIENCE) == 4
            assert [(one.id, one.traceparent) for one in await app.flows()] == [(done.id, TRACE)]

    asyncio.run(main())


@pytest.mark.promise("L6")
@pytest.mark.parametrize(("opened", "kind"), IN_LOOP)
def test_with_open_the_flow_exists_only_if_the_transaction_commits(
    opened: OpenedInLoop, kind: str, tmp_path: Path
) -> None:
    address = address_of(kind, tmp_path)

    async def main() -> None:
        async with redrive.open(address) as app:
            async with opened(address, False) as connection:
                undone = await app.start(double(1), key="k", connection=connection)
            with pytest.raises(redrive.FlowNotFoundError, match=NOT_COMMITTED):
                await undone.status()
            async with opened(address, True) as connection:
                done = await app.start(double(2), key="k", connection=connection)
                assert not (await app.start(double(2), key="k", connection=connection)).is_new
                with pytest.raises(redrive.FlowNotFoundError, match=NOT_COMMITTED):
                    await done.status()
            assert await done.result(PATIENCE) == 4
            assert [one.id for one in await app.flows()] == [done.id]

    asyncio.run(main())


@pytest.mark.parametrize(("opened", "kind"), IN_LOOP)
def test_with_open_sync_an_async_connection_is_refused(opened: OpenedInLoop, kind: str, tmp_path: Path) -> None:
    address = address_of(kind, tmp_path)

    async def main(app: redrive.SyncApp) -> None:
        async with opened(address, True) as connection:
            with pytest.raises(TypeError, match=r"belongs to an event loop; pass a connection that is not async"):
                # Its own thread has no event loop.
                await asyncio.to_thread(lambda: app.start(double(1), connection=connection))

    with redrive.open_sync(address, worker=False) as app:
        asyncio.run(main(app))
        assert app.flows() == []


def test_goals_of_the_catalogue_are_started_in_a_transaction_too(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/app.db"
    with redrive.open_sync(address, worker=False) as app:
        app.register_step({"name": "pack", "endpoint": "http://127.0.0.1:1/pack"})
        for commits in (False, True):
            with plain_sqlite3(address, commits) as connection:
                handle = app.start_goals(["pack"], connection=connection)
        assert [one.id for one in app.flows()] == [handle.id]


# What is refused


@contextmanager
def autocommit_psycopg(address: str) -> Any:
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


@contextmanager
def autocommit_sqlite3(address: str) -> Any:
    with contextlib.closing(sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        yield connection


@contextmanager
def autocommit_sqlalchemy(address: str) -> Any:
    with engine_of(address, isolation_level="AUTOCOMMIT").connect() as connection:
        yield connection


@pytest.mark.promise("L6")
@pytest.mark.parametrize(
    ("opened", "kind", "write"),
    [
        (autocommit_psycopg, "postgresql", "write `with connection.transaction():`"),
        (autocommit_sqlalchemy, "postgresql", "write `with engine.begin() as connection:`"),
        (autocommit_sqlalchemy, "sqlite", "write `with engine.begin() as connection:`"),
        (autocommit_sqlite3, "sqlite", 'write `connection.execute("BEGIN")`'),
    ],
)
def test_a_connection_without_a_transaction_is_refused_with_what_to_write(
    opened: Callable[[str], AbstractContextManager[Any]], kind: str, write: str, tmp_path: Path
) -> None:
    address = address_of(kind, tmp_path)
    with redrive.open_sync(address, worker=False) as app, opened(address) as connection:
        with pytest.raises(NoTransactionError) as told:
            app.start(double(1), connection=connection)
        assert write in str(told.value)
        assert "\n" not in str(told.value)
        assert app.flows() == []


@pytest.mark.promise("L6")
def test_an_async_connection_without_a_transaction_is_refused_with_what_to_write() -> None:
    address = shared_server().fresh_database()

    async def main() -> None:
        async with redrive.open(address, worker=False) as app:
            connection = await asyncpg.connect(address)
            with pytest.raises(NoTransactionError, match=r"write `async with connection.transaction\(\):`"):
                await app.start(double(1), connection=connection)
            await connection.close()
            async with await psycopg.AsyncConnection.connect(address, autocommit=True) as other:
                with pytest.raises(NoTransactionError, match=r"write `async with connection.transaction\(\):`"):
                    await app.start(double(1), connection=other)
            assert await app.flows() == []

    asyncio.run(main())


@pytest.mark.promise("L6")
@pytest.mark.parametrize(("opened", "kind"), PLAIN)
@pytest.mark.parametrize("has_tables", [False, True])
def test_a_connection_to_another_database_is_refused_and_goes_on(
    opened: Opened, kind: str, has_tables: bool, tmp_path: Path
) -> None:
    address, other = address_of(kind, tmp_path), address_of(kind, tmp_path).replace("app.db", "other.db")
    if has_tables:
        with redrive.open_sync(other, worker=False):
            pass
    with redrive.open_sync(address, worker=False) as app, opened(other, True) as connection:
        with pytest.raises(WrongDatabaseError) as told:
            app.start(double(1), connection=connection)
        name = other.rpartition("/")[2]
        assert f"{name}, and the store is {address}; pass a connection to the store's own" in str(told.value)
        # The caller's transaction is as it was.
        execute = getattr(connection, "exec_driver_sql", connection.execute)
        execute(sqlalchemy.text("SELECT 1") if isinstance(connection, Session | scoped_session) else "SELECT 1")


@pytest.mark.promise("L6")
def test_a_database_of_the_same_name_on_another_server_is_refused() -> None:
    address, other = shared_server().fresh_database(), PostgresServer()
    try:
        name = address.rpartition("/")[2]
        other.execute(f"CREATE DATABASE {name}")
        with (
            redrive.open_sync(address, worker=False) as app,
            psycopg.connect(other.url(name)) as connection,
            pytest.raises(WrongDatabaseError, match=f"connected to {name} of another server"),
        ):
            app.start(double(1), connection=connection)
    finally:
        other.remove()


def test_another_kind_of_database_is_refused(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/app.db"
    with redrive.open_sync(address, worker=False) as app:
        with (
            psycopg.connect(shared_server().fresh_database()) as connection,
            pytest.raises(WrongDatabaseError, match="connected to PostgreSQL, and the store is sqlite:///"),
        ):
            app.start(double(1), connection=connection)
        with (
            contextlib.closing(sqlite3.connect(":memory:")) as memory,
            pytest.raises(WrongDatabaseError, match="a database in memory"),
        ):
            app.start(double(1), connection=memory)
        with contextlib.closing(sqlite3.connect(":memory:")) as memory:
            for wrong in ("connection", engine_of(address), memory.cursor()):
                with pytest.raises(TypeError, match=r"a flow cannot be started on a (str|Engine|Cursor); pass a"):
                    app.start(double(1), connection=wrong)
    with (
        redrive.open_sync("memory://") as app,
        pytest.raises(ValueError, match="needs a store in PostgreSQL or SQLite, and this one is memory://"),
    ):
        app.start(double(1), connection=sqlite3.connect(":memory:"))


def test_no_library_is_imported_that_the_connection_is_not_of(tmp_path: Path) -> None:
    script = f"""
import sqlite3, sys
import redrive
from redrive import action

@action
async def hello() -> str:
    return "hello"

with redrive.open_sync("sqlite:///{tmp_path}/app.db") as app:
    connection = sqlite3.connect("{tmp_path}/app.db")
    handle = app.start(hello(), connection=connection)
    connection.commit()
    print(handle.result(20))
print(*sorted({{"sqlalchemy", "django", "psycopg", "asyncpg", "aiosqlite"}} & set(sys.modules)))
"""
    command = [sys.executable, "-c", script]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603 - our own script
    assert (finished.stdout, finished.stderr) == ("hello\n\n", "")

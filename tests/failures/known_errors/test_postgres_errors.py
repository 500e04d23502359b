"""Errors of a real PostgreSQL, through psycopg, psycopg2, asyncpg, and SQLAlchemy over them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import psycopg
import psycopg2
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from tests.failures.asking import error_of, verdict_of
from tests.postgres_server import GUARDED_USER, PostgresServer, shared_server

END_YOURSELF = "SELECT pg_terminate_backend(pg_backend_pid())"
SLOW = "SET statement_timeout = '10ms'; SELECT pg_sleep(5)"

Run = Callable[[str, str], object]


def by_psycopg(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements.split("; "):
            connection.execute(statement.encode())


def by_psycopg2(url: str, statements: str) -> None:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        for statement in statements.split("; "):
            cursor.execute(statement)


def by_asyncpg(url: str, statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements.split("; "):
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


def by_sqlalchemy(url: str, statements: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        for statement in statements.split("; "):
            connection.execute(sqlalchemy.text(statement))


def by_sqlalchemy_asyncio(url: str, statements: str) -> None:
    async def run() -> None:
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"), poolclass=sqlalchemy.NullPool)
        async with engine.connect() as connection:
            for statement in statements.split("; "):
                await connection.execute(sqlalchemy.text(statement))

    asyncio.run(run())


DRIVERS = [by_psycopg, by_psycopg2, by_asyncpg, by_sqlalchemy, by_sqlalchemy_asyncio]
every_driver = pytest.mark.parametrize("run", DRIVERS, ids=lambda run: run.__name__)


@pytest.fixture(scope="module")
def server() -> PostgresServer:
    return shared_server()


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> str:
    url = server.fresh_database()
    by_psycopg(url, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0)")
    return url


@pytest.mark.promise("L2")
@every_driver
def test_a_statement_that_exceeds_its_timeout(run: Run, database: str) -> None:
    verdict = verdict_of(error_of(lambda: run(database, SLOW)))
    assert (verdict.category, verdict.reason[:6]) == ("transient", "57014:")


@pytest.mark.promise("L2")
@every_driver
def test_a_backend_that_is_terminated(run: Run, database: str) -> None:
    assert verdict_of(error_of(lambda: run(database, END_YOURSELF))).category == "transient"


@pytest.mark.promise("L2")
@every_driver
def test_a_server_that_takes_no_writes(run: Run, database: str) -> None:
    """As a standby does: a client that is still connected to the old primary gets this during a failover."""
    statements = "SET default_transaction_read_only = on; COMMIT; UPDATE t SET n = 1"
    verdict = verdict_of(error_of(lambda: run(database, statements)))
    assert (verdict.category, verdict.reason[:6]) == ("transient", "25006:")


@pytest.mark.promise("L2")
@every_driver
def test_a_lock_that_another_transaction_holds(run: Run, database: str) -> None:
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE t")
        verdict = verdict_of(error_of(lambda: run(database, "SET lock_timeout = '10ms'; UPDATE t SET n = 1")))
    assert (verdict.category, verdict.reason[:6]) == ("transient", "55P03:")


@pytest.mark.promise("P2")
@every_driver
@pytest.mark.parametrize(
    "statements", ["SELECT * FROM missing", "INSERT INTO t VALUES (1, 1)", "SELECT 1/0", "INSERT INTO t VALUES (3)"]
)
def test_statements_that_cannot_succeed(run: Run, statements: str, database: str) -> None:
    assert verdict_of(error_of(lambda: run(database, statements))).category == "permanent"


@pytest.mark.promise("P2")
@every_driver
def test_a_login_that_is_refused(run: Run, server: PostgresServer) -> None:
    url = server.url(user=GUARDED_USER, password="wrong")
    assert verdict_of(error_of(lambda: run(url, "SELECT 1"))).category == "permanent"


@pytest.mark.promise("P2")
@every_driver
def test_a_database_that_does_not_exist(run: Run, server: PostgresServer) -> None:
    assert verdict_of(error_of(lambda: run(server.url("nowhere"), "SELECT 1"))).category == "permanent"


@pytest.mark.promise("L2")
def test_a_server_that_was_stopped_under_the_connection() -> None:
    """AdminShutdown, then CannotConnectNow or a refused port."""
    server = PostgresServer()
    try:
        connection = psycopg.connect(server.url(), autocommit=True)
        server.stop()
        for _ in range(2):
            assert verdict_of(error_of(lambda: connection.execute("SELECT 1"))).category == "transient"
        assert verdict_of(error_of(lambda: psycopg.connect(server.url()))).not_sent
    finally:
        server.remove()


@pytest.mark.promise("P1")
@pytest.mark.parametrize("isolation", ["SERIALIZABLE", "REPEATABLE READ"])
def test_a_serialization_failure(isolation: str, database: str) -> None:
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        for connection in (first, second):
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
            connection.execute("SELECT sum(n) FROM t")
        first.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        first.commit()
        verdict = verdict_of(error_of(lambda: second.execute("UPDATE t SET n = n + 1 WHERE id = 1")))
        second.rollback()
    assert (verdict.category, verdict.reason[:6]) == ("transient", "40001:")


@pytest.mark.promise("P1")
def test_a_deadlock_under_sqlalchemy(server: PostgresServer, database: str) -> None:
    """The server ends one of the two transactions; each driver's error is under SQLAlchemy's."""

    async def update(connection: AsyncConnection, number: int) -> None:
        await connection.execute(sqlalchemy.text("UPDATE t SET n = n + 1 WHERE id = :id"), {"id": number})

    async def clash() -> tuple[BaseException | None, ...]:
        engine = create_async_engine(database.replace("postgresql:", "postgresql+asyncpg:"))
        async with engine.connect() as first, engine.connect() as second:
            for connection in (first, second):
                await connection.execute(sqlalchemy.text("SET deadlock_timeout = '10ms'"))
            await update(first, 1)
            await update(second, 2)
            outcomes = await asyncio.gather(update(first, 2), update(second, 1), return_exceptions=True)
        await engine.dispose()
        return outcomes

    (error,) = [one for one in asyncio.run(clash()) if one is not None]
    verdict = verdict_of(error)
    assert (verdict.category, verdict.reason[:6]) == ("transient", "40P01:")


@pytest.mark.promise("L2")
def test_asyncpgs_own_timeout(database: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(database, command_timeout=0.05)
        try:
            await connection.execute("SELECT pg_sleep(5)")
        finally:
            await connection.close()

    assert verdict_of(error_of(lambda: asyncio.run(run()))).category == "transient"


@pytest.mark.promise("L2")
def test_a_pool_without_a_free_connection(database: str) -> None:
    with psycopg_pool.ConnectionPool(database, min_size=1, max_size=1) as pool, pool.connection():
        verdict = verdict_of(error_of(lambda: pool.getconn(timeout=0.05)))
    assert (verdict.category, verdict.not_sent) == ("transient", True)
    assert verdict_of(error_of(lambda: pool.getconn())).category == "permanent"


@pytest.mark.promise("P1")
@pytest.mark.parametrize("ask", ["asyncpg", "psycopg"])
def test_a_schema_that_changed_under_a_prepared_statement(ask: str, database: str) -> None:
    query, change = "SELECT * FROM changing", "ALTER TABLE changing ALTER a TYPE bigint"
    by_psycopg(database, "DROP TABLE IF EXISTS changing; CREATE TABLE changing (a int)")

    async def change_under(query_it: Callable[[], Awaitable[Any]]) -> None:
        await query_it()
        by_psycopg(database, change)
        await query_it()

    async def run() -> None:
        if ask == "asyncpg":
            connection = await asyncpg.connect(database)
            try:
                statement = await connection.prepare(query)
                await change_under(statement.fetch)
            finally:
                await connection.close()
        else:
            async with await psycopg.AsyncConnection.connect(database, autocommit=True) as other:
                await change_under(lambda: other.execute(query, prepare=True))

    verdict = verdict_of(error_of(lambda: asyncio.run(run())))
    assert (verdict.category, verdict.not_sent) == ("transient", True)


@pytest.mark.parametrize("kind", [asyncpg.TargetServerAttributeNotMatched, asyncpg.OutdatedSchemaCacheError])
def test_errors_that_a_test_cannot_bring_about(kind: type[Exception]) -> None:
    """Built by hand: they take a failover, and a type that changes between two queries."""
    assert verdict_of(kind("x")).category == "transient"

"""Start a flow in a transaction of SQLAlchemy: `app.start(..., connection=session)`.

A Session or a Connection, also a scoped or an asynchronous one; with any driver of PostgreSQL or SQLite.
"""

import sys
from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session, scoped_session

from redrive.stores.caller_transaction import PARAMETER, CallerTransaction, Database, Fetch, Parameters, Rows

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["transaction_of"]

_DATABASES: dict[str, Database] = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def transaction_of(connection: Any) -> CallerTransaction | Awaitable[CallerTransaction]:
    if isinstance(connection, Session | scoped_session):
        # SQLAlchemy begins the transaction, if it has not yet.
        connection = connection.connection()
    if isinstance(connection, Connection):
        return _transaction(connection, _fetch(connection))
    # Whoever has an asynchronous connection has loaded this part of SQLAlchemy.
    in_loop: Any = sys.modules.get("sqlalchemy.ext.asyncio")
    if in_loop and isinstance(connection, in_loop.AsyncSession | in_loop.async_scoped_session):
        return _transaction_in_loop(connection, is_session=True)
    if in_loop and isinstance(connection, in_loop.AsyncConnection):
        return _transaction_in_loop(connection, is_session=False)
    raise TypeError(
        f"connection: a flow cannot be started on a {type(connection).__qualname__}; "
        "pass a Session, an AsyncSession, a Connection or an AsyncConnection"
    )


async def _transaction_in_loop(connection: Any, is_session: bool) -> CallerTransaction:
    opened: AsyncConnection = await connection.connection() if is_session else connection

    async def fetch(statement: str, parameters: Parameters) -> Rows:
        return await opened.run_sync(_execute, statement, parameters)

    return await opened.run_sync(_transaction, fetch, True)


def _transaction(connection: Connection, fetch: Fetch, needs_loop: bool = False) -> CallerTransaction:
    database = _DATABASES.get(connection.dialect.name)
    if database is None:
        raise TypeError(
            f"connection: a flow cannot be started in a database of {connection.dialect.name}; "
            "start it without connection="
        )
    return CallerTransaction(
        database=database,
        is_open=not _commits_at_once(connection, database),
        how_to_open="`with engine.begin() as connection:`, without isolation_level AUTOCOMMIT",
        fetch=fetch,
        needs_loop=needs_loop,
    )


def _commits_at_once(connection: Connection, database: Database) -> bool:
    """Whether the driver is in autocommit mode, where what SQLAlchemy calls a transaction is none."""
    if database == "SQLite":
        driver: Any = connection.connection.driver_connection
        return driver.isolation_level is None and not driver.in_transaction
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _fetch(connection: Connection) -> Fetch:
    def fetch(statement: str, parameters: Parameters) -> Rows:
        return _execute(connection, statement, parameters)

    return fetch


def _execute(connection: Connection, statement: str, parameters: Parameters) -> Rows:
    named = {f"p{number}": value for number, value in enumerate(parameters)}
    result = connection.execute(text(_with_names(statement)), named)
    return [tuple(row) for row in result.all()] if result.returns_rows else []


@lru_cache
def _with_names(statement: str) -> str:
    """Return the statement with :p0, :p1, ... as its parameters, and colons of its own escaped."""
    first, *others = statement.replace(":", "\\:").split(PARAMETER)
    return first + "".join(f":p{number}{one}" for number, one in enumerate(others))

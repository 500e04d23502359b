"""Start a flow in a transaction of psycopg: `app.start(..., connection=connection)`."""

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from redrive.stores.caller_transaction import CallerTransaction, Fetch, Parameters, Rows, with_percents

__all__ = ["transaction_of"]


def transaction_of(connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> CallerTransaction:
    is_async = isinstance(connection, psycopg.AsyncConnection)
    return CallerTransaction(
        database="PostgreSQL",
        # Without autocommit, the first statement opens one.
        is_open=not connection.autocommit or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE,
        how_to_open=f"`{'async ' if is_async else ''}with connection.transaction():`",
        fetch=_fetch_in_loop(connection) if isinstance(connection, psycopg.AsyncConnection) else _fetch(connection),
        needs_loop=is_async,
    )


def _text(statement: str) -> Any:
    """Return a text that psycopg's types accept, which want a literal: it is made of our own words and quoted names."""
    return with_percents(statement)


# Rows and text come as redrive needs them, whatever the connection's own row factory is.


def _fetch(connection: "psycopg.Connection[Any]") -> Fetch:
    def fetch(statement: str, parameters: Parameters) -> Rows:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(_text(statement), parameters)
            return cursor.fetchall()

    return fetch


def _fetch_in_loop(connection: "psycopg.AsyncConnection[Any]") -> Fetch:
    async def fetch(statement: str, parameters: Parameters) -> Rows:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_text(statement), parameters)
            return await cursor.fetchall()

    return fetch

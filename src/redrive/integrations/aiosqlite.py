"""Start a flow in a transaction of aiosqlite: `await app.start(..., connection=connection)`."""

from typing import Any

from redrive.stores.caller_transaction import CallerTransaction, Parameters, Rows, with_question_marks

__all__ = ["transaction_of"]


def transaction_of(connection: Any) -> CallerTransaction:
    """connection: an `aiosqlite.Connection`."""

    async def fetch(statement: str, parameters: Parameters) -> Rows:
        async with connection.execute(with_question_marks(statement), parameters) as cursor:
            cursor.row_factory = None
            rows: Rows = await cursor.fetchall()
            return rows

    return CallerTransaction(
        database="SQLite",
        is_open=connection.in_transaction or connection.isolation_level is not None,
        how_to_open='`await connection.execute("BEGIN")` before it and `await connection.commit()` after it',
        fetch=fetch,
        needs_loop=True,
    )

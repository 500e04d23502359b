"""Start a flow in a transaction of asyncpg: `await app.start(..., connection=connection)`."""

from typing import Any

from redrive.stores.caller_transaction import CallerTransaction, Parameters, Rows, with_dollars

__all__ = ["transaction_of"]


def transaction_of(connection: Any) -> CallerTransaction:
    """connection: an `asyncpg.Connection`, also one of a pool."""

    async def fetch(statement: str, parameters: Parameters) -> Rows:
        rows: Rows = [tuple(row) for row in await connection.fetch(with_dollars(statement), *parameters)]
        return rows

    return CallerTransaction(
        database="PostgreSQL",
        is_open=connection.is_in_transaction(),
        how_to_open="`async with connection.transaction():`",
        fetch=fetch,
        needs_loop=True,
    )

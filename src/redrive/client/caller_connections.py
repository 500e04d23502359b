"""Makes a transaction of the caller's connection, whichever library it is of."""

import inspect
from collections.abc import Awaitable
from importlib import import_module
from typing import Any

from redrive.errors import NoTransactionError
from redrive.stores.caller_transaction import CallerTransaction

# By the package that defines the connection's class, which is therefore loaded: no other library is imported.
# Each with what a connection has, and a cursor or a pool has not. That of SQLAlchemy checks the class itself.
_INTEGRATIONS = {
    "aiosqlite": "in_transaction",
    "asyncpg": "is_in_transaction",
    "django": "in_atomic_block",
    "psycopg": "autocommit",
    "sqlalchemy": "__class__",
    "sqlite3": "in_transaction",
}
_ACCEPTED = (
    "a Session or a Connection of SQLAlchemy (or an asynchronous one), Django's connection, or a connection of "
    "psycopg, asyncpg, sqlite3 or aiosqlite"
)


async def transaction_of(connection: Any) -> CallerTransaction:
    """Return the transaction of a connection; TypeError where the library is not supported."""
    found = found_transaction(connection)
    return await found if inspect.isawaitable(found) else found


def found_transaction(connection: Any) -> CallerTransaction | Awaitable[CallerTransaction]:
    """Return the transaction, or an awaitable where only the connection's own event loop can tell."""
    if isinstance(connection, CallerTransaction):
        return connection
    for kind in type(connection).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in _INTEGRATIONS and hasattr(connection, _INTEGRATIONS[library]):
            integration = import_module(f"redrive.integrations.{library}")
            found: CallerTransaction | Awaitable[CallerTransaction] = integration.transaction_of(connection)
            return found
    raise TypeError(f"connection: a flow cannot be started on a {type(connection).__qualname__}; pass {_ACCEPTED}")


def refuse_unless_open(transaction: CallerTransaction) -> None:
    """Raise NoTransactionError where each statement would be committed by itself."""
    if not transaction.is_open:
        raise NoTransactionError(
            "connection: it has no transaction open, so a rollback would not remove the flow; "
            f"write {transaction.how_to_open}, and start the flow in it"
        )

"""Start a flow in a transaction of Django: `app.start(..., connection=connection)`."""

from typing import Any

from redrive.stores.caller_transaction import CallerTransaction, Database, Parameters, Rows, with_percents

_DATABASES: dict[str, Database] = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def transaction_of(connection: Any) -> CallerTransaction:
    """connection: `django.db.connection`, or one of `django.db.connections`."""
    database = _DATABASES.get(connection.vendor)
    if database is None:
        raise TypeError(
            f"connection: a flow cannot be started in a database of {connection.vendor}; start it without connection="
        )

    def fetch(statement: str, parameters: Parameters) -> Rows:
        with connection.cursor() as cursor:
            cursor.execute(with_percents(statement), parameters)
            # Django has the columns of the answer; a statement without one has none.
            rows: Rows = cursor.fetchall() if cursor.description else []
            return rows

    return CallerTransaction(
        database=database,
        is_open=connection.in_atomic_block or not connection.get_autocommit(),
        how_to_open="`with transaction.atomic():`",
        fetch=fetch,
    )

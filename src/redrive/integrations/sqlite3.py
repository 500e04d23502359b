"""Start a flow in a transaction of sqlite3: `app.start(..., connection=connection)`."""

import sqlite3

from redrive.stores.caller_transaction import CallerTransaction, Parameters, Rows, with_question_marks

__all__ = ["opens_transactions", "transaction_of"]


def transaction_of(connection: sqlite3.Connection) -> CallerTransaction:
    def fetch(statement: str, parameters: Parameters) -> Rows:
        cursor = connection.cursor()
        cursor.row_factory = None
        try:
            return cursor.execute(with_question_marks(statement), parameters).fetchall()
        finally:
            cursor.close()

    return CallerTransaction(
        database="SQLite",
        is_open=connection.in_transaction or opens_transactions(connection),
        how_to_open='`connection.execute("BEGIN")` before it and `connection.commit()` after it',
        fetch=fetch,
    )


def opens_transactions(connection: sqlite3.Connection) -> bool:
    """Whether the first statement that writes opens a transaction, as sqlite3 does by default."""
    # `autocommit` is new in Python 3.12. False there means that a transaction is always open.
    autocommit = getattr(connection, "autocommit", -1)
    return autocommit is False or (autocommit is not True and connection.isolation_level is not None)

"""Migrates the schema. Of several processes that open a file, one migrates and the others wait for it."""

import sqlite3

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnusableError
from redrive.stores.migrations import PRE_RELEASE_COLUMN, Migration, load_migrations, pending
from redrive.stores.refusals import pre_release_layout

_CREATE_VERSIONS = """
CREATE TABLE IF NOT EXISTS redrive_migrations (version INTEGER PRIMARY KEY, name TEXT, applied_at REAL)
"""
_HAS_VERSIONS = "SELECT 1 FROM sqlite_schema WHERE name = 'redrive_migrations'"
_VERSION = "SELECT coalesce(max(version), 0) FROM redrive_migrations"
_IS_PRE_RELEASE = "SELECT 1 FROM pragma_table_info('flows') WHERE name = ?"


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Apply the migrations that the schema lacks."""
    migrations = load_migrations("redrive.stores.sqlite")
    if not pending(migrations, _version(connection, where), where):
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for migration in pending(migrations, _version(connection, where), where):
            _apply(connection, migration, where)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_newer_schema(connection: sqlite3.Connection, where: str) -> None:
    """Raise StoreTooNewError when a newer redrive has migrated the schema since it was opened."""
    pending(load_migrations("redrive.stores.sqlite"), _version(connection, where), where)


def _version(connection: sqlite3.Connection, where: str) -> int:
    if connection.execute(_HAS_VERSIONS).fetchone():
        (version,) = connection.execute(_VERSION).fetchone()
        return int(version)
    if connection.execute(_IS_PRE_RELEASE, (PRE_RELEASE_COLUMN,)).fetchone():
        raise pre_release_layout(where)
    return 0


def _apply(connection: sqlite3.Connection, migration: Migration, where: str) -> None:
    connection.execute(_CREATE_VERSIONS)
    # Not executescript, which commits first and so gives up the lock.
    statement = ""
    try:
        for line in migration.sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""
    except sqlite3.OperationalError as error:
        if "already exists" not in str(error):
            raise
        raise StoreUnusableError(f"{where}: another program uses this file ({error}); use another file") from error
    connection.execute(
        "INSERT INTO redrive_migrations VALUES (?, ?, ?)", (migration.version, migration.name, SYSTEM_CLOCK.wall())
    )

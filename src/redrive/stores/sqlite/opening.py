"""Opening the file: settings of a connection, and a schema that is up to date."""

import os
import sqlite3

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnusableError
from redrive.stores.migrations import Migration, migrations_of, still_to_apply
from redrive.stores.sqlite.faults import is_busy

# Pages in the write-ahead log before they are copied into the database: fewer copies of those that change often.
LOG_PAGES = 2_000
# How large the log may stay once it has grown, in bytes.
_LOG_KEPT = 64 * 2**20
_AGAIN_AFTER = 0.005


def connect(path: str, busy_timeout: float, where: str) -> sqlite3.Connection:
    """A connection to the file, which is created when there is none."""
    folder = os.path.dirname(path) or "."
    if path in ("", ":memory:"):
        raise StoreUnusableError(f"{where}: not a file; for a store in memory use memory://")
    if not os.path.isdir(folder):
        raise StoreUnusableError(f"{where}: there is no folder {folder}; create it")
    if os.path.isdir(path):
        raise StoreUnusableError(f"{where}: that is a folder; name a file in it")
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, cached_statements=256)
    try:
        _use_write_ahead_log(connection, busy_timeout, where)
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_KEPT}")
    except BaseException:
        connection.close()
        raise
    return connection


class OpenedFile:
    """The file as it was opened. SQLite does not notice when it is deleted, and goes on with what nobody can find."""

    def __init__(self, path: str, where: str) -> None:
        self._path = os.path.abspath(path)
        self._where = where
        opened = os.stat(self._path)
        self._opened = (opened.st_ino, opened.st_dev)

    def check(self) -> None:
        """StoreUnusableError when the path no longer leads to it."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            found = None
        except OSError:
            # Whatever that is, it is the database's to tell.
            return
        if found is None or (found.st_ino, found.st_dev) != self._opened:
            raise StoreUnusableError(
                f"{self._where}: the file was deleted, moved or replaced while it was in use;"
                " put it back and open the store again"
            )


def _use_write_ahead_log(connection: sqlite3.Connection, busy_timeout: float, where: str) -> None:
    end = SYSTEM_CLOCK.monotonic() + busy_timeout
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # While others open a new file too, SQLite does not wait by itself: it fears a deadlock.
            if not is_busy(error) or SYSTEM_CLOCK.monotonic() >= end:
                raise
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + _AGAIN_AFTER)
            continue
        if mode != "wal":
            raise StoreUnusableError(f"{where}: no write-ahead log can be kept there; use a file on a local disk")
        return


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Bring the schema up to date. Whoever comes first does it; others wait for that."""
    migrations = migrations_of("redrive.stores.sqlite")
    if not still_to_apply(migrations, _version(connection), where):
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for migration in still_to_apply(migrations, _version(connection), where):
            _apply(connection, migration, where)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_newer(connection: sqlite3.Connection, where: str) -> None:
    """StoreUnusableError when a newer redrive has brought the schema up to date since it was opened."""
    still_to_apply(migrations_of("redrive.stores.sqlite"), _version(connection), where)


def _version(connection: sqlite3.Connection) -> int:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'redrive_schema'").fetchone():
        return 0
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM redrive_schema").fetchone()
    return int(version)


def _apply(connection: sqlite3.Connection, migration: Migration, where: str) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS redrive_schema (version INTEGER PRIMARY KEY, name TEXT, applied_at REAL)"
    )
    # Not executescript: it would commit first, and let the lock go.
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
        raise StoreUnusableError(f"{where}: the file is used by something else ({error}); use another file") from error
    connection.execute(
        "INSERT INTO redrive_schema VALUES (?, ?, ?)", (migration.version, migration.name, SYSTEM_CLOCK.wall())
    )

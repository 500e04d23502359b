"""Opens connections to the database file, and sizes its log."""

import os
import sqlite3

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnusableError
from redrive.stores.sqlite.faults import is_busy
from redrive.stores.sqlite.file_identity import create_private
from redrive.stores.sqlite.worker_locks import WorkerLocks

WAL_PAGES = 2_000
"""How many pages the write-ahead log holds before a checkpoint; a larger log copies busy pages less often."""
PAGE = 4096
# A transaction's pages spill into the log once the page cache is full; about this many stay in the cache.
_CACHED_PAGES = 600
_MAX_WAL_BYTES = 64 * 2**20
_RETRY_AFTER = 0.005


def connect(path: str, busy_timeout: float, where: str, locks: WorkerLocks) -> sqlite3.Connection:
    """Open a connection to the file, creating the file when there is none."""
    folder = os.path.dirname(path) or "."
    if path in ("", ":memory:"):
        raise StoreUnusableError(f"{where}: not a file; use memory:// for a store in memory")
    if not os.path.isdir(folder):
        raise StoreUnusableError(f"{where}: folder {folder} does not exist; create it")
    if os.path.isdir(path):
        raise StoreUnusableError(f"{where}: this is a folder; name a file in it")
    create_private(path, where, locks)
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, cached_statements=256)
    try:
        _use_write_ahead_log(connection, busy_timeout, where)
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection, busy_timeout: float, where: str) -> None:
    end = SYSTEM_CLOCK.monotonic() + busy_timeout
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # SQLite does not wait by itself here while other processes open the same new file.
            if not is_busy(error) or SYSTEM_CLOCK.monotonic() >= end:
                raise
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + _RETRY_AFTER)
            continue
        if mode != "wal":
            raise StoreUnusableError(
                f"{where}: this file system supports no write-ahead log; use a file on a local disk"
            )
        return


def preallocate_wal(connection: sqlite3.Connection, path: str) -> None:
    """Grow the log to its full size: a commit that overwrites the file is faster than one that extends it.

    SQLite restarts the log after each checkpoint, so the file reaches its full size sooner or later. A busy worker
    grows it at once, by writing as much and rolling it back.
    """
    if os.path.getsize(f"{path}-wal") >= WAL_PAGES * PAGE:
        return
    connection.execute("SAVEPOINT preallocation")
    connection.execute(
        "INSERT INTO heartbeats (flow_id, item, at, details) VALUES ('', 0, 0, zeroblob(?))",
        ((WAL_PAGES + _CACHED_PAGES) * PAGE,),
    )
    connection.execute("ROLLBACK TO preallocation")
    connection.execute("RELEASE preallocation")

"""Grows the write-ahead log ahead of time: a commit that overwrites the file is faster than one that extends it.

SQLite restarts the log after each checkpoint, so the file reaches its full size sooner or later. A busy worker grows it
at once, by writing as much and rolling it back.
"""

import os
import sqlite3

from redrive.stores.sqlite.connection import WAL_PAGES

PAGE = 4096
# A transaction's pages spill into the log once the page cache is full; about this many stay in the cache.
_CACHED_PAGES = 600


def preallocate_wal(connection: sqlite3.Connection, path: str) -> None:
    """Grow the log to its full size, in a transaction that changes nothing."""
    if os.path.getsize(f"{path}-wal") >= WAL_PAGES * PAGE:
        return
    connection.execute("SAVEPOINT preallocation")
    connection.execute(
        "INSERT INTO heartbeats (flow_id, item, at, details) VALUES ('', 0, 0, zeroblob(?))",
        ((WAL_PAGES + _CACHED_PAGES) * PAGE,),
    )
    connection.execute("ROLLBACK TO preallocation")
    connection.execute("RELEASE preallocation")

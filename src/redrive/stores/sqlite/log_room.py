"""Room in the write-ahead log: a commit that overwrites the file is on disk sooner than one that makes it longer.

SQLite begins the log anew whenever it has been copied into the database, so in time the file is as long as it gets. A
worker that commits much makes it so at once: it writes as much, and takes it back.
"""

import os
import sqlite3

from redrive.stores.sqlite.opening import LOG_PAGES

PAGE = 4096
# Pages of a transaction go into the log once memory holds too many of them; so many stay in memory.
_HELD_BACK = 600


def make_room(connection: sqlite3.Connection, path: str) -> None:
    """In a transaction of its own, which changes nothing."""
    if os.path.getsize(f"{path}-wal") >= LOG_PAGES * PAGE:
        return
    connection.execute("SAVEPOINT room")
    connection.execute(
        "INSERT INTO heartbeats (flow_id, item, at, details) VALUES ('', 0, 0, zeroblob(?))",
        ((LOG_PAGES + _HELD_BACK) * PAGE,),
    )
    connection.execute("ROLLBACK TO room")
    connection.execute("RELEASE room")

"""Go on from the store's own time after the machine's clock was set back, so that nothing waits for longer."""

import sqlite3

from redrive.determinism.clock import STEADY_TIME, SYSTEM_CLOCK
from redrive.stores.sqlite.worker_locks import WorkerLocks

MOST_AHEAD = 25 * 3600.0
"""Seconds: a time that is further ahead is that of a clock that was wrong, and is left to it."""

_EXPIRIES = "SELECT epoch, expires_at, expires_at_monotonic FROM workers"
_LATEST = "SELECT at FROM latest_time"
_NOTE = "INSERT INTO latest_time (id, at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at"


def keep_up(connection: sqlite3.Connection, locks: WorkerLocks) -> None:
    """Use the time of the workers that have the file open, or the latest that one of them noted."""
    for epoch, expires_at, expires_at_monotonic in connection.execute(_EXPIRIES).fetchall():
        # Without its lock, the row may be from another machine or from before a reboot.
        if locks.is_running(epoch):
            STEADY_TIME.keep_up_with(expires_at - expires_at_monotonic)
    latest = connection.execute(_LATEST).fetchone()
    if latest is not None and latest[0] - SYSTEM_CLOCK.wall() <= MOST_AHEAD:
        STEADY_TIME.keep_up_with(latest[0] - SYSTEM_CLOCK.monotonic())


def note_time(connection: sqlite3.Connection) -> None:
    """Keep the time for whoever opens the file when no worker is left."""
    connection.execute(_NOTE, (SYSTEM_CLOCK.wall(),))

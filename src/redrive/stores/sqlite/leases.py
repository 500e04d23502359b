"""Leases: rows of `workers`, judged by a clock of this machine that nobody sets."""

import sqlite3
from collections.abc import Sequence
from io import FileIO

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError
from redrive.stores.records import Lease, NewWorker, Reaped, WorkerRecord
from redrive.stores.sqlite.worker_locks import WorkerLocks

_JOIN = "INSERT INTO workers (name, definitions, queues, joined_at, expires_at, lapses_at) VALUES (?, ?, ?, ?, ?, ?)"
_RENEW = "UPDATE workers SET expires_at = ?, lapses_at = ? WHERE epoch = ? AND lapses_at > ?"
_KNOWS = "UPDATE workers SET definitions = ?1 WHERE epoch = ?2 AND definitions <> ?1"
_VALID = "SELECT 1 FROM workers WHERE epoch = ? AND lapses_at > ?"
_LEAVE = "DELETE FROM workers WHERE epoch = ?"
_HAND_ON = "UPDATE flows SET status = 'ready', owner = NULL, lost = lost + ? WHERE owner = ?"
_WORKERS = """
SELECT
    epoch, name, definitions, queues, joined_at, expires_at, lapses_at,
    (SELECT count(*) FROM flows WHERE owner = epoch)
FROM workers ORDER BY epoch
"""


def join(
    connection: sqlite3.Connection, locks: WorkerLocks, worker: NewWorker, ttl: float, taken: list[FileIO]
) -> Lease:
    """`taken` gets the worker's lock, to be dropped if the transaction fails."""
    now, lapses_at = SYSTEM_CLOCK.wall(), SYSTEM_CLOCK.monotonic() + ttl
    definitions, queues = (msgspec.json.encode(one).decode() for one in (worker.definitions, worker.queues))
    epoch = connection.execute(_JOIN, (worker.name, definitions, queues, now, now + ttl, lapses_at)).lastrowid
    assert epoch is not None  # noqa: S101 - narrows for mypy: a row was inserted
    # Before others can see the row: a worker whose lock is free counts as gone.
    if lock := locks.hold(epoch):
        taken.append(lock)
    return Lease(epoch, worker.name)


def renew(connection: sqlite3.Connection, lease: Lease, ttl: float) -> bool:
    now = SYSTEM_CLOCK.monotonic()
    return connection.execute(_RENEW, (SYSTEM_CLOCK.wall() + ttl, now + ttl, lease.epoch, now)).rowcount == 1


def check(connection: sqlite3.Connection, lease: Lease) -> None:
    if connection.execute(_VALID, (lease.epoch, SYSTEM_CLOCK.monotonic())).fetchone() is None:
        raise lost(lease)


def note_definitions(connection: sqlite3.Connection, lease: Lease, definitions: Sequence[str]) -> None:
    """What the worker can carry out, where that has changed."""
    connection.execute(_KNOWS, (msgspec.json.encode(definitions).decode(), lease.epoch))


def lost(lease: Lease) -> LeaseLostError:
    return LeaseLostError(f"the lease of {lease.worker} (epoch {lease.epoch}) ran out or was taken away")


def leave(connection: sqlite3.Connection, locks: WorkerLocks, lease: Lease) -> int:
    """How many flows were handed on."""
    flows = _end(connection, locks, lease.epoch, lost=0)
    locks.tidy({epoch for (epoch,) in connection.execute("SELECT epoch FROM workers")})
    return flows


def reap(connection: sqlite3.Connection, locks: WorkerLocks) -> list[Reaped]:
    reaped, alive = [], set()
    for epoch, name, *times in connection.execute("SELECT epoch, name, expires_at, lapses_at FROM workers").fetchall():
        is_running = locks.is_running(epoch)
        if is_running is not False and _lasts(is_running, *times):
            alive.add(epoch)
        else:
            reaped.append(Reaped(name, epoch, _end(connection, locks, epoch, lost=1)))
    locks.tidy(alive)
    return reaped


def _lasts(is_running: bool | None, expires_at: float, lapses_at: float | None) -> bool:
    """Where nothing says that its holder runs, it may be a row of another machine, or from before this one started."""
    if is_running and lapses_at is not None:
        return lapses_at > SYSTEM_CLOCK.monotonic()
    return expires_at > SYSTEM_CLOCK.wall()


def _end(connection: sqlite3.Connection, locks: WorkerLocks, epoch: int, lost: int) -> int:
    connection.execute(_LEAVE, (epoch,))
    locks.forget(epoch)
    return connection.execute(_HAND_ON, (lost, epoch)).rowcount


def list_workers(connection: sqlite3.Connection, locks: WorkerLocks) -> list[WorkerRecord]:
    """Not those whose process has ended, though nobody has reaped them yet."""
    return [
        WorkerRecord(
            epoch=epoch,
            name=name,
            definitions=msgspec.json.decode(definitions, type=tuple[str, ...]),
            queues=msgspec.json.decode(queues, type=tuple[str, ...] | None),
            joined_at=joined_at,
            expires_at=expires_at,
            alive=_lasts(is_running, expires_at, lapses_at),
            flows=flows,
        )
        for epoch, name, definitions, queues, joined_at, expires_at, lapses_at, flows in connection.execute(_WORKERS)
        if (is_running := locks.is_running(epoch)) is not False
    ]

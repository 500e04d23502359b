"""Leases: rows of `workers`, which expire by this machine's monotonic clock."""

import sqlite3
from collections.abc import Sequence
from io import FileIO

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.stores.leases import Lease, NewWorker, Reaped, WorkerRecord
from redrive.stores.refusals import lease_lost
from redrive.stores.sqlite.store_time import note_time
from redrive.stores.sqlite.worker_locks import WorkerLocks

_ACQUIRE = """
INSERT INTO workers (name, definitions, queues, joined_at, expires_at, expires_at_monotonic, version)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_EXTEND = "UPDATE workers SET expires_at = ?, expires_at_monotonic = ? WHERE epoch = ? AND expires_at_monotonic > ?"
_UPDATE_DEFINITIONS = "UPDATE workers SET definitions = ?1 WHERE epoch = ?2 AND definitions <> ?1"
_VALID = "SELECT 1 FROM workers WHERE epoch = ? AND expires_at_monotonic > ?"
_EXPIRIES = "SELECT epoch, name, expires_at, expires_at_monotonic FROM workers"
_END = "DELETE FROM workers WHERE epoch = ?"
_DROP_REPORT = "DELETE FROM worker_reports WHERE epoch = ?"
_ACCUSE = "UPDATE workers SET suspect = ?, blame = ? WHERE epoch = ?"
_ACCUSED = "SELECT suspect, blame FROM workers WHERE epoch = ?"
_RELEASE_FLOWS = "UPDATE flows SET status = 'ready', owner = NULL, lost_owners = lost_owners + ? WHERE owner = ?"
_BLAME = "UPDATE flows SET lost_owners = lost_owners + 1, blame = ? WHERE id = ? AND owner = ?"
_WORKERS = """
SELECT
    epoch, name, definitions, queues, joined_at, expires_at, expires_at_monotonic,
    (SELECT count(*) FROM flows WHERE owner = epoch), version
FROM workers ORDER BY epoch
"""


def acquire_lease(
    connection: sqlite3.Connection, locks: WorkerLocks, worker: NewWorker, ttl: float, taken: list[FileIO]
) -> Lease:
    """Insert the worker's row and lock its file; `taken` gets the lock, to be dropped if the transaction fails."""
    now, expires_at_monotonic = SYSTEM_CLOCK.wall(), SYSTEM_CLOCK.monotonic() + ttl
    definitions, queues = (msgspec.json.encode(one).decode() for one in (worker.definitions, worker.queues))
    row = (worker.name, definitions, queues, now, now + ttl, expires_at_monotonic, worker.version)
    note_time(connection)
    epoch = connection.execute(_ACQUIRE, row).lastrowid
    assert epoch is not None  # noqa: S101 - narrows for mypy: a row was inserted
    # Before others can see the row: a worker whose lock is free counts as dead.
    if lock := locks.hold(epoch):
        taken.append(lock)
    return Lease(epoch, worker.name, worker.version)


def extend_lease(connection: sqlite3.Connection, lease: Lease, ttl: float) -> bool:
    note_time(connection)
    now = SYSTEM_CLOCK.monotonic()
    return connection.execute(_EXTEND, (SYSTEM_CLOCK.wall() + ttl, now + ttl, lease.epoch, now)).rowcount == 1


def accuse(connection: sqlite3.Connection, lease: Lease, flow_id: str | None, blame: str) -> None:
    connection.execute(_ACCUSE, (flow_id, blame, lease.epoch))


def check_lease(connection: sqlite3.Connection, lease: Lease) -> None:
    """Raise LeaseLostError unless the lease is valid."""
    if connection.execute(_VALID, (lease.epoch, SYSTEM_CLOCK.monotonic())).fetchone() is None:
        raise lease_lost(lease)


def update_definitions(connection: sqlite3.Connection, lease: Lease, definitions: Sequence[str]) -> None:
    """Record the definitions that the worker runs, where they have changed."""
    connection.execute(_UPDATE_DEFINITIONS, (msgspec.json.encode(definitions).decode(), lease.epoch))


def release_lease(connection: sqlite3.Connection, locks: WorkerLocks, lease: Lease) -> int:
    """End the lease; return how many flows were released."""
    flows = _end(connection, locks, lease.epoch, lost=0)
    locks.remove_stale({epoch for (epoch,) in connection.execute("SELECT epoch FROM workers")})
    return flows


def reap_leases(connection: sqlite3.Connection, locks: WorkerLocks) -> list[Reaped]:
    reaped, alive = [], set()
    for epoch, name, *expiry in connection.execute(_EXPIRIES).fetchall():
        is_running = locks.is_running(epoch)
        if is_running is not False and _is_valid(is_running, *expiry):
            alive.add(epoch)
        else:
            suspect, blame = connection.execute(_ACCUSED, (epoch,)).fetchone()
            if suspect is not None:
                connection.execute(_BLAME, (blame, suspect, epoch))
            reaped.append(Reaped(name, epoch, _end(connection, locks, epoch, lost=suspect is None)))
    locks.remove_stale(alive)
    return reaped


def _is_valid(is_running: bool | None, expires_at: float, expires_at_monotonic: float) -> bool:
    """Without a lock, the row may be from another machine or from before a reboot: only the wall clock compares."""
    if is_running:
        return expires_at_monotonic > SYSTEM_CLOCK.monotonic()
    return expires_at > SYSTEM_CLOCK.wall()


def _end(connection: sqlite3.Connection, locks: WorkerLocks, epoch: int, lost: int) -> int:
    connection.execute(_END, (epoch,))
    connection.execute(_DROP_REPORT, (epoch,))
    locks.remove(epoch)
    return connection.execute(_RELEASE_FLOWS, (lost, epoch)).rowcount


def list_workers(connection: sqlite3.Connection, locks: WorkerLocks) -> list[WorkerRecord]:
    rows = connection.execute(_WORKERS)
    return [
        WorkerRecord(
            epoch=epoch,
            name=name,
            definitions=msgspec.json.decode(definitions, type=tuple[str, ...]),
            queues=msgspec.json.decode(queues, type=tuple[str, ...] | None),
            joined_at=joined_at,
            expires_at=expires_at,
            alive=_is_valid(is_running, expires_at, expires_at_monotonic),
            flows=flows,
            version=version,
        )
        for epoch, name, definitions, queues, joined_at, expires_at, expires_at_monotonic, flows, version in rows
        if (is_running := locks.is_running(epoch)) is not False
    ]

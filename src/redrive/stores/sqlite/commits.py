"""The commit of a worker's batch: the verb that every step costs."""

import sqlite3
from typing import Any

from msgspec.structs import astuple

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.stores.records import Batch, FlowChange, Lease, NewFlow
from redrive.stores.sqlite.leases import check, lost
from redrive.stores.sqlite.rows import DEAD_FIELDS, RETRY_FIELDS, columns, places

_NUMBER = "UPDATE workers SET batch = ? WHERE epoch = ? AND lapses_at > ?"
_NUMBERED = "SELECT batch FROM workers WHERE epoch = ?"
_HAS_EVENT = "SELECT EXISTS (SELECT 1 FROM events WHERE flow_id = ? AND seq = ?)"
_BORN = """
INSERT INTO flows (id, definition, input, queue, priority, status, created_at, start_at, wake_at, owner, claims)
SELECT ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, 1 WHERE NOT EXISTS (SELECT 1 FROM queue_limits WHERE name = ?)
"""
_EVENT = "INSERT INTO events (flow_id, seq, at, body) VALUES (?, ?, ?, ?)"
# Unread mail, beyond the `mail` that counts, makes it ready at once.
_FLOW = """
UPDATE flows SET
    status = iif(mail > ?, 'ready', ?),
    wake_at = iif(mail > ?, NULL, ?),
    owner = iif(?, owner, NULL),
    mail_read = ?,
    lost = ?,
    finished_at = iif(mail > ?, NULL, ?)
WHERE id = ? AND owner = ?
"""
_ANY_MAIL = 2**62
_RETRY = f"INSERT OR REPLACE INTO retry_queue ({columns(RETRY_FIELDS)}) VALUES ({places(RETRY_FIELDS)})"  # noqa: S608 - our own names
_RETRY_DONE = "DELETE FROM retry_queue WHERE flow_id = ? AND item = ?"
_HEARTBEAT = "INSERT OR REPLACE INTO heartbeats (flow_id, item, at, details) VALUES (?, ?, ?, ?)"
_HEARTBEAT_DONE = "DELETE FROM heartbeats WHERE flow_id = ? AND item = ?"
_DEAD = f"INSERT OR REPLACE INTO dead_letters ({columns(DEAD_FIELDS)}) VALUES ({places(DEAD_FIELDS)})"  # noqa: S608 - our own names
_READ = "DELETE FROM messages WHERE id = ?"
_ANY_UNREAD = "SELECT EXISTS (SELECT 1 FROM messages)"
_LEFT_UNREAD = "DELETE FROM messages WHERE flow_id = ?"
_NEVER_READS_AGAIN = ("completed", "cancelled")


def commit(connection: sqlite3.Connection, lease: Lease, batch: Batch) -> None:
    epoch, many = lease.epoch, connection.executemany
    if batch.has_only_events:
        # One page less to write than with the number.
        check(connection, lease)
        many(_EVENT, batch.events)
        return
    if connection.execute(_NUMBER, (batch.number, epoch, SYSTEM_CLOCK.monotonic())).rowcount != 1:
        raise lost(lease)
    if batch.born:
        _add_born(connection, batch.born, epoch)
    if batch.events:
        many(_EVENT, batch.events)
    if batch.flows:
        changed = many(_FLOW, [_values(change, epoch) for change in batch.flows]).rowcount
        if changed != len(batch.flows):
            raise StoreError(
                f"batch {batch.number} of {lease.worker} changes a flow that it does not own; nothing was written"
            )
        ended = [(change.flow_id,) for change in batch.flows if change.status in _NEVER_READS_AGAIN]
        if ended and connection.execute(_ANY_UNREAD).fetchone()[0]:
            many(_LEFT_UNREAD, ended)
    if batch.retries:
        many(_RETRY, map(astuple, batch.retries))
    if batch.heartbeats:
        many(_HEARTBEAT, batch.heartbeats)
    if batch.dead:
        many(_DEAD, map(astuple, batch.dead))
    if batch.retries_done:
        many(_RETRY_DONE, batch.retries_done)
        many(_HEARTBEAT_DONE, batch.retries_done)
    if batch.messages_read:
        many(_READ, [(message,) for message in batch.messages_read])


def committed(connection: sqlite3.Connection, lease: Lease, batch: Batch) -> bool:
    row = connection.execute(_NUMBERED, (lease.epoch,)).fetchone()
    if row is None:
        raise lost(lease)
    if batch.has_only_events:
        return bool(connection.execute(_HAS_EVENT, batch.events[0][:2]).fetchone()[0])
    return bool(row[0] >= batch.number)


def _add_born(connection: sqlite3.Connection, flows: list[NewFlow], epoch: int) -> None:
    rows = [
        (
            *(flow.id, flow.definition, flow.input, flow.queue, flow.priority, flow.created_at, flow.start_at),
            *(flow.start_at, epoch, flow.queue),
        )
        for flow in flows
    ]
    if connection.executemany(_BORN, rows).rowcount != len(rows):
        raise StoreError(f"queue {flows[0].queue} has a limit: its flows must be claimed; nothing was written")


def _values(change: FlowChange, epoch: int) -> tuple[Any, ...]:
    status, read = change.status, change.mail_read
    runs = status == "running"
    # Else it is not finished, or failed, and may be taken up again.
    mail = _ANY_MAIL if runs or status in _NEVER_READS_AGAIN else read
    return mail, status, mail, change.wake_at, runs, read, change.lost, mail, change.finished_at, change.flow_id, epoch

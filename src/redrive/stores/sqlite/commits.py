"""The commit of a worker's batch: the verb that every step pays for."""

import sqlite3
from typing import Any

from msgspec.structs import astuple

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.stores.leases import Lease
from redrive.stores.records import NEVER_READS_AGAIN, Batch, FlowChange, NewFlow
from redrive.stores.refusals import lease_lost, queue_has_limit
from redrive.stores.sqlite.leases import check_lease
from redrive.stores.sqlite.rows import DEAD_FIELDS, NEW_FLOW_FIELDS, RETRY_FIELDS, columns, placeholders
from redrive.stores.sqlite.writes import add_children, send

_NUMBER = "UPDATE workers SET last_batch = ? WHERE epoch = ? AND expires_at_monotonic > ?"
_LAST_BATCH = "SELECT last_batch FROM workers WHERE epoch = ?"
_HAS_EVENT = "SELECT EXISTS (SELECT 1 FROM events WHERE flow_id = ? AND seq = ?)"
_ADD_FLOW = f"""
INSERT INTO flows ({columns(NEW_FLOW_FIELDS)}, status, wake_at, owner, claims)
SELECT {placeholders(NEW_FLOW_FIELDS)}, 'running', ?, ?, 1 WHERE NOT EXISTS (SELECT 1 FROM queue_limits WHERE name = ?)
"""  # noqa: S608 - our own names
_ADD_EVENT = "INSERT INTO events (flow_id, seq, at, body) VALUES (?, ?, ?, ?)"
# A flow that was sent more messages than the first parameter says becomes ready instead.
_CHANGE_FLOW = """
UPDATE flows SET
    status = iif(messages_sent > ?, 'ready', ?),
    wake_at = iif(messages_sent > ?, NULL, ?),
    owner = iif(?, owner, NULL),
    messages_read = ?,
    lost_owners = ?,
    blame = iif(? IS NULL, blame, nullif(?, '')),
    version = iif(? IS NULL, version, nullif(?, '')),
    finished_at = iif(messages_sent > ?, NULL, ?),
    input = coalesce(?, input),
    run_from = coalesce(?, run_from)
WHERE id = ? AND owner = ?
"""
_ANY_NUMBER = 2**62
_END_RUN = """
INSERT INTO ended_runs (flow_id, run_from, run_to, ended_at, input)
SELECT id, run_from, ?, ?, input FROM flows WHERE id = ? AND owner = ?
"""
_PUT_RETRY = f"INSERT OR REPLACE INTO retry_queue ({columns(RETRY_FIELDS)}) VALUES ({placeholders(RETRY_FIELDS)})"  # noqa: S608 - our own names
_DROP_RETRY = "DELETE FROM retry_queue WHERE flow_id = ? AND item = ?"
_PUT_HEARTBEAT = "INSERT OR REPLACE INTO heartbeats (flow_id, item, at, details) VALUES (?, ?, ?, ?)"
_DROP_HEARTBEAT = "DELETE FROM heartbeats WHERE flow_id = ? AND item = ?"
_PUT_DEAD_LETTER = f"INSERT OR REPLACE INTO dead_letters ({columns(DEAD_FIELDS)}) VALUES ({placeholders(DEAD_FIELDS)})"  # noqa: S608 - our own names
_DROP_MESSAGE = "DELETE FROM messages WHERE id = ?"
_ANY_MESSAGES = "SELECT EXISTS (SELECT 1 FROM messages)"
_DROP_INBOX = "DELETE FROM messages WHERE flow_id = ?"


def commit(connection: sqlite3.Connection, lease: Lease, batch: Batch) -> None:
    epoch, many = lease.epoch, connection.executemany
    if batch.has_only_events:
        # Without the batch number there is one page less to write.
        check_lease(connection, lease)
        many(_ADD_EVENT, batch.events)
        return
    if connection.execute(_NUMBER, (batch.number, epoch, SYSTEM_CLOCK.monotonic())).rowcount != 1:
        raise lease_lost(lease)
    if batch.new_flows:
        _add_flows(connection, batch.new_flows, epoch)
    if batch.events:
        many(_ADD_EVENT, batch.events)
    if batch.flows:
        if ended_runs := [
            (change.run_from, change.wake_at, change.flow_id, epoch)
            for change in batch.flows
            if change.run_from is not None
        ]:
            many(_END_RUN, ended_runs)
        changed = many(_CHANGE_FLOW, [_change_values(change, epoch) for change in batch.flows]).rowcount
        if changed != len(batch.flows):
            raise StoreError(
                f"batch {batch.number} of {lease.worker} changes a flow that the worker does not own;"
                " nothing was written"
            )
        ended = [(change.flow_id,) for change in batch.flows if change.status in NEVER_READS_AGAIN]
        if ended and connection.execute(_ANY_MESSAGES).fetchone()[0]:
            many(_DROP_INBOX, ended)
    if batch.retries:
        many(_PUT_RETRY, map(astuple, batch.retries))
    if batch.heartbeats:
        many(_PUT_HEARTBEAT, batch.heartbeats)
    if batch.dead:
        many(_PUT_DEAD_LETTER, map(astuple, batch.dead))
    if batch.retries_done:
        many(_DROP_RETRY, batch.retries_done)
        many(_DROP_HEARTBEAT, batch.retries_done)
    if batch.messages_read:
        many(_DROP_MESSAGE, [(message,) for message in batch.messages_read])
    if batch.children:
        add_children(connection, batch.children)
    for sent in batch.sends:
        send(connection, sent.flow_id, sent.body, sent.at, sent.reopens)


def committed(connection: sqlite3.Connection, lease: Lease, batch: Batch) -> bool:
    row = connection.execute(_LAST_BATCH, (lease.epoch,)).fetchone()
    if row is None:
        raise lease_lost(lease)
    if batch.has_only_events:
        return bool(connection.execute(_HAS_EVENT, batch.events[0][:2]).fetchone()[0])
    return bool(row[0] >= batch.number)


def _add_flows(connection: sqlite3.Connection, flows: list[NewFlow], epoch: int) -> None:
    rows = [(*astuple(flow), flow.start_at, epoch, flow.queue) for flow in flows]
    if connection.executemany(_ADD_FLOW, rows).rowcount != len(rows):
        raise queue_has_limit(flows[0].queue)


def _change_values(change: FlowChange, epoch: int) -> tuple[Any, ...]:
    status, read = change.status, change.messages_read
    most = read if change.yields_to_unread else _ANY_NUMBER
    return (
        *(most, status, most, change.wake_at, status == "running", read, change.lost_owners),
        *(change.blame, change.blame, change.version, change.version, most, change.finished_at),
        *(change.input, change.run_from, change.flow_id, epoch),
    )

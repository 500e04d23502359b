"""What is written beside commits, claims and leases: new flows, mail, settled dead letters, limits, pruning."""

import sqlite3
from collections.abc import Sequence

from redrive.errors import StoreError
from redrive.stores.records import FINISHED, DeadState, FlowRecord, FlowStatus, NewFlow
from redrive.stores.sqlite.rows import FLOW_FIELDS, columns, flow_record

_ADD = """
INSERT INTO flows (id, definition, input, queue, priority, key, status, created_at, start_at, wake_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_OF_KEY = f"SELECT {columns(FLOW_FIELDS)} FROM flows WHERE key = ? AND definition = ?"  # noqa: S608 - our own names
_STATUS = "SELECT status FROM flows WHERE id = ?"
_MESSAGE = "INSERT INTO messages (flow_id, at, body) VALUES (?, ?, ?)"
_MAIL_FOR_OWNER = "UPDATE flows SET mail = mail + 1 WHERE id = ?"
_MAIL_THAT_WAKES = """
UPDATE flows SET
    mail = mail + 1, status = 'ready', wake_at = iif(status = 'ready', wake_at, ?), finished_at = NULL
WHERE id = ?
"""
_SETTLE = """
UPDATE dead_letters SET state = ?, "by" = ?, why = ?, settled_at = ? WHERE flow_id = ? AND state = 'dead'
"""
_SET_LIMIT = 'INSERT OR REPLACE INTO queue_limits (name, "limit") VALUES (?, ?)'
_NO_LIMIT = "DELETE FROM queue_limits WHERE name = ?"
_PRUNED = """
SELECT id FROM flows
WHERE finished_at < ? AND status IN ('completed', 'failed', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE flow_id = flows.id AND state = 'dead')
ORDER BY finished_at LIMIT ?
"""
_REMOVALS = [
    f"DELETE FROM {table} WHERE {column} = ?"  # noqa: S608 - our own names
    for table, column in (
        ("events", "flow_id"),
        ("messages", "flow_id"),
        ("retry_queue", "flow_id"),
        ("heartbeats", "flow_id"),
        ("dead_letters", "flow_id"),
        ("flows", "id"),
    )
]
MOST_PAGES_PRUNED = 1_000
"""Pages with which a transaction has enough to set free: meanwhile nobody can write, or renew a lease."""


def add_flows(connection: sqlite3.Connection, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    answers: list[FlowRecord | None] = []
    for flow in flows:
        if flow.key is not None:
            row = connection.execute(_OF_KEY, (flow.key, flow.definition)).fetchone()
            if row is not None:
                answers.append(flow_record(row))
                continue
        try:
            connection.execute(
                _ADD,
                (
                    flow.id,
                    flow.definition,
                    flow.input,
                    flow.queue,
                    flow.priority,
                    flow.key,
                    "waiting" if flow.start_at > flow.created_at else "ready",
                    flow.created_at,
                    flow.start_at,
                    flow.start_at,
                ),
            )
        except sqlite3.IntegrityError:
            raise StoreError(f"there is a flow {flow.id} already; nothing was added") from None
        answers.append(None)
    return answers


def send(connection: sqlite3.Connection, flow_id: str, body: str, now: float, reopens: bool) -> FlowStatus | None:
    row = connection.execute(_STATUS, (flow_id,)).fetchone()
    if row is None:
        return None
    status: FlowStatus = row[0]
    if status in FINISHED and not (reopens and status == "failed"):
        return status
    connection.execute(_MESSAGE, (flow_id, now, body))
    if status == "running":
        connection.execute(_MAIL_FOR_OWNER, (flow_id,))
    else:
        connection.execute(_MAIL_THAT_WAKES, (now, flow_id))
    return status


def settle_dead(
    connection: sqlite3.Connection,
    flow_ids: Sequence[str],
    state: DeadState,
    by: str,
    why: str,
    now: float,
    message: str | None,
) -> list[str]:
    settled = [one for one in flow_ids if connection.execute(_SETTLE, (state, by, why, now, one)).rowcount]
    if message is not None:
        for flow_id in settled:
            send(connection, flow_id, message, now, reopens=True)
    return settled


def set_queue_limit(connection: sqlite3.Connection, queue: str, limit: int | None) -> None:
    if limit is None:
        connection.execute(_NO_LIMIT, (queue,))
    else:
        connection.execute(_SET_LIMIT, (queue, limit))


def prune(connection: sqlite3.Connection, finished_before: float, limit: int) -> int:
    most_free, pruned = _free_pages(connection) + MOST_PAGES_PRUNED, 0
    for flow_id in connection.execute(_PRUNED, (finished_before, limit)).fetchall():
        for removal in _REMOVALS:
            connection.execute(removal, flow_id)
        pruned += 1
        if _free_pages(connection) >= most_free:
            break
    return pruned


def _free_pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages)

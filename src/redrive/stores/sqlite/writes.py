"""The other writes: new flows, messages, closed dead letters, settings and pauses of queues, pruning."""

import sqlite3
from collections.abc import Sequence

from redrive.stores.queues import QueuePause
from redrive.stores.records import FINISHED, DeadState, FlowRecord, FlowStatus, NewFlow
from redrive.stores.refusals import flow_exists
from redrive.stores.sqlite.rows import ADDED_FIELDS, FLOW_FIELDS, added_values, columns, flow_record, placeholders

_ADD = f"INSERT INTO flows ({columns(ADDED_FIELDS)}) VALUES ({placeholders(ADDED_FIELDS)})"  # noqa: S608 - our own names
_FIND_BY_KEY = f"SELECT {columns(FLOW_FIELDS)} FROM flows WHERE key = ? AND definition = ?"  # noqa: S608 - our own names
_KEY_IS_TAKEN = "SELECT 1 FROM flows WHERE key = ? AND definition = ?"
_FIND_BY_ID = f"SELECT {columns(FLOW_FIELDS)} FROM flows WHERE id = ?"  # noqa: S608 - our own names
_STATUS = "SELECT status FROM flows WHERE id = ?"
_MESSAGE = "INSERT INTO messages (flow_id, at, body) VALUES (?, ?, ?)"
_COUNT_MESSAGE = "UPDATE flows SET messages_sent = messages_sent + 1 WHERE id = ?"
_COUNT_MESSAGE_AND_WAKE = """
UPDATE flows SET
    messages_sent = messages_sent + 1, status = 'ready', wake_at = iif(status = 'ready', wake_at, ?), finished_at = NULL
WHERE id = ?
"""
_CLOSE_LETTER = """
UPDATE dead_letters SET state = ?, "by" = ?, why = ?, closed_at = ? WHERE flow_id = ? AND state = 'dead'
"""
_PAUSE = 'INSERT OR IGNORE INTO queue_pauses (name, at, "by", why) VALUES (?, ?, ?, ?)'
_RESUME = "DELETE FROM queue_pauses WHERE name = ?"
_PRUNABLE = """
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
        ("ended_runs", "flow_id"),
        ("flows", "id"),
    )
]
MAX_PAGES_PRUNED = 1_000
"""How many pages one transaction frees at most: meanwhile nobody else can write or extend a lease."""


def add_flows(connection: sqlite3.Connection, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    answers: list[FlowRecord | None] = []
    for flow in flows:
        if flow.key is not None:
            row = connection.execute(_FIND_BY_KEY, (flow.key, flow.definition)).fetchone()
            if row is not None:
                answers.append(flow_record(row))
                continue
        try:
            connection.execute(_ADD, added_values(flow))
        except sqlite3.IntegrityError:
            row = connection.execute(_FIND_BY_ID, (flow.id,)).fetchone()
            if row is None or not flow.was_added_as(flow_record(row)):
                raise flow_exists(flow.id) from None
            answers.append(flow_record(row))
            continue
        answers.append(None)
    return answers


def add_children(connection: sqlite3.Connection, children: Sequence[tuple[NewFlow, str]]) -> None:
    """Add child flows; the parent of one whose key is taken gets a message instead."""
    for flow, refusal in children:
        if flow.key is not None and connection.execute(_KEY_IS_TAKEN, (flow.key, flow.definition)).fetchone():
            send(connection, flow.parent or "", refusal, flow.created_at, reopens=False)
        else:
            connection.execute(_ADD, added_values(flow))


def send(connection: sqlite3.Connection, flow_id: str, body: str, now: float, reopens: bool) -> FlowStatus | None:
    row = connection.execute(_STATUS, (flow_id,)).fetchone()
    if row is None:
        return None
    status: FlowStatus = row[0]
    if status in FINISHED and not (reopens and status == "failed"):
        return status
    connection.execute(_MESSAGE, (flow_id, now, body))
    if status == "running":
        connection.execute(_COUNT_MESSAGE, (flow_id,))
    else:
        connection.execute(_COUNT_MESSAGE_AND_WAKE, (now, flow_id))
    return status


def close_dead_letters(
    connection: sqlite3.Connection,
    flow_ids: Sequence[str],
    state: DeadState,
    by: str,
    why: str,
    now: float,
    message: str | None,
) -> list[str]:
    closed = [one for one in flow_ids if connection.execute(_CLOSE_LETTER, (state, by, why, now, one)).rowcount]
    if message is not None:
        for flow_id in closed:
            send(connection, flow_id, message, now, reopens=True)
    return closed


def set_queue_pause(connection: sqlite3.Connection, queue: str, pause: QueuePause | None) -> bool:
    if pause is None:
        return connection.execute(_RESUME, (queue,)).rowcount == 1
    return connection.execute(_PAUSE, (queue, pause.at, pause.by, pause.why)).rowcount == 1


def prune(connection: sqlite3.Connection, finished_before: float, limit: int) -> int:
    max_free, pruned = free_pages(connection) + MAX_PAGES_PRUNED, 0
    for flow_id in connection.execute(_PRUNABLE, (finished_before, limit)).fetchall():
        for removal in _REMOVALS:
            connection.execute(removal, flow_id)
        pruned += 1
        if free_pages(connection) >= max_free:
            break
    return pruned


def free_pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages)

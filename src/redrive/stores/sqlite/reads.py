"""The read-only verbs. They run on a connection of their own, so that a long read holds up no commit."""

import sqlite3
from collections.abc import Sequence

from redrive.stores.leases import Lease
from redrive.stores.queues import SETTINGS, QueuePause, QueueRecord
from redrive.stores.records import (
    DeadLetter,
    DeadQuery,
    EventRow,
    FlowQuery,
    FlowRecord,
    HeartbeatRow,
    Message,
    RetryQuery,
    RetryRow,
)
from redrive.stores.sqlite.rows import (
    DEAD_FIELDS,
    FLOW_FIELDS,
    RETRY_FIELDS,
    columns,
    dead_letter,
    flow_record,
    json_list,
    retry_row,
)
from redrive.stores.sqlite.selection import AMONG, Conditions, of_dead_letters, of_flows

_EVENTS = """
SELECT flow_id, seq, at, body
FROM json_each(?) AS wanted LEFT JOIN flows ON flows.id = wanted.value
CROSS JOIN events ON events.flow_id = wanted.value AND events.seq > coalesce(flows.run_from, 0)
ORDER BY flow_id, seq
"""
_EVENTS_AFTER = "SELECT flow_id, seq, at, body FROM events WHERE flow_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_HEARTBEATS = f"SELECT flow_id, item, at, details FROM heartbeats WHERE flow_id {AMONG}"  # noqa: S608 - our own words
_FLOWS = f"SELECT {columns(FLOW_FIELDS)} FROM flows WHERE true"  # noqa: S608 - our own names
_RETRIES = f"SELECT {columns(RETRY_FIELDS)} FROM retry_queue WHERE true"  # noqa: S608 - our own names
_DEAD = f"SELECT {columns(DEAD_FIELDS)} FROM dead_letters WHERE true"  # noqa: S608 - our own names
# Starts from the messages: they are few, while a worker may own many flows.
_INBOX = """
SELECT messages.id, flow_id, at, body FROM messages CROSS JOIN flows ON flows.id = flow_id
WHERE owner = ? ORDER BY messages.id
"""
_STATES = ("ready", "waiting", "due", "running", "paused", "parked")
_QUEUES = """
SELECT counted.name, "limit", per_key, rate, key_rate, aging, at, "by", why,
    sum(ready), sum(waiting), sum(due), sum(running), sum(paused), sum(parked)
FROM (
    SELECT queue AS name, count(*) AS ready, 0 AS waiting, 0 AS due, 0 AS running, 0 AS paused, 0 AS parked
    FROM flows WHERE status = 'ready' AND concurrency_key IS NULL {of_queue} GROUP BY queue
    UNION ALL SELECT queue, count(*), 0, 0, 0, 0, 0
    FROM flows WHERE status = 'ready' AND concurrency_key IS NOT NULL {of_queue} GROUP BY queue
    UNION ALL SELECT queue, 0, count(*), count(*) FILTER (WHERE wake_at <= :now), 0, 0, 0
    FROM flows WHERE status = 'waiting' {of_queue} GROUP BY queue
    UNION ALL SELECT queue, 0, 0, 0, count(*), 0, 0 FROM flows WHERE owner IS NOT NULL {of_queue} GROUP BY queue
    UNION ALL SELECT queue, 0, 0, 0, 0, sum(status = 'paused'), sum(status = 'parked')
    FROM flows WHERE status IN ('paused', 'parked') {of_queue} GROUP BY queue
    UNION ALL SELECT name, 0, 0, 0, 0, 0, 0 FROM queue_limits
    UNION ALL SELECT name, 0, 0, 0, 0, 0, 0 FROM queue_pauses
) AS counted
LEFT JOIN queue_limits ON queue_limits.name = counted.name LEFT JOIN queue_pauses ON queue_pauses.name = counted.name
WHERE :queue IS NULL OR counted.name = :queue
GROUP BY counted.name ORDER BY counted.name
"""
_ALL_QUEUES, _ONE_QUEUE = _QUEUES.format(of_queue=""), _QUEUES.format(of_queue="AND queue = :queue")
_RETRIES_OF_QUEUES = "SELECT queue, count(*) FROM retry_queue GROUP BY queue"


def read_events(connection: sqlite3.Connection, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
    logs: dict[str, list[EventRow]] = {flow_id: [] for flow_id in flow_ids}
    for event in map(EventRow._make, connection.execute(_EVENTS, (json_list(flow_ids),))):
        logs[event.flow_id].append(event)
    return logs


def read_events_after(connection: sqlite3.Connection, flow_id: str, seq: int, limit: int) -> list[EventRow]:
    return [EventRow._make(row) for row in connection.execute(_EVENTS_AFTER, (flow_id, seq, limit))]


def read_heartbeats(connection: sqlite3.Connection, flow_ids: Sequence[str]) -> list[HeartbeatRow]:
    return [HeartbeatRow._make(row) for row in connection.execute(_HEARTBEATS, (json_list(flow_ids),))]


def read_inbox(connection: sqlite3.Connection, lease: Lease) -> list[Message]:
    return [Message(*row) for row in connection.execute(_INBOX, (lease.epoch,))]


def count_unread(connection: sqlite3.Connection, flow_id: str) -> int:
    count: int = connection.execute("SELECT count(*) FROM messages WHERE flow_id = ?", (flow_id,)).fetchone()[0]
    return count


def find_flows(connection: sqlite3.Connection, flow_ids: Sequence[str]) -> dict[str, FlowRecord]:
    rows = connection.execute(f"{_FLOWS} AND id {AMONG}", (json_list(flow_ids),))
    return {flow.id: flow for flow in map(flow_record, rows)}


def list_flows(connection: sqlite3.Connection, query: FlowQuery) -> list[FlowRecord]:
    return [flow_record(row) for row in _select(connection, _FLOWS, of_flows(query), "id DESC", query.limit)]


def list_retries(connection: sqlite3.Connection, query: RetryQuery) -> list[RetryRow]:
    wanted = Conditions().equal(query, "flow_id", "queue")
    if query.flow_ids:
        wanted.add(f"flow_id {AMONG}", json_list(query.flow_ids))
    rows = _select(connection, _RETRIES, wanted, "scheduled_at, flow_id, item", query.limit)
    return [retry_row(row) for row in rows]


def list_dead_letters(connection: sqlite3.Connection, query: DeadQuery) -> list[DeadLetter]:
    wanted = of_dead_letters(query)
    if query.after is not None:
        wanted.add("(at, flow_id) > (?, ?)", *query.after)
    return [dead_letter(row) for row in _select(connection, _DEAD, wanted, "at, flow_id", query.limit)]


def list_queues(connection: sqlite3.Connection, now: float, queue: str | None) -> list[QueueRecord]:
    statement = _ALL_QUEUES if queue is None else _ONE_QUEUE
    return [
        QueueRecord(
            name=name,
            **dict(zip(SETTINGS, settings, strict=True)),
            pause=None if at is None else QueuePause(at=at, by=by, why=why),
            **dict(zip(_STATES, counts, strict=True)),
        )
        for name, *settings, at, by, why, counts in (
            (*row[: len(SETTINGS) + 4], row[len(SETTINGS) + 4 :])
            for row in connection.execute(statement, {"now": now, "queue": queue})
        )
    ]


def count_retries(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute(_RETRIES_OF_QUEUES))


def _select(connection: sqlite3.Connection, rows: str, wanted: Conditions, order: str, limit: int) -> sqlite3.Cursor:
    """Return the first rows that meet the conditions."""
    return connection.execute(f"{rows}{wanted.text} ORDER BY {order} LIMIT ?", [*wanted.values, limit])

"""Claims, lane by lane: a lane is a queue and a definition, and its flows stand in one stretch of an index.

No flow is looked at that is not due, is finished, or is in a lane that was not asked for, however many there are.
"""

import sqlite3
from collections.abc import Callable, Sequence

from redrive.stores.records import Claimed, FlowRecord, Lease
from redrive.stores.sqlite.leases import check, note_definitions
from redrive.stores.sqlite.rows import FLOW_FIELDS, columns, flow_record, json_list

# From the first flow of a lane right to the first of the next one.
_LANES = """
WITH RECURSIVE lane (number) AS (
    SELECT (SELECT number FROM flows WHERE status = '{status}' ORDER BY queue, definition, {order} LIMIT 1)
    UNION ALL
    SELECT coalesce(
        (
            SELECT number FROM flows
            WHERE status = '{status}' AND queue = here.queue AND definition > here.definition
            ORDER BY definition, {order} LIMIT 1
        ),
        (
            SELECT number FROM flows WHERE status = '{status}' AND queue > here.queue
            ORDER BY queue, definition, {order} LIMIT 1
        )
    )
    FROM lane CROSS JOIN flows AS here ON here.number = lane.number
)
SELECT queue, definition, wake_at FROM lane CROSS JOIN flows ON flows.number = lane.number
"""
_WAITING_LANES = _LANES.format(status="waiting", order="wake_at")
_READY_LANES = _LANES.format(status="ready", order="priority DESC, wake_at")
_WAKE = """
UPDATE flows SET status = 'ready' WHERE number IN (
    SELECT number FROM flows WHERE status = 'waiting' AND queue = ? AND definition = ? AND wake_at <= ?
    ORDER BY wake_at LIMIT ?
)
"""
_NEXT_WAKE = "SELECT min(wake_at) FROM flows WHERE status = 'waiting' AND queue = ? AND definition = ? AND wake_at > ?"
_FIRST = """
SELECT -priority, wake_at, number FROM flows WHERE status = 'ready' AND queue = ? AND definition = ?
ORDER BY priority DESC, wake_at LIMIT ?
"""
_LIMITS = 'SELECT name, "limit" FROM queue_limits'
_OWNED = "SELECT queue, count(*) FROM flows WHERE owner IS NOT NULL GROUP BY queue"
_OWN = "UPDATE flows SET status = 'running', owner = ?, claims = claims + 1 WHERE number = ?"
_CLAIMED = f"SELECT number, {columns(FLOW_FIELDS)} FROM flows WHERE number IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own names

# A lane with a backlog of many thousands is made ready in pieces: other writers must get their turn.
WOKEN_AT_ONCE = 5_000

_Asked = Callable[[str, str], bool]


def claim(
    connection: sqlite3.Connection,
    lease: Lease,
    definitions: Sequence[str],
    queues: Sequence[str] | None,
    limit: int,
    now: float,
) -> Claimed:
    check(connection, lease)
    note_definitions(connection, lease, definitions)

    def asked(queue: str, definition: str) -> bool:
        return definition in definitions and (queues is None or queue in queues)

    next_wake, all_woken = _wake_due(connection, asked, now)
    chosen = _choose(connection, asked, limit)
    connection.executemany(_OWN, [(lease.epoch, number) for number in chosen])
    rows: dict[int, FlowRecord] = {
        number: flow_record(tuple(row)) for number, *row in connection.execute(_CLAIMED, (json_list(chosen),))
    }
    limited = connection.execute(_LIMITS).fetchone() is not None
    return Claimed([rows[number] for number in chosen], next_wake, len(chosen) == limit or not all_woken, limited)


def _wake_due(connection: sqlite3.Connection, asked: _Asked, now: float) -> tuple[float | None, bool]:
    """Make the flows ready whose time has come. When the next one's will, and whether all were woken."""
    wakes: list[float] = []
    all_woken = True
    for queue, definition, wake_at in connection.execute(_WAITING_LANES).fetchall():
        if not asked(queue, definition):
            continue
        if wake_at <= now:
            woken = connection.execute(_WAKE, (queue, definition, now, WOKEN_AT_ONCE)).rowcount
            all_woken = all_woken and woken < WOKEN_AT_ONCE
            (wake_at,) = connection.execute(_NEXT_WAKE, (queue, definition, now)).fetchone()
        if wake_at is not None:
            wakes.append(wake_at)
    return min(wakes, default=None), all_woken


def _choose(connection: sqlite3.Connection, asked: _Asked, limit: int) -> list[int]:
    """The first of all lanes that were asked for and have room."""
    room: dict[str, int] = dict(connection.execute(_LIMITS))
    if room:
        for queue, owned in connection.execute(_OWNED):
            if queue in room:
                room[queue] -= owned
    candidates = [
        ((priority, wake_at or 0.0, number), queue)
        for queue, definition, _ in connection.execute(_READY_LANES).fetchall()
        if asked(queue, definition) and room.get(queue, 1) > 0
        for priority, wake_at, number in connection.execute(_FIRST, (queue, definition, limit))
    ]
    candidates.sort()
    chosen: list[int] = []
    for (_, _, number), queue in candidates:
        if len(chosen) == limit:
            break
        if queue in room:
            if room[queue] <= 0:
                continue
            room[queue] -= 1
        chosen.append(number)
    return chosen

"""Schedules: the due ones, and writes that add their flows in the same transaction."""

import sqlite3
from collections.abc import Sequence

from redrive.stores.records import FlowRecord, NewFlow
from redrive.stores.schedules import MOST_WAITING, DueSchedules, ScheduleRow
from redrive.stores.sqlite import writes

_FIELDS = "name, body, next_at, waits_for, version"
_HAS_ENDED = """NOT EXISTS (
    SELECT 1 FROM flows WHERE id = waits_for AND status NOT IN ('completed', 'failed', 'cancelled')
)"""
# ruff: noqa: S608 - our own names, and parameters
_DUE = f"""
SELECT {_FIELDS} FROM (SELECT {_FIELDS} FROM schedules WHERE next_at <= ? ORDER BY next_at, name LIMIT ?)
UNION SELECT {_FIELDS} FROM (SELECT {_FIELDS} FROM schedules WHERE waits_for IS NOT NULL AND {_HAS_ENDED} LIMIT ?)
"""
_NEXT = "SELECT min(next_at) FROM schedules WHERE next_at > ?"
_WAITS = "SELECT waits_for FROM schedules WHERE waits_for IS NOT NULL LIMIT ?"
_FIND = f"SELECT {_FIELDS} FROM schedules WHERE name = ?"
_LIST = f"SELECT {_FIELDS} FROM schedules WHERE name > ? ORDER BY name LIMIT ?"
_ADD = f"INSERT INTO schedules ({_FIELDS}) VALUES (?, ?, ?, ?, 1) ON CONFLICT DO NOTHING"
_CHANGE = """
UPDATE schedules SET body = ?, next_at = ?, waits_for = ?, version = version + 1 WHERE name = ? AND version = ?
"""
_DROP = "DELETE FROM schedules WHERE name = ?"


def due_schedules(connection: sqlite3.Connection, now: float, limit: int) -> DueSchedules:
    due = sorted(_rows(connection.execute(_DUE, (now, limit, limit))), key=lambda row: (row.next_at or 0.0, row.name))
    (next_at,) = connection.execute(_NEXT, (now,)).fetchone()
    waits = {flow_id for (flow_id,) in connection.execute(_WAITS, (MOST_WAITING,))}
    return DueSchedules(due[:limit], next_at, frozenset(waits.difference(row.waits_for for row in due)))


def find_schedule(connection: sqlite3.Connection, name: str) -> ScheduleRow | None:
    return next(iter(_rows(connection.execute(_FIND, (name,)))), None)


def list_schedules(connection: sqlite3.Connection, after: str, limit: int) -> list[ScheduleRow]:
    return _rows(connection.execute(_LIST, (after, limit)))


def write_schedule(
    connection: sqlite3.Connection,
    row: ScheduleRow,
    flows: Sequence[NewFlow],
    messages: Sequence[tuple[str, str]],
    now: float,
) -> list[FlowRecord | None] | None:
    if row.version == 0:
        written = connection.execute(_ADD, (row.name, row.body, row.next_at, row.waits_for))
    else:
        written = connection.execute(_CHANGE, (row.body, row.next_at, row.waits_for, row.name, row.version))
    if written.rowcount != 1:
        return None
    answers = writes.add_flows(connection, flows)
    for flow_id, body in messages:
        writes.send(connection, flow_id, body, now, reopens=False)
    return answers


def drop_schedule(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute(_DROP, (name,)).rowcount == 1


def _rows(rows: sqlite3.Cursor) -> list[ScheduleRow]:
    return [ScheduleRow(*row) for row in rows]

"""The runs of flows that continued as new: find one, prune those that ended long ago, list those that are long."""

import sqlite3

from redrive.stores.runs import LONG_RUN, MOST_ROWS_PRUNED, EndedRun, LongRun
from redrive.stores.sqlite.writes import MAX_PAGES_PRUNED, free_pages

# ruff: noqa: S608 - our own names
_FIND = """
SELECT run_from, run_to, ended_at, input FROM ended_runs WHERE flow_id = ? ORDER BY run_to DESC LIMIT 1 OFFSET ?
"""
_OLD = "SELECT flow_id, run_to FROM ended_runs WHERE ended_at < ? ORDER BY ended_at, run_to LIMIT ?"
_ROWS_AT_ONCE = 100
_DROP_EVENTS = """
DELETE FROM events WHERE flow_id = :flow AND seq <= (
    SELECT max(seq) FROM (SELECT seq FROM events WHERE flow_id = :flow AND seq <= :run_to ORDER BY seq LIMIT :most)
)
"""
_DROP = "DELETE FROM ended_runs WHERE flow_id = ? AND run_to = ?"
MOST_LOOKED_AT = 10_000
"""How many flows with long logs are looked at, most of which may have finished."""
# Steps from flow to flow in the index `events_long`, however many rows each has there.
_LONG = f"""
WITH RECURSIVE long (flow_id) AS (
    SELECT (SELECT min(flow_id) FROM events WHERE seq > {LONG_RUN})
    UNION ALL
    SELECT (SELECT min(events.flow_id) FROM events WHERE seq > {LONG_RUN} AND events.flow_id > long.flow_id)
    FROM long WHERE long.flow_id IS NOT NULL
    LIMIT {MOST_LOOKED_AT}
)
SELECT * FROM (
    SELECT id, definition, (SELECT max(seq) FROM events WHERE flow_id = id) - run_from AS events
    FROM long CROSS JOIN flows ON flows.id = long.flow_id
    WHERE status NOT IN ('completed', 'failed', 'cancelled')
)
WHERE events > {LONG_RUN} LIMIT ?
"""


def find_run(connection: sqlite3.Connection, flow_id: str, back: int) -> EndedRun | None:
    row = connection.execute(_FIND, (flow_id, back - 1)).fetchone()
    return None if row is None else EndedRun(**dict(zip(EndedRun.__struct_fields__, row, strict=True)))


def prune_runs(connection: sqlite3.Connection, ended_before: float, limit: int) -> int:
    max_free, rows, pruned = free_pages(connection) + MAX_PAGES_PRUNED, 0, 0
    for flow_id, run_to in connection.execute(_OLD, (ended_before, limit)).fetchall():
        pruned += 1
        piece, removed = {"flow": flow_id, "run_to": run_to, "most": _ROWS_AT_ONCE}, _ROWS_AT_ONCE
        while removed == _ROWS_AT_ONCE:
            if rows >= MOST_ROWS_PRUNED or free_pages(connection) >= max_free:
                return pruned
            removed = connection.execute(_DROP_EVENTS, piece).rowcount
            rows += removed
        connection.execute(_DROP, (flow_id, run_to))
    return pruned


def list_long_runs(connection: sqlite3.Connection, limit: int) -> list[LongRun]:
    return [LongRun(*row) for row in connection.execute(_LONG, (limit,))]

"""The verbs that show how the work goes, all flows together."""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import astuple

from redrive.stores.activity import LONGEST_ACTIVITY, ActivityQuery, ActivityRow
from redrive.stores.counts import MOST_GROUPS, DeadGroup, FlowCount, RetryGroup
from redrive.stores.leases import Lease
from redrive.stores.records import DeadQuery, FlowQuery, FlowStatus
from redrive.stores.sqlite.selection import Conditions, of_dead_letters, of_flows
from redrive.stores.worker_reports import DependencyOrder, WorkerReport

# ruff: noqa: S608 - our own names, and parameters

_REPORT = """
INSERT OR REPLACE INTO worker_reports (epoch, at, body) SELECT epoch, ?, ? FROM workers WHERE epoch = ?
"""
_ADD_ACTIVITY = """
INSERT INTO activity (at, definition, step, dependency, outcome, count, seconds) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET count = count + excluded.count, seconds = seconds + excluded.seconds
"""
_DROP_ACTIVITY = "DELETE FROM activity WHERE at < ?"
_REPORTS = "SELECT epoch, at, body FROM worker_reports ORDER BY epoch"
# Each part is served by an index that holds no other flows.
_COUNTS = """
SELECT definition, queue, status, sum(count) FROM (
SELECT definition, queue, 'ready' AS status, count(*) AS count
FROM flows WHERE status = 'ready' AND concurrency_key IS NULL GROUP BY queue, definition
UNION ALL SELECT definition, queue, 'ready', count(*)
FROM flows WHERE status = 'ready' AND concurrency_key IS NOT NULL GROUP BY queue, definition
UNION ALL SELECT definition, queue, 'waiting', count(*) FROM flows WHERE status = 'waiting' GROUP BY queue, definition
UNION ALL SELECT definition, queue, 'running', count(*) FROM flows WHERE owner IS NOT NULL GROUP BY queue, definition
UNION ALL SELECT definition, queue, status, count(*)
FROM flows WHERE status IN ('paused', 'parked') GROUP BY queue, definition, status
) GROUP BY definition, queue, status
"""
_RETRY_GROUPS = f"""
SELECT definition, dependency, waits_for, error_type, count(*),
    min(scheduled_at), max(scheduled_at), min(since), max(reason)
FROM retry_queue GROUP BY definition, dependency, waits_for, error_type ORDER BY count(*) DESC LIMIT {MOST_GROUPS}
"""
_CHILDREN = "SELECT status, count(*) FROM (SELECT status FROM flows WHERE parent = ? LIMIT ?) GROUP BY status"
_DEAD_GROUPS = """
SELECT definition, step, dependency, error_type, kind, count, first_at, last_at, flow_id,
    (SELECT message FROM dead_letters WHERE dead_letters.flow_id = latest.flow_id)
FROM (
    SELECT definition, step, dependency, error_type, kind, count(*) OVER same AS count, min(at) OVER same AS first_at,
        at AS last_at, flow_id, row_number() OVER (same ORDER BY at DESC, flow_id DESC) AS place
    FROM dead_letters WHERE true{conditions}
    WINDOW same AS (PARTITION BY definition, step, dependency, error_type, kind)
) AS latest
WHERE place = 1 ORDER BY count DESC LIMIT {most}
"""
_PUT_ORDER = 'INSERT OR REPLACE INTO dependency_orders (name, "order", "by", why, at) VALUES (?, ?, ?, ?, ?)'
_ORDERS = 'SELECT name, "order", "by", why, at FROM dependency_orders ORDER BY name'


def report(
    connection: sqlite3.Connection, lease: Lease, latest: WorkerReport | None, activity: Sequence[ActivityRow]
) -> None:
    if latest is not None:
        connection.execute(_REPORT, (latest.at, latest.body, lease.epoch))
    if activity:
        connection.executemany(_ADD_ACTIVITY, map(astuple, activity))
        connection.execute(_DROP_ACTIVITY, (max(row.at for row in activity) - LONGEST_ACTIVITY,))


def list_reports(connection: sqlite3.Connection) -> list[WorkerReport]:
    return [WorkerReport(epoch=epoch, at=at, body=body) for epoch, at, body in connection.execute(_REPORTS)]


def read_activity(connection: sqlite3.Connection, query: ActivityQuery) -> list[ActivityRow]:
    found = Conditions().equal(query, "definition", "dependency")
    names = "".join(f", {name}" for name in query.by)
    rows = connection.execute(
        f"SELECT at, outcome, sum(count), sum(seconds){names} FROM activity WHERE at >= ?{found.text}"
        f" GROUP BY at, outcome{names} ORDER BY at",
        (query.since, *found.values),
    )
    return [
        ActivityRow(at=at, outcome=outcome, count=count, seconds=seconds, **dict(zip(query.by, kept, strict=True)))
        for at, outcome, count, seconds, *kept in rows
    ]


def count_flows(connection: sqlite3.Connection) -> list[FlowCount]:
    return [
        FlowCount(definition=definition, queue=queue, status=status, count=count)
        for definition, queue, status, count in connection.execute(_COUNTS)
    ]


def count_matching_flows(connection: sqlite3.Connection, query: FlowQuery) -> int:
    found = of_flows(query)
    statement = f"SELECT count(*) FROM (SELECT 1 FROM flows WHERE true{found.text} LIMIT ?)"
    count: int = connection.execute(statement, (*found.values, query.limit)).fetchone()[0]
    return count


def count_children(
    connection: sqlite3.Connection, parents: Sequence[str], limit: int
) -> dict[str, dict[FlowStatus, int]]:
    counts = {parent: dict(connection.execute(_CHILDREN, (parent, limit)).fetchall()) for parent in parents}
    return {parent: found for parent, found in counts.items() if found}


def group_retries(connection: sqlite3.Connection) -> list[RetryGroup]:
    return [
        RetryGroup(**dict(zip(RetryGroup.__struct_fields__, row, strict=True)))
        for row in connection.execute(_RETRY_GROUPS)
    ]


def group_dead_letters(connection: sqlite3.Connection, query: DeadQuery) -> list[DeadGroup]:
    found = of_dead_letters(query)
    statement = _DEAD_GROUPS.format(conditions=found.text, most=MOST_GROUPS)
    return [
        DeadGroup(**dict(zip(DeadGroup.__struct_fields__, row, strict=True)))
        for row in connection.execute(statement, found.values)
    ]


def set_dependency_order(connection: sqlite3.Connection, order: DependencyOrder) -> None:
    connection.execute(_PUT_ORDER, astuple(order))


def list_dependency_orders(connection: sqlite3.Connection) -> list[DependencyOrder]:
    return [
        DependencyOrder(name=name, order=order, by=by, why=why, at=at)
        for name, order, by, why, at in connection.execute(_ORDERS)
    ]

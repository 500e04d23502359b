"""The verbs that show how the work goes, all flows together; each is one statement."""

from collections.abc import Sequence

from redrive.stores.activity import LONGEST_ACTIVITY, ActivityQuery, ActivityRow
from redrive.stores.counts import MOST_GROUPS, DeadGroup, FlowCount, RetryGroup
from redrive.stores.leases import Lease
from redrive.stores.postgres import list_statements
from redrive.stores.postgres.commit_statement import rows_as_json
from redrive.stores.postgres.statement_runner import StatementRunner
from redrive.stores.records import DeadQuery, FlowQuery, FlowStatus
from redrive.stores.worker_reports import DependencyOrder, WorkerReport

# ruff: noqa: S608 - our own names, and parameters

# The lock keeps the worker's lease from ending meanwhile, which would leave the report behind.
_REPORT = """
INSERT INTO worker_reports (epoch, at, body)
SELECT epoch, to_timestamp($2), $3::text::json FROM workers WHERE epoch = $1 FOR KEY SHARE
ON CONFLICT (epoch) DO UPDATE SET at = EXCLUDED.at, body = EXCLUDED.body
"""
# In order, so that reports which add to the same rows wait for each other and do not deadlock.
_ADD_ACTIVITY = """
INSERT INTO activity (at, definition, step, dependency, outcome, count, seconds)
SELECT to_timestamp(at), definition, step, dependency, outcome, count, seconds
FROM json_to_recordset($1::text::json)
    AS new (at float8, definition text, step text, dependency text, outcome text, count bigint, seconds float8)
ORDER BY at, definition COLLATE "C", step COLLATE "C", dependency COLLATE "C", outcome COLLATE "C"
ON CONFLICT (at, definition, step, dependency, outcome) DO UPDATE SET
    count = activity.count + EXCLUDED.count, seconds = activity.seconds + EXCLUDED.seconds
"""
_DROP_ACTIVITY = "DELETE FROM activity WHERE at < to_timestamp($1)"
_REPORTS = "SELECT epoch, date_part('epoch', at) AS at, body::text AS body FROM worker_reports ORDER BY epoch"
# Each part is served by an index that holds no other flows.
_COUNTS = """
SELECT definition, queue, status, sum(count)::bigint AS count FROM (
SELECT definition, queue, 'ready' AS status, count(*) AS count FROM flows
WHERE status = 'ready' AND concurrency_key IS NULL GROUP BY definition, queue
UNION ALL SELECT definition, queue, 'ready', count(*) FROM flows
WHERE status = 'ready' AND concurrency_key IS NOT NULL GROUP BY definition, queue
UNION ALL SELECT definition, queue, 'waiting', count(*) FROM flows WHERE status = 'waiting' GROUP BY definition, queue
UNION ALL SELECT definition, queue, 'running', count(*) FROM flows WHERE owner IS NOT NULL GROUP BY definition, queue
UNION ALL SELECT definition, queue, status, count(*) FROM flows
WHERE status IN ('paused', 'parked') GROUP BY definition, queue, status
) AS counted GROUP BY definition, queue, status
"""
_RETRY_GROUPS = f"""
SELECT definition, dependency, waits_for, error_type, count(*) AS count,
    date_part('epoch', min(scheduled_at)) AS next_at, date_part('epoch', max(scheduled_at)) AS last_at,
    date_part('epoch', min(since)) AS since, max(reason) AS reason
FROM retry_queue GROUP BY definition, dependency, waits_for, error_type ORDER BY count(*) DESC LIMIT {MOST_GROUPS}
"""
_CHILDREN = """
SELECT given.id, child.status, count(*) FROM unnest($1::text[]) AS given (id)
CROSS JOIN LATERAL (SELECT status FROM flows WHERE parent = given.id LIMIT $2) AS child
GROUP BY given.id, child.status
"""
_DEAD_GROUPS = """
SELECT grouped.*, dead_letters.message FROM (
    SELECT definition, step, dependency, error_type, kind, count(*) AS count,
        date_part('epoch', min(at)) AS first_at, date_part('epoch', max(at)) AS last_at,
        (array_agg(flow_id ORDER BY at DESC, flow_id DESC))[1] AS flow_id
    FROM dead_letters {where}
    GROUP BY definition, step, dependency, error_type, kind ORDER BY count(*) DESC LIMIT {most}
) AS grouped JOIN dead_letters USING (flow_id) ORDER BY count DESC
"""
_PUT_ORDER = """
INSERT INTO dependency_orders (name, "order", "by", why, at) VALUES ($1, $2, $3, $4, to_timestamp($5))
ON CONFLICT (name) DO UPDATE SET "order" = $2, "by" = $3, why = $4, at = to_timestamp($5)
"""
_ORDERS = """
SELECT name, "order", "by", why, date_part('epoch', at) AS at FROM dependency_orders ORDER BY name
"""


class PostgresObservations:
    async def report(
        self: StatementRunner, lease: Lease, report: WorkerReport | None, activity: Sequence[ActivityRow]
    ) -> None:
        if report is not None:
            await self._write(_REPORT, lease.epoch, report.at, report.body)
        if activity:
            await self._write(_ADD_ACTIVITY, rows_as_json(activity))
            await self._write(_DROP_ACTIVITY, max(row.at for row in activity) - LONGEST_ACTIVITY)

    async def list_reports(self: StatementRunner) -> list[WorkerReport]:
        return [WorkerReport(**row) for row in await self._read(_REPORTS)]

    async def read_activity(self: StatementRunner, query: ActivityQuery) -> list[ActivityRow]:
        conditions = list_statements.Conditions().equal(query, "definition", "dependency")
        conditions.add("at >= to_timestamp({})", query.since)
        names = "".join(f", {name}" for name in query.by)
        rows = await self._read(
            "SELECT date_part('epoch', at) AS at, outcome, sum(count)::bigint AS count, sum(seconds) AS seconds"
            f"{names} FROM activity {conditions.where} GROUP BY activity.at, outcome{names} ORDER BY activity.at",
            *conditions.values,
        )
        return [ActivityRow(**row) for row in rows]

    async def count_flows(self: StatementRunner) -> list[FlowCount]:
        return [FlowCount(**row) for row in await self._read(_COUNTS)]

    async def count_matching_flows(self: StatementRunner, query: FlowQuery) -> int:
        statement, parameters = list_statements.count_flows(query)
        count: int = (await self._read(statement, *parameters))[0][0]
        return count

    async def count_children(
        self: StatementRunner, parents: Sequence[str], limit: int
    ) -> dict[str, dict[FlowStatus, int]]:
        found: dict[str, dict[FlowStatus, int]] = {}
        for parent, status, count in await self._read(_CHILDREN, list(parents), limit):
            found.setdefault(parent, {})[status] = count
        return found

    async def group_retries(self: StatementRunner) -> list[RetryGroup]:
        return [RetryGroup(**row) for row in await self._read(_RETRY_GROUPS)]

    async def group_dead_letters(self: StatementRunner, query: DeadQuery) -> list[DeadGroup]:
        conditions = list_statements.of_dead_letters(query)
        statement = _DEAD_GROUPS.format(where=conditions.where, most=MOST_GROUPS)
        return [DeadGroup(**row) for row in await self._read(statement, *conditions.values)]

    async def set_dependency_order(self: StatementRunner, order: DependencyOrder) -> None:
        await self._write(_PUT_ORDER, order.name, order.order, order.by, order.why, order.at)

    async def list_dependency_orders(self: StatementRunner) -> list[DependencyOrder]:
        return [DependencyOrder(**row) for row in await self._read(_ORDERS)]

"""The runs of flows that continued as new: find one, prune those that ended long ago, list those that are long."""

from redrive.stores.postgres.statement_runner import StatementRunner
from redrive.stores.runs import LONG_RUN, MOST_ROWS_PRUNED, EndedRun, LongRun

# ruff: noqa: S608 - our own names
_FIND = """
SELECT run_from, run_to, date_part('epoch', ended_at) AS ended_at, input::text AS input
FROM ended_runs WHERE flow_id = $1 ORDER BY run_to DESC LIMIT 1 OFFSET $2
"""
# A run goes once its events were found gone, so a call after the one that removes the last of them. Arrays of places
# instead of joins, which may be planned as scans of all logs; neither kind of row is ever updated.
_PRUNE = f"""
WITH old AS MATERIALIZED (
    SELECT ctid AS place, flow_id, run_to FROM ended_runs
    WHERE ended_at < to_timestamp($1) ORDER BY ended_at, run_to LIMIT $2 FOR UPDATE SKIP LOCKED
),
piece AS MATERIALIZED (
    SELECT logged.place FROM old CROSS JOIN LATERAL (
        SELECT ctid AS place FROM events
        WHERE flow_id = old.flow_id AND seq <= old.run_to ORDER BY seq LIMIT {MOST_ROWS_PRUNED}
    ) AS logged LIMIT {MOST_ROWS_PRUNED}
),
events_gone AS (DELETE FROM events WHERE ctid = ANY (ARRAY(SELECT place FROM piece))),
runs_gone AS (
    DELETE FROM ended_runs WHERE ctid = ANY (ARRAY(
        SELECT place FROM old
        WHERE NOT EXISTS (SELECT FROM events WHERE flow_id = old.flow_id AND seq <= old.run_to)
    ))
)
SELECT count(*) FROM old
"""
MOST_LOOKED_AT = 10_000
"""How many flows with long logs are looked at, most of which may have finished."""
# Steps from flow to flow in the index `events_long`, however many rows each has there.
_LONG = f"""
WITH RECURSIVE long (flow_id) AS (
    (SELECT flow_id FROM events WHERE seq > {LONG_RUN} ORDER BY flow_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT flow_id FROM events WHERE seq > {LONG_RUN} AND flow_id > long.flow_id ORDER BY flow_id LIMIT 1
    ) FROM long WHERE long.flow_id IS NOT NULL
)
SELECT flows.id, flows.definition, logged.seq - flows.run_from AS events
FROM (SELECT flow_id FROM long LIMIT {MOST_LOOKED_AT}) AS looked
JOIN flows ON flows.id = looked.flow_id
CROSS JOIN LATERAL (SELECT max(seq) AS seq FROM events WHERE flow_id = flows.id) AS logged
WHERE flows.status NOT IN ('completed', 'failed', 'cancelled') AND logged.seq - flows.run_from > {LONG_RUN}
LIMIT $1
"""


class PostgresRuns:
    async def find_run(self: StatementRunner, flow_id: str, back: int) -> EndedRun | None:
        rows = await self._read(_FIND, flow_id, back - 1)
        return EndedRun(**rows[0]) if rows else None

    async def prune_runs(self: StatementRunner, ended_before: float, limit: int) -> int:
        pruned: int = (await self._write(_PRUNE, ended_before, limit))[0][0]
        return pruned

    async def list_long_runs(self: StatementRunner, limit: int) -> list[LongRun]:
        return [LongRun(*row) for row in await self._read(_LONG, limit)]

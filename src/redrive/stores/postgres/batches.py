"""The verbs of the PostgreSQL store about batches."""

from collections.abc import Sequence

from redrive.stores.batches import BatchCounts, BatchQuery, BatchRow
from redrive.stores.postgres.columns import selected
from redrive.stores.postgres.list_statements import Conditions
from redrive.stores.postgres.statement_runner import StatementRunner

# ruff: noqa: S608 - our own names, and parameters

_FIELDS = ("name", "created_at", "total", "digest", "tags", "on_done", "done_at")
_ADD = """
INSERT INTO batches (name, created_at, total, digest, tags, on_done, done_at)
VALUES ($1, to_timestamp($2), $3, $4, $5, $6, to_timestamp($7)) ON CONFLICT DO NOTHING RETURNING name
"""
_COMPLETE = "UPDATE batches SET total = $2, digest = $3 WHERE name = $1 AND total IS NULL"
_ROWS = f"SELECT {selected(_FIELDS, 'batches')} FROM batches"
_COUNTS = "SELECT batch, status, count(*) AS count FROM flows WHERE batch = ANY ($1::text[]) GROUP BY batch, status"
_ENDED = f"""
{_ROWS}
WHERE done_at IS NULL AND total IS NOT NULL AND NOT EXISTS (
    SELECT FROM flows
    WHERE batch = batches.name AND status IN ('ready', 'waiting', 'running', 'paused', 'parked')
)
ORDER BY batches.created_at LIMIT $1
"""
_END = "UPDATE batches SET done_at = to_timestamp($2) WHERE name = $1 AND done_at IS NULL"
_PRUNE = """
DELETE FROM batches WHERE name IN (
    SELECT name FROM batches
    WHERE done_at < to_timestamp($1) AND NOT EXISTS (SELECT FROM flows WHERE batch = batches.name)
    ORDER BY done_at LIMIT $2
)
RETURNING name
"""


class PostgresBatches:
    async def add_batch(self: StatementRunner, row: BatchRow) -> BatchRow | None:
        if await self._write(_ADD, *(getattr(row, name) for name in _FIELDS)):
            return None
        found = await self._read(f"{_ROWS} WHERE name = $1", row.name)
        return BatchRow(**found[0]) if found else None

    async def complete_batch(self: StatementRunner, name: str, total: int, digest: str) -> None:
        await self._write(_COMPLETE, name, total, digest)

    async def find_batch(self: StatementRunner, name: str) -> BatchRow | None:
        found = await self._read(f"{_ROWS} WHERE name = $1", name)
        return BatchRow(**found[0]) if found else None

    async def list_batches(self: StatementRunner, query: BatchQuery) -> list[BatchRow]:
        wanted = Conditions()
        if query.done is not None:
            wanted.add("done_at IS NOT NULL" if query.done else "done_at IS NULL")
        if query.before is not None:
            wanted.add("(batches.created_at, name) < (to_timestamp({}), {})", *query.before)
        statement, values = wanted.statement(_ROWS, "batches.created_at DESC, name DESC", query.limit)
        return [BatchRow(**row) for row in await self._read(statement, *values)]

    async def count_batches(self: StatementRunner, names: Sequence[str]) -> dict[str, BatchCounts]:
        counts: dict[str, dict[str, int]] = {}
        for row in await self._read(_COUNTS, list(names)):
            counts.setdefault(row["batch"], {})[row["status"]] = row["count"]
        return {name: BatchCounts(**counted) for name, counted in counts.items()}

    async def list_ended_batches(self: StatementRunner, limit: int) -> list[BatchRow]:
        return [BatchRow(**row) for row in await self._read(_ENDED, limit)]

    async def end_batch(self: StatementRunner, name: str, now: float) -> None:
        await self._write(_END, name, now)

    async def prune_batches(self: StatementRunner, done_before: float, limit: int) -> int:
        return len(await self._write(_PRUNE, done_before, limit))

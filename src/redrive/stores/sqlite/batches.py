"""The verbs about batches."""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import astuple

from redrive.stores.batches import BatchCounts, BatchQuery, BatchRow
from redrive.stores.sqlite.rows import columns, json_list, placeholders
from redrive.stores.sqlite.selection import AMONG, Conditions

# ruff: noqa: S608 - our own names, and parameters

_FIELDS = BatchRow.__struct_fields__
_ADD = f"INSERT OR IGNORE INTO batches ({columns(_FIELDS)}) VALUES ({placeholders(_FIELDS)})"
_COMPLETE = "UPDATE batches SET total = ?, digest = ? WHERE name = ? AND total IS NULL"
_ROWS = f"SELECT {columns(_FIELDS)} FROM batches WHERE true"
_COUNTS = f"SELECT batch, status, count(*) FROM flows WHERE batch {AMONG} GROUP BY batch, status"
# One status at a time, so that the index on batch and status serves each.
_ENDED = f"""
SELECT {columns(_FIELDS)} FROM batches
WHERE done_at IS NULL AND total IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM flows
    WHERE batch = batches.name AND status IN ('ready', 'waiting', 'running', 'paused', 'parked')
)
ORDER BY created_at LIMIT ?
"""
_END = "UPDATE batches SET done_at = ? WHERE name = ? AND done_at IS NULL"
_PRUNE = """
DELETE FROM batches WHERE name IN (
    SELECT name FROM batches
    WHERE done_at < ? AND NOT EXISTS (SELECT 1 FROM flows WHERE batch = batches.name) ORDER BY done_at LIMIT ?
)
"""


def add_batch(connection: sqlite3.Connection, row: BatchRow) -> BatchRow | None:
    added = connection.execute(_ADD, astuple(row)).rowcount
    return None if added else find_batch(connection, row.name)


def complete_batch(connection: sqlite3.Connection, name: str, total: int, digest: str) -> None:
    connection.execute(_COMPLETE, (total, digest, name))


def find_batch(connection: sqlite3.Connection, name: str) -> BatchRow | None:
    row = connection.execute(f"{_ROWS} AND name = ?", (name,)).fetchone()
    return None if row is None else _row(row)


def list_batches(connection: sqlite3.Connection, query: BatchQuery) -> list[BatchRow]:
    wanted = Conditions()
    if query.done is not None:
        wanted.add("done_at IS NOT NULL" if query.done else "done_at IS NULL")
    if query.before is not None:
        wanted.add("(created_at, name) < (?, ?)", *query.before)
    statement = f"{_ROWS}{wanted.text} ORDER BY created_at DESC, name DESC LIMIT ?"
    return [_row(row) for row in connection.execute(statement, [*wanted.values, query.limit])]


def count_batches(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, BatchCounts]:
    counts: dict[str, dict[str, int]] = {}
    for name, status, count in connection.execute(_COUNTS, (json_list(names),)):
        counts.setdefault(name, {})[status] = count
    return {name: BatchCounts(**counted) for name, counted in counts.items()}


def list_ended_batches(connection: sqlite3.Connection, limit: int) -> list[BatchRow]:
    return [_row(row) for row in connection.execute(_ENDED, (limit,))]


def end_batch(connection: sqlite3.Connection, name: str, now: float) -> None:
    connection.execute(_END, (now, name))


def prune_batches(connection: sqlite3.Connection, done_before: float, limit: int) -> int:
    return connection.execute(_PRUNE, (done_before, limit)).rowcount


def _row(row: tuple[object, ...]) -> BatchRow:
    return BatchRow(**dict(zip(_FIELDS, row, strict=True)))  # type: ignore[arg-type]  # the table has these columns

"""Schedules: the due ones, and writes that add their flows in the same transaction."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from redrive.stores.caller_transaction import Parameters, Rows, run_steps, with_dollars
from redrive.stores.postgres import statements
from redrive.stores.postgres.add_flows import add_flows_steps
from redrive.stores.postgres.statement_runner import StatementRunner
from redrive.stores.records import FlowRecord, NewFlow
from redrive.stores.schedules import MOST_DUE, MOST_WAITING, DueSchedules, ScheduleRow

# ruff: noqa: S608 - our own names, and parameters
_FIELDS = "name, body, date_part('epoch', next_at) AS next_at, waits_for, version"
# One statement, since each worker asks it again and again; `part` says what a row is.
_DUE = f"""
(SELECT 0 AS part, {_FIELDS} FROM schedules WHERE next_at <= to_timestamp($1) ORDER BY schedules.next_at, name LIMIT $2)
UNION ALL (
    SELECT 1, {_FIELDS} FROM schedules WHERE waits_for IS NOT NULL AND NOT EXISTS (
        SELECT FROM flows WHERE id = waits_for AND status NOT IN ('completed', 'failed', 'cancelled')
    ) LIMIT $2
)
UNION ALL (SELECT 2, '', '', NULL, waits_for, 0 FROM schedules WHERE waits_for IS NOT NULL LIMIT $3)
UNION ALL (
    SELECT 3, '', '', date_part('epoch', next_at), NULL, 0 FROM schedules
    WHERE next_at > to_timestamp($1) ORDER BY schedules.next_at LIMIT 1
)
"""
_FIND = f"SELECT {_FIELDS} FROM schedules WHERE name = $1"
_LIST = f"SELECT {_FIELDS} FROM schedules WHERE name > $1 ORDER BY name LIMIT $2"
_ADD = """
INSERT INTO schedules (name, body, next_at, waits_for, version) VALUES ($1, $2, to_timestamp($3), $4, 1)
ON CONFLICT (name) DO NOTHING RETURNING 1
"""
_CHANGE = """
UPDATE schedules SET body = $2, next_at = to_timestamp($3), waits_for = $4, version = version + 1
WHERE name = $1 AND version = $5 RETURNING 1
"""
_DROP = "DELETE FROM schedules WHERE name = $1 RETURNING 1"


class TransactionRunner(StatementRunner, Protocol):
    """Runs several statements in one transaction as well."""

    _schema: str
    _channel: str

    async def _transact(self, work: Callable[[Any], Awaitable[Any]]) -> Any: ...


class PostgresSchedules:
    async def due_schedules(self: StatementRunner, now: float, limit: int = MOST_DUE) -> DueSchedules:
        due: dict[str, ScheduleRow] = {}
        waits, next_at = set[str](), None
        for part, *fields in await self._read(_DUE, now, limit, MOST_WAITING):
            row = ScheduleRow(*fields)
            if part < 2:
                due[row.name] = row
            elif part == 2 and row.waits_for is not None:
                waits.add(row.waits_for)
            else:
                next_at = row.next_at
        rows = sorted(due.values(), key=lambda row: (row.next_at or 0.0, row.name))
        return DueSchedules(rows[:limit], next_at, frozenset(waits.difference(row.waits_for for row in rows)))

    async def find_schedule(self: StatementRunner, name: str) -> ScheduleRow | None:
        rows = await self._read(_FIND, name)
        return ScheduleRow(*rows[0]) if rows else None

    async def list_schedules(self: StatementRunner, after: str, limit: int) -> list[ScheduleRow]:
        return [ScheduleRow(*row) for row in await self._read(_LIST, after, limit)]

    async def write_schedule(
        self: TransactionRunner,
        row: ScheduleRow,
        flows: Sequence[NewFlow] = (),
        messages: Sequence[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> list[FlowRecord | None] | None:
        async def write(connection: Any) -> list[FlowRecord | None] | None:
            async def fetch(statement: str, parameters: Parameters) -> Rows:
                rows: Rows = await connection.fetch(with_dollars(statement), *parameters)
                return rows

            given = (row.name, row.body, row.next_at, row.waits_for)
            if row.version == 0:
                written = await connection.fetch(_ADD, *given)
            else:
                written = await connection.fetch(_CHANGE, *given, row.version)
            if not written:
                return None
            answers = await run_steps(add_flows_steps(self._schema, flows), fetch)
            for flow_id, body in messages:
                await connection.fetch(statements.SEND, now, body, self._channel, flow_id, False)
            return answers

        answers: list[FlowRecord | None] | None = await self._transact(write)
        return answers

    async def drop_schedule(self: StatementRunner, name: str) -> bool:
        return bool(await self._write(_DROP, name))

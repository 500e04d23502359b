"""Settings of queues, and starts that share a key."""

from collections.abc import Mapping
from typing import Any

from redrive.stores.flow_control import QueueUse
from redrive.stores.postgres.columns import named
from redrive.stores.postgres.schedules import TransactionRunner
from redrive.stores.postgres.statement_runner import StatementRunner
from redrive.stores.queues import SETTINGS

# ruff: noqa: S608 - our own names

# Waits for claims that hold the settings; a rate that changes starts afresh.
_LOCK = f"""
INSERT INTO queue_limits (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name
RETURNING {named(SETTINGS)}
"""
_SET = """
UPDATE queue_limits SET "limit" = $2, per_key = $3, rate = $4, key_rate = $5, aging = $6 WHERE name = $1
"""
_DROP = "DELETE FROM queue_limits WHERE name = $1"
_FORGET_RATES = "DELETE FROM queue_rates WHERE name = $1 AND CASE WHEN key = '' THEN $2::boolean ELSE $3::boolean END"
_NOTIFY = "SELECT pg_notify($1, '')"
_USE = """
SELECT
    (
        SELECT count(*) FROM flows
        WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL AND queue = $1 AND concurrency_key = $2
    ),
    (SELECT level FROM queue_rates WHERE name = $1 AND key = ''),
    (SELECT level FROM queue_rates WHERE name = $1 AND key = $2)
"""
_RELEASE_KEY = "UPDATE flows SET key = NULL WHERE id = $1"
_REPLACE_INPUT = """
UPDATE flows SET
    input = $2::text::json,
    start_at = CASE WHEN status = 'waiting' THEN to_timestamp($3) ELSE start_at END,
    wake_at = CASE WHEN status = 'waiting' THEN to_timestamp($3) ELSE wake_at END
WHERE id = $1 AND claims = 0 AND finished_at IS NULL RETURNING 1
"""


class PostgresFlowControl:
    async def configure_queue(self: TransactionRunner, queue: str, changes: Mapping[str, Any]) -> None:
        async def configure(connection: Any) -> None:
            row = await connection.fetchrow(_LOCK, queue)
            before = dict(zip(SETTINGS, row, strict=True))
            after = before | dict(changes)
            if all(value is None for value in after.values()):
                await connection.execute(_DROP, queue)
            else:
                await connection.execute(_SET, queue, *after.values())
            changed = [before[name] != after[name] for name in ("rate", "key_rate")]
            if any(changed):
                await connection.execute(_FORGET_RATES, queue, *changed)
            await connection.execute(_NOTIFY, self._channel)

        await self._transact(configure)

    async def queue_use(self: StatementRunner, queue: str, key: str | None) -> QueueUse:
        return QueueUse(*(await self._read(_USE, queue, key))[0])

    async def release_key(self: StatementRunner, flow_id: str) -> None:
        await self._write(_RELEASE_KEY, flow_id)

    async def replace_input(self: StatementRunner, flow_id: str, text: str, start_at: float) -> bool:
        return bool(await self._write(_REPLACE_INPUT, flow_id, text, start_at))

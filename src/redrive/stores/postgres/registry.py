"""The verbs about what is kept beside flows: steps, access keys, the audit log; each is one statement."""

from collections.abc import Mapping, Sequence

from msgspec.structs import astuple

from redrive.stores.audit import LONGEST_AUDIT, MOST_AUDIT_ENTRIES, AuditEntry, AuditQuery
from redrive.stores.postgres.columns import AUDIT_ENTRY, KEY, STEP, key_row, selected
from redrive.stores.postgres.statement_runner import StatementRunner
from redrive.stores.refusals import key_exists
from redrive.stores.registry_rows import KeyRow, StepRow

# ruff: noqa: S608 - our own names, and parameters

# xmax is 0 only in a row that was inserted, not updated.
_PUT_STEP = """
INSERT INTO step_catalogue (name, body, updated_at) VALUES ($1, $2::text::json, to_timestamp($3))
ON CONFLICT (name) DO UPDATE SET body = EXCLUDED.body, updated_at = EXCLUDED.updated_at RETURNING xmax = 0
"""
_DROP_STEP = "DELETE FROM step_catalogue WHERE name = $1 RETURNING 1"
_LIST_STEPS = f"SELECT {selected(STEP, 'step_catalogue')} FROM step_catalogue ORDER BY name"

_ADD_KEY = """
INSERT INTO access_keys (id, name, role, digest, created_at, queues, definitions, expires_at, used_at)
VALUES ($1, $2, $3, $4, to_timestamp($5), $6, $7, to_timestamp($8), to_timestamp($9))
ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_DROP_KEY = "DELETE FROM access_keys WHERE id = $1 RETURNING 1"
_LIST_KEYS = f"SELECT {selected(KEY, 'access_keys')} FROM access_keys ORDER BY access_keys.created_at, id"
_EXPIRE_KEY = """
UPDATE access_keys SET expires_at = least(expires_at, to_timestamp($2)) WHERE id = $1 RETURNING 1
"""
_MARK_KEYS_USED = """
UPDATE access_keys SET used_at = greatest(used_at, to_timestamp(used.at))
FROM unnest($1::text[], $2::float8[]) AS used (id, at) WHERE access_keys.id = used.id
"""

_ADD_AUDIT_ENTRIES = """
WITH added AS (
    INSERT INTO audit_log (at, actor, origin, action, target, detail)
    SELECT to_timestamp(new.at), actor, origin, action, target, detail
    FROM unnest($1::float8[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        WITH ORDINALITY AS new (at, actor, origin, action, target, detail, place)
    ORDER BY place
    RETURNING id, at
)
DELETE FROM audit_log
WHERE id <= (SELECT max(id) FROM added) - $7::bigint
OR at < (SELECT max(at) FROM added) - make_interval(secs => $8::float8)
"""
_LIST_AUDIT_ENTRIES = f"""
SELECT {selected(AUDIT_ENTRY, "audit_log")} FROM audit_log
WHERE ($1::text IS NULL OR action = $1) AND ($3::bigint IS NULL OR id < $3)
AND ($2::text IS NULL OR target = $2 OR starts_with(target, $2 || '/'))
ORDER BY id DESC LIMIT $4
"""


class PostgresRegistry:
    async def put_step(self: StatementRunner, step: StepRow) -> bool:
        new: bool = (await self._write(_PUT_STEP, step.name, step.body, step.updated_at))[0][0]
        return new

    async def drop_step(self: StatementRunner, name: str) -> bool:
        return bool(await self._write(_DROP_STEP, name))

    async def list_steps(self: StatementRunner) -> list[StepRow]:
        return [StepRow(**row) for row in await self._read(_LIST_STEPS)]

    async def add_key(self: StatementRunner, key: KeyRow) -> None:
        if not await self._write(_ADD_KEY, *astuple(key)):
            raise key_exists(key.id)

    async def drop_key(self: StatementRunner, id: str) -> bool:  # noqa: A002 - named as the field is
        return bool(await self._write(_DROP_KEY, id))

    async def list_keys(self: StatementRunner) -> list[KeyRow]:
        return [key_row(row) for row in await self._read(_LIST_KEYS)]

    async def expire_key(self: StatementRunner, id: str, at: float) -> bool:  # noqa: A002 - named as the field is
        return bool(await self._write(_EXPIRE_KEY, id, at))

    async def mark_keys_used(self: StatementRunner, used: Mapping[str, float]) -> None:
        await self._write(_MARK_KEYS_USED, list(used), list(used.values()))

    async def add_audit_entries(
        self: StatementRunner, entries: Sequence[AuditEntry], keep: int = MOST_AUDIT_ENTRIES
    ) -> None:
        if entries:
            columns = list(zip(*map(astuple, entries), strict=True))[1:]
            await self._write(_ADD_AUDIT_ENTRIES, *columns, keep, LONGEST_AUDIT)

    async def list_audit_entries(self: StatementRunner, query: AuditQuery) -> list[AuditEntry]:
        rows = await self._read(_LIST_AUDIT_ENTRIES, query.action, query.target, query.before, query.limit)
        return [AuditEntry(**row) for row in rows]

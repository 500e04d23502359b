"""Brings the schema up to date; of many workers that start at once, one does it and the others wait for it."""

from typing import Any

from redrive.stores.migrations import migrations_of, still_to_apply
from redrive.stores.postgres.names import quoted

# Large tables may take a while to change.
_PATIENCE = 3600.0

_VERSIONS = """
CREATE TABLE IF NOT EXISTS migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def migrate(connection: Any, schema: str, where: str) -> None:
    migrations = migrations_of("redrive.stores.postgres")
    if not still_to_apply(migrations, await _version(connection, schema), where):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", schema, timeout=_PATIENCE)
        # Asked first: with IF NOT EXISTS one would need the right to create it even when it is there.
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quoted(schema)):
            await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        await connection.execute(_VERSIONS)
        for migration in still_to_apply(migrations, await _version(connection, schema), where):
            await connection.execute(migration.sql, timeout=_PATIENCE)
            await connection.execute(
                "INSERT INTO migrations (version, name) VALUES ($1, $2)", migration.version, migration.name
            )


async def refuse_newer(connection: Any, schema: str, where: str) -> None:
    """StoreUnusable when a newer redrive has brought the schema up to date since it was opened."""
    still_to_apply(migrations_of("redrive.stores.postgres"), await _version(connection, schema), where)


async def _version(connection: Any, schema: str) -> int:
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{quoted(schema)}.migrations"):
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM migrations")
    return version

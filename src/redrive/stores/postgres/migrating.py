"""Brings the schema up to date; of many workers that start at once, one does it and the others wait for it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.stores.migrations import Migration, migrations_of, still_to_apply
from redrive.stores.postgres.faults import DRIVER_FAULTS, must_wait
from redrive.stores.postgres.names import quoted

log = logging.getLogger("redrive")

# Large tables may take a while to change.
_PATIENCE = 3600.0

LOCKED_WITHIN = "1s"
"""While a change waits for the transactions that use its table, all who come after wait behind it: not for long,"""
PAUSE = 2.0
"""they have their turn before it is tried again,"""
UNLOCKED_WITHIN = 30.0
"""and a transaction that stays open for so many seconds is told."""
TOLD_AFTER = 1.0
"""Seconds after which whoever waits is told what for."""

# What a user of the database is limited to is meant for others: large tables take as long as they must.
_UNLIMITED = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout')
"""

_VERSIONS = """
CREATE TABLE IF NOT EXISTS migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""

_OLDEST_USE = """
SELECT a.pid, a.usename, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::bigint
FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE c.relnamespace = to_regnamespace($1) AND l.granted AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY a.xact_start LIMIT 1
"""


async def migrate(connection: Any, schema: str, where: str) -> None:
    migrations = migrations_of("redrive.stores.postgres")
    if not still_to_apply(migrations, await _version(connection, schema), where):
        return
    began = SYSTEM_CLOCK.monotonic()
    async with connection.transaction():
        await connection.execute(_UNLIMITED)
        with _told(f"{where}: waiting for another process that brings its tables up to date"):
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", schema, timeout=_PATIENCE)
        # Asked first: with IF NOT EXISTS one would need the right to create it even when it is there.
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quoted(schema)):
            await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        await connection.execute(_VERSIONS)
        missing = still_to_apply(migrations, await _version(connection, schema), where)
        is_told = False
        while not await _applied(connection, missing):
            user = await _who_uses(connection, schema)
            if SYSTEM_CLOCK.monotonic() - began >= UNLOCKED_WITHIN:
                raise StoreUnavailableError(
                    f"{where}: its tables cannot be brought up to date while a transaction uses them: "
                    f"{user}; end it, then try again"
                )
            if not is_told:
                log.warning(
                    "%s: waiting up to %g s to bring its tables up to date, for a transaction that uses them: %s",
                    *(where, UNLOCKED_WITHIN, user),
                )
                is_told = True
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PAUSE)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Say so, unless it is soon over."""
    timer = asyncio.get_running_loop().call_later(TOLD_AFTER, log.warning, what)
    try:
        yield
    finally:
        timer.cancel()


async def _applied(connection: Any, missing: list[Migration]) -> bool:
    """All of them; or none, and False, where someone uses their tables."""
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout TO '{LOCKED_WITHIN}'")
            for migration in missing:
                await connection.execute(migration.sql, timeout=_PATIENCE)
                await connection.execute(
                    "INSERT INTO migrations (version, name) VALUES ($1, $2)", migration.version, migration.name
                )
    except DRIVER_FAULTS as error:
        if not must_wait(error):
            raise
        return False
    return True


async def _who_uses(connection: Any, schema: str) -> str:
    row = await connection.fetchrow(_OLDEST_USE, quoted(schema))
    if row is None:
        return "one that is not listed, such as a prepared one"
    pid, user, program, state, seconds = row
    of = f" ({program})" if program else ""
    since = "" if seconds is None else f", open for {seconds} s"
    return f"process {pid} of user {user}{of}, {state or 'of another user'}{since}"


async def refuse_newer(connection: Any, schema: str, where: str) -> None:
    """StoreUnusableError when a newer redrive has brought the schema up to date since it was opened."""
    still_to_apply(migrations_of("redrive.stores.postgres"), await _version(connection, schema), where)


async def _version(connection: Any, schema: str) -> int:
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{quoted(schema)}.migrations"):
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM migrations")
    return version

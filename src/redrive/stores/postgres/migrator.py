"""Migrates the schema. Of many workers that start at once, one migrates and the others wait for it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.stores.migrations import PRE_RELEASE_COLUMN, Migration, load_migrations, pending
from redrive.stores.postgres.faults import DRIVER_FAULTS, is_lock_timeout
from redrive.stores.postgres.identifiers import quoted
from redrive.stores.refusals import pre_release_layout

log = logging.getLogger("redrive")

# Changing large tables may take a while.
_STATEMENT_TIMEOUT = 3600.0

LOCK_TIMEOUT = "1s"
"""How long a migration waits for a lock on a table; meanwhile all other users of the table queue behind it."""
RETRY_INTERVAL = 2.0
"""How many seconds they get before the migration tries again."""
GIVE_UP_AFTER = 30.0
"""After how many seconds the migration gives up and names the transaction that blocks it."""
REPORT_AFTER = 1.0
"""After how many seconds of waiting for another process a warning is logged."""

# Limits set for the database user are meant for ordinary statements; a migration takes as long as it must.
_LIFT_LIMITS = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout')
"""

_LOCK_MIGRATIONS = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"

_CREATE_VERSIONS = """
CREATE TABLE IF NOT EXISTS redrive_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""

_ADD_VERSION = "INSERT INTO redrive_migrations (version, name) VALUES ($1, $2)"
_VERSION = "SELECT coalesce(max(version), 0) FROM redrive_migrations"
_IS_PRE_RELEASE = """
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2 AND NOT attisdropped)
"""

_OLDEST_BLOCKER = """
SELECT a.pid, a.usename, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::bigint
FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE c.relnamespace = to_regnamespace($1) AND l.granted AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY a.xact_start LIMIT 1
"""


async def migrate(connection: Any, schema: str, where: str) -> None:
    """Apply the migrations that the schema lacks, creating the schema if needed."""
    migrations = load_migrations("redrive.stores.postgres")
    if not pending(migrations, await _version(connection, schema, where), where):
        return
    began = SYSTEM_CLOCK.monotonic()
    async with connection.transaction():
        await connection.execute(_LIFT_LIMITS)
        with _reported(f"{where}: waiting for another process that is migrating the schema"):
            await connection.execute(_LOCK_MIGRATIONS, schema, timeout=_STATEMENT_TIMEOUT)
        # Not IF NOT EXISTS, which needs the privilege to create a schema even when it exists.
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quoted(schema)):
            await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        await connection.execute(_CREATE_VERSIONS)
        missing = pending(migrations, await _version(connection, schema, where), where)
        is_reported = False
        while not await _apply(connection, missing):
            blocker = await _describe_blocker(connection, schema)
            if SYSTEM_CLOCK.monotonic() - began >= GIVE_UP_AFTER:
                raise StoreUnavailableError(
                    f"{where}: the schema cannot be migrated while a transaction uses its tables: "
                    f"{blocker}; end it, then try again"
                )
            if not is_reported:
                log.warning(
                    "%s: waiting up to %g s to migrate the schema, for a transaction that uses its tables: %s",
                    *(where, GIVE_UP_AFTER, blocker),
                )
                is_reported = True
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + RETRY_INTERVAL)


async def refuse_newer_schema(connection: Any, schema: str, where: str) -> None:
    """Raise StoreTooNewError when a newer redrive has migrated the schema since it was opened."""
    pending(load_migrations("redrive.stores.postgres"), await _version(connection, schema, where), where)


@contextmanager
def _reported(warning: str) -> Iterator[None]:
    """Log the warning unless the block ends soon."""
    timer = asyncio.get_running_loop().call_later(REPORT_AFTER, log.warning, warning)
    try:
        yield
    finally:
        timer.cancel()


async def _apply(connection: Any, missing: list[Migration]) -> bool:
    """Apply all of the migrations, or none and return False when a table is locked."""
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout TO '{LOCK_TIMEOUT}'")
            for migration in missing:
                await connection.execute(migration.sql, timeout=_STATEMENT_TIMEOUT)
                await connection.execute(_ADD_VERSION, migration.version, migration.name)
    except DRIVER_FAULTS as error:
        if not is_lock_timeout(error):
            raise
        return False
    return True


async def _describe_blocker(connection: Any, schema: str) -> str:
    row = await connection.fetchrow(_OLDEST_BLOCKER, quoted(schema))
    if row is None:
        return "one that is not listed, such as a prepared transaction"
    pid, user, program, state, seconds = row
    application = f" ({program})" if program else ""
    since = "" if seconds is None else f", open for {seconds} s"
    return f"process {pid} of user {user}{application}, {state or 'state not visible'}{since}"


async def _version(connection: Any, schema: str, where: str) -> int:
    tables = quoted(schema)
    if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{tables}.redrive_migrations"):
        version: int = await connection.fetchval(_VERSION)
        return version
    if await connection.fetchval(_IS_PRE_RELEASE, f"{tables}.flows", PRE_RELEASE_COLUMN):
        raise pre_release_layout(where)
    return 0

"""Connects to the server, sets up the session, and refuses poolers that share it."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redrive.errors import StoreUnusableError
from redrive.stores.postgres.faults import (
    CLOSED_MIDWAY,
    CONNECTING_FAULTS,
    DRIVER_FAULTS,
    REFUSED_STATEMENT,
    USE_SESSION_MODE,
    connecting_failed,
)
from redrive.stores.postgres.identifiers import quoted

try:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations
except ImportError:
    asyncpg = None

CONNECT_TIMEOUT = 10
CANCEL_GRACE = 0.5
"""How many seconds a connection attempt that is cancelled may still take."""
COMMAND_TIMEOUT = 60.0
"""How many seconds the server may take to answer before the connection counts as lost."""
CLOSE_TIMEOUT = 2.0
IDLE_IN_TRANSACTION_TIMEOUT = "5s"
"""A client that hangs inside a transaction must not block others for longer than a lease lasts."""
MIN_SERVER_VERSION = 14
ENCODINGS = ("UTF8", "SQL_ASCII")
"""The encodings that can store any text; SQL_ASCII stores the bytes as they are."""

_EXAMPLE = "write postgresql://user@host:5432/database, and / ? # @ in a password or a name as %2F %3F %23 %40"
_SESSION_ID = "SELECT pg_backend_pid()"
# A promoted standby begins a new timeline, and may lack what its primary committed last.
_TIMELINE = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
# The locking rules that the statements rely on are those of READ COMMITTED, whatever the database's default is.
_SESSION = """
SET standard_conforming_strings TO on;
SET search_path TO {schema};
SET jit TO off;
SET default_transaction_isolation TO 'read committed';
SET idle_in_transaction_session_timeout TO '{idle_in_transaction}';
SET idle_session_timeout TO 0
"""

USE_INDEXES = """;
SET plan_cache_mode TO force_generic_plan;
SET enable_seqscan TO off;
SET enable_hashjoin TO off;
SET enable_mergejoin TO off
"""
"""Session settings for the engine's statements: use indexes, whatever the table statistics say."""

# Safe for claims: no work of a claimed flow is done before a commit that waits for the disk, and that flushes the
# claim too.
NO_FLUSH = """;
SET synchronous_commit TO off
"""
"""Session settings for a connection whose commits do not wait for the disk."""


class Server:
    """Opens connections to one database."""

    def __init__(self, url: str, schema: str) -> None:
        self.address = public_address(url)
        self.timeline: str | None = None
        """The timeline of the server at the last connect; None where the server does not tell.

        When it changes, the database is another one: commits that were acknowledged before may be gone.
        """
        self._url = url
        self._session = _SESSION.format(schema=quoted(schema), idle_in_transaction=IDLE_IN_TRANSACTION_TIMEOUT)

    async def connect(self, setup: str = "", command_timeout: bool = True) -> Any:
        """Open a connection; with `command_timeout`, the driver limits the time of each command."""
        if asyncpg is None:
            raise StoreUnusableError("PostgreSQL needs the asyncpg driver: pip install 'redrive[postgres]'")
        try:
            connection = await _finish_connecting(
                asyncpg.connect(
                    self._url,
                    timeout=CONNECT_TIMEOUT,
                    command_timeout=COMMAND_TIMEOUT if command_timeout else None,
                    max_cached_statement_lifetime=0,
                    max_cacheable_statement_size=0,
                )
            )
        except CONNECTING_FAULTS as error:
            raise connecting_failed(self.address, error) from None
        try:
            version: int = connection.get_server_version().major
            if version < MIN_SERVER_VERSION:
                raise StoreUnusableError(
                    f"{self.address}: the server is PostgreSQL {version}; use {MIN_SERVER_VERSION} or newer"
                )
            encoding: str = connection.get_settings().server_encoding
            if encoding not in ENCODINGS:
                raise StoreUnusableError(
                    f"{self.address}: the database's encoding {encoding} cannot store all text;"
                    " create the database with ENCODING 'UTF8'"
                )
            await connection.execute(self._session + setup, timeout=CONNECT_TIMEOUT)
            self.timeline = await _timeline(connection) or self.timeline
        except BaseException as error:
            connection.terminate()
            if isinstance(error, Exception) and isinstance(error, (*DRIVER_FAULTS, CLOSED_MIDWAY)):
                raise connecting_failed(self.address, error, connected=True) from None
            raise
        return connection


def public_address(url: str) -> str:
    """Return the address without the password; StoreUnusableError when it is not an address of PostgreSQL."""
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2].lower()
        for host in hosts.split(","):
            # Reading the port parses it.
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # The error quotes the host or the port, which may be part of a password, so it is not shown.
        raise StoreUnusableError(f"the PostgreSQL address has an invalid host or port; {_EXAMPLE}") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise StoreUnusableError(f"{parts.scheme or 'nothing'}:// is not an address of PostgreSQL; {_EXAMPLE}")
    # An @ outside the settings means that the host comes later, and that a password precedes it.
    beyond = (parts.path, *(field for field in parts.query.split("&") if "=" not in field), parts.fragment)
    if any("@" in part for part in beyond):
        raise StoreUnusableError(f"the PostgreSQL address has an @ after its host; {_EXAMPLE}")
    hosts = hosts or parse_qs(parts.query).get("host", [""])[0]
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{hosts}{parts.path}"


async def _finish_connecting(connect: Coroutine[Any, Any, Any]) -> Any:
    """Await the connection; when cancelled, let the driver finish for a moment.

    A driver that is cut off midway leaves an exception that nobody retrieves, and the event loop prints it.
    """
    connecting = asyncio.ensure_future(connect)
    try:
        await asyncio.wait([connecting])
    except asyncio.CancelledError:
        try:
            await asyncio.wait([connecting], timeout=CANCEL_GRACE)
        finally:
            if not connecting.cancel() and not connecting.cancelled() and connecting.exception() is None:
                connecting.result().terminate()
        raise
    return connecting.result()


async def _timeline(connection: Any) -> str | None:
    try:
        timeline: str | None = await connection.fetchval(_TIMELINE, timeout=CONNECT_TIMEOUT)
    except REFUSED_STATEMENT:
        # Services that replace the storage layer do not have these functions, and lose no commits at a failover.
        return None
    return timeline


async def close_quietly(connection: Any) -> None:
    """Close the connection; terminate it when the server does not answer."""
    try:
        await connection.close(timeout=CLOSE_TIMEOUT)
    except DRIVER_FAULTS:
        connection.terminate()


async def refuse_shared_sessions(server: Server, connection: Any) -> None:
    """Raise StoreUnusableError when another connection gets the session of this one, which is still open.

    Settings of one (the schema, what a commit waits for) would apply to the other, and to strangers.
    """
    if await connection.fetchval(_SESSION_ID) == connection.get_server_pid():
        # The server announced the same process id at connect, so there is no pooler in between.
        return
    other = await server.connect()
    try:
        # A pooler lends the session first that was returned last.
        is_shared = await connection.fetchval(_SESSION_ID) == await other.fetchval(_SESSION_ID)
    finally:
        await close_quietly(other)
    if is_shared:
        raise StoreUnusableError(
            f"{server.address}: a connection pooler shares one session among several connections; {USE_SESSION_MODE}"
        )

"""Refuses a connection pooler that does not keep one session for each connection."""

from typing import Any

from redrive.errors import StoreUnusableError
from redrive.stores.postgres.faults import USE_SESSION_MODE
from redrive.stores.postgres.server import Server, close_quietly

_SESSION = "SELECT pg_backend_pid()"


async def refuse_shared_sessions(server: Server, connection: Any) -> None:
    """Raise StoreUnusableError when another connection gets the session of this one, which is still open.

    Settings of one (the schema, what a commit waits for) would apply to the other, and to strangers.
    """
    if await connection.fetchval(_SESSION) == connection.get_server_pid():
        # The server announced the same process id at connect, so there is no pooler in between.
        return
    other = await server.connect()
    try:
        # A pooler lends the session first that was returned last.
        is_shared = await connection.fetchval(_SESSION) == await other.fetchval(_SESSION)
    finally:
        await close_quietly(other)
    if is_shared:
        raise StoreUnusableError(
            f"{server.address}: a connection pooler shares one session among several connections; {USE_SESSION_MODE}"
        )

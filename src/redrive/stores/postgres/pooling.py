"""Whether a pool between this process and the server keeps one session for each connection."""

from typing import Any

from redrive.errors import StoreUnusableError
from redrive.stores.postgres.connections import Server, close_quietly
from redrive.stores.postgres.faults import USE_SESSION_MODE

_SESSION = "SELECT pg_backend_pid()"


async def refuse_shared_sessions(server: Server, connection: Any) -> None:
    """StoreUnusableError where another connection is given the session of this one, which is still open.

    What one of them sets there (the schema, what a commit waits for) would hold for the other, and for strangers.
    """
    if await connection.fetchval(_SESSION) == connection.get_server_pid():
        # The server told its own number when it let us in: nobody stands between.
        return
    other = await server.connect()
    try:
        # A pool lends the session first that it got back last.
        is_shared = await connection.fetchval(_SESSION) == await other.fetchval(_SESSION)
    finally:
        await close_quietly(other)
    if is_shared:
        raise StoreUnusableError(
            f"{server.address}: a pool lends the same session to several connections in turn; {USE_SESSION_MODE}"
        )

"""The server as a process: from an address to bind to until it is told to stop."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from redrive.server.api import Api

GRACE = 5
"""Seconds that requests get to end when the server stops."""
LARGEST_HEADERS = 32 * 1024
MOST_CONNECTIONS = 2000


class Server(uvicorn.Server):
    """uvicorn, whose signals are someone else's business."""

    def __init__(self, api: Api) -> None:
        self._api = api
        super().__init__(
            uvicorn.Config(
                api.asgi,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                proxy_headers=False,
                ws="none",
                h11_max_incomplete_event_size=LARGEST_HEADERS,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=GRACE,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """Take no more requests; those that run may end, and event streams end at once."""
        self._api.stop()
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A socket for the server, which will listen there; OSError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (no Nagle) only where the protocol is named.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def started(server: Server, serving: "asyncio.Task[None]") -> bool:
    """Wait until it answers; False when it ended before."""
    while not server.started and not serving.done():
        await asyncio.wait([serving], timeout=0.01)
    return server.started

"""Serve the API with uvicorn."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from redrive.server.api import Api

GRACE = 5
"""Seconds that running requests may take to finish when the server stops."""
LARGEST_HEADERS = 32 * 1024
MOST_CONNECTIONS = 2000


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

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
        """Accept no more requests; running ones may finish, and event streams end."""
        self._api.stop()
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address; OSError if it is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given.
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


async def wait_until_started(server: HttpServer, serving: "asyncio.Task[None]") -> bool:
    """Wait until the server accepts requests; False if it ended before."""
    while not server.started and not serving.done():
        await asyncio.wait([serving], timeout=0.01)
    return server.started

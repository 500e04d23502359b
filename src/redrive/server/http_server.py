"""Serve the API with uvicorn."""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Iterator

import uvicorn

from redrive.determinism.clock import current_clock
from redrive.server.api import Api
from redrive.server.middleware import LARGEST_HEADERS
from redrive.server.transport.connections import Connections
from redrive.server.transport.file_descriptors import spare_descriptors
from redrive.server.transport.gate import ConnectionGate

GRACE = 5
"""Seconds that running requests may take to finish when the server stops."""
ACCEPTED_AT_ONCE = 64
"""Connections that the event loop accepts in one turn."""
LISTEN_QUEUE = 2048
"""Connections that the system keeps until they are accepted."""
TICKS_BETWEEN_CHECKS = 5
"""uvicorn ticks ten times a second."""


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller, and limits the resources that clients can use.

    tls: serve HTTPS with it; None: plain HTTP.
    """

    def __init__(self, api: Api, tls: ssl.SSLContext | None = None) -> None:
        self._api = api
        self._tls = tls
        self._clock = current_clock()
        settings = api.settings
        most = min(settings.connections, spare_descriptors() - settings.reserve)
        self._connections = Connections(most, min(settings.connections_per_peer, most), settings.reserve)
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
                timeout_graceful_shutdown=GRACE,
            )
        )

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections through the gate; uvicorn calls this."""
        new_protocol = functools.partial(
            ConnectionGate,
            self._connections,
            self._api.settings,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self.servers = [
            await asyncio.get_running_loop().create_server(
                new_protocol,
                sock=bound,
                backlog=ACCEPTED_AT_ONCE,
                ssl=self._tls,
                ssl_handshake_timeout=self._api.settings.header_timeout if self._tls else None,
            )
            for bound in sockets or ()
        ]
        for bound in sockets or ():
            # asyncio uses one number for the length of the queue and for how many it accepts in one turn.
            bound.listen(LISTEN_QUEUE)
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_BETWEEN_CHECKS == 0:
            self._connections.check(self._clock.monotonic())
        return await super().on_tick(counter)

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


def url_of(bound: socket.socket, scheme: str = "http") -> str:
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def wait_until_started(server: HttpServer, serving: "asyncio.Task[None]") -> bool:
    """Wait until the server accepts requests; False if it ended before."""
    while not server.started and not serving.done():
        await asyncio.wait([serving], timeout=0.01)
    return server.started

"""Admit a new connection if there is room for it, and hand it to the HTTP protocol."""

import asyncio
from typing import Any, cast

from redrive.server.settings import ServerSettings
from redrive.server.transport.connections import Connections, peer_of
from redrive.server.transport.guard import ConnectionGuard
from redrive.server.transport.http_protocol import HttpProtocol


class ConnectionGate(asyncio.Protocol):
    """The protocol of a new connection; if there is no room for it, the connection is closed at once."""

    def __init__(self, connections: Connections, settings: ServerSettings, **arguments: Any) -> None:
        self._connections = connections
        self._settings = settings
        self._arguments = arguments
        """The arguments that uvicorn passes to a protocol."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        peer = peer_of(accepted.get_extra_info("peername"))
        guard = ConnectionGuard(peer, accepted, self._settings.write_timeout)
        place = self._connections.admit(guard)
        if place is None:
            accepted.abort()
            return
        protocol = HttpProtocol(self._connections, guard, place, self._settings, **self._arguments)
        accepted.set_protocol(protocol)
        protocol.connection_made(accepted)

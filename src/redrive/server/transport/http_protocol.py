"""uvicorn's HTTP protocol, with deadlines for clients and problem responses to malformed requests."""

import asyncio
import logging
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.server.contract.problems import MEDIA_TYPE, ProblemError
from redrive.server.settings import ServerSettings
from redrive.server.transport.connections import Connections, Place
from redrive.server.transport.guard import ConnectionGuard

RESERVED = "redrive.reserved"
"""The key of the ASGI scope's state that is set if the connection may only check the server's health."""
WARNINGS_A_SECOND = 20


class _FewWarnings(logging.Filter):
    """Lets a few warnings pass each second: anyone who reaches the server can cause one with each connection."""

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self._passed = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.WARNING:
            return True
        second = int(SYSTEM_CLOCK.monotonic())
        self._passed = self._passed + 1 if second == self._second else 1
        self._second = second
        return self._passed <= WARNINGS_A_SECOND


_log = logging.getLogger("redrive.server.http")
_log.addFilter(_FewWarnings())


class HttpProtocol(H11Protocol):
    def __init__(
        self,
        connections: Connections,
        guard: ConnectionGuard,
        place: Place,
        settings: ServerSettings,
        *,
        app_state: dict[str, Any],
        **arguments: Any,
    ) -> None:
        super().__init__(app_state={**app_state, RESERVED: place == "reserved"}, **arguments)
        # Here uvicorn writes one line about each request that is malformed.
        self.logger = _log
        self._connections = connections
        self._guard = guard
        self._settings = settings
        self._in_request = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        super().connection_made(transport)
        self._guard.expect(self._settings.header_timeout, self._headers_too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.release(self._guard)
        self._guard.nothing_expected()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look_at_request()
        cycle = self.cycle
        if cycle is not None and cycle.body and cycle.more_body and not cycle.response_complete:
            # More is read when the endpoint asks for it: the body of a request that is refused stays with the client.
            self.flow.pause_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look_at_request()

    def _look_at_request(self) -> None:
        """Set the deadline for what the client has to do next."""
        if self.transport.is_closing():
            self._end_request()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            # Reading the body has deadlines of its own.
            self._guard.nothing_expected()
            if not self._in_request:
                self._in_request = True
                self._connections.request_began(self._guard)
            return
        if self.conn.their_state is h11.SEND_BODY:
            # The response did not wait for the body. The client gets a moment to read the response.
            if self._in_request:
                self._guard.expect(self._settings.linger)
        elif self._in_request:
            # Until the first byte of the next request, uvicorn's own limit for idle connections holds.
            self._guard.nothing_expected()
        elif not self._guard.has_deadline:
            self._guard.expect(self._settings.header_timeout, self._headers_too_late)
        self._end_request()

    def _end_request(self) -> None:
        if self._in_request:
            self._in_request = False
            self._connections.request_ended(self._guard)

    def _headers_too_late(self) -> None:
        self._refuse(408, "the headers of the request took too long to arrive")

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request; uvicorn calls this."""
        self._refuse(400, "this is not a valid HTTP request: the request line, a header or the body is malformed")

    def _refuse(self, status: int, detail: str) -> None:
        """Send a problem, if no answer has begun, and close the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            # The endpoint is told that the client is gone, and does not answer as well.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            problem = ProblemError(status, detail)
            headers = [
                ("Content-Type", MEDIA_TYPE),
                ("Content-Length", str(len(problem.body))),
                ("Connection", "close"),
            ]
            for event in (
                h11.Response(status_code=status, headers=headers, reason=problem.problem.title.encode()),
                h11.Data(data=problem.body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a server may ignore an upgrade, and this one supports none."""

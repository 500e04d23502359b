"""Enforce the deadlines of one connection: for what the client must send next, and for reading the response."""

import asyncio
from collections.abc import Callable

from redrive.determinism.clock import current_clock

NEVER = float("inf")


class ConnectionGuard:
    """The deadlines of one connection; the server calls `check` a few times a second."""

    def __init__(self, peer: str, transport: asyncio.Transport, write_timeout: float) -> None:
        self.peer = peer
        self._transport = transport
        self._write_timeout = write_timeout
        self._clock = current_clock()
        self._deadline = NEVER
        self._too_late: Callable[[], None] | None = None
        """Called when the deadline has passed; None: `drop`."""
        self._unsent = 0
        self._unsent_since = 0.0

    @property
    def has_deadline(self) -> bool:
        return self._deadline != NEVER

    def expect(self, within: float, otherwise: Callable[[], None] | None = None) -> None:
        """Close the connection, or call `otherwise`, unless `nothing_expected` is called in time."""
        self._deadline = self._clock.monotonic() + within
        self._too_late = otherwise

    def nothing_expected(self) -> None:
        self._deadline = NEVER
        # It refers to the protocol, which refers to this: the two would stay until the garbage is collected.
        self._too_late = None

    def drop(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if the client is too slow."""
        if now >= self._deadline:
            too_late = self._too_late or self.drop
            self.nothing_expected()
            too_late()
        unsent = self._transport.get_write_buffer_size()
        if unsent and unsent == self._unsent:
            if now - self._unsent_since >= self._write_timeout:
                self.drop()
        else:
            self._unsent, self._unsent_since = unsent, now

"""Connections that are opened when first used and reopened after they were lost."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.stores.postgres.faults import (
    CLOSED_MIDWAY,
    DRIVER_FAULTS,
    OUT_OF_SYNC,
    is_read_only,
    statement_failed,
)
from redrive.stores.postgres.server import COMMAND_TIMEOUT, Server, close_quietly
from redrive.stores.refusals import not_open

T = TypeVar("T")

CLOSING_COMMAND_TIMEOUT = 2.0
"""How many seconds the server may take to answer once the store is being closed."""
PLAN_LIFETIME = 5.0
"""After how many seconds plans are made anew: a plan made for an empty table scans all of a full one."""


class SharedConnection:
    """One connection that its users take in turns.

    Each use has a time limit, which one timer watches: the driver's own timers, one for each command, cost several
    percent of a commit. With `unlimited_use`, the driver limits each command instead.
    """

    def __init__(
        self,
        server: Server,
        setup: str = "",
        unlimited_use: bool = False,
        timeout: float = math.inf,
        plan_lifetime: float = math.inf,
    ) -> None:
        self.timeout = timeout
        """How many seconds a use may take, where that is less than COMMAND_TIMEOUT."""
        self._server = server
        self._setup = setup
        self._unlimited_use = unlimited_use
        self._plan_lifetime = plan_lifetime
        self._plans_expire_at = math.inf
        self._lock = asyncio.Lock()
        self._connection: Any = None
        self._refusal: Callable[[], StoreError] | None = self._not_open
        self._in_use_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timed_out = False

    async def run(self, use: Callable[[Any], Awaitable[T]], writes: bool = False) -> T:
        """Call `use` with the connection, reopening it if needed; driver errors are raised as store errors."""
        async with self._lock:
            self.check_open()
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._server.connect(self._setup, command_timeout=self._unlimited_use)
                self.check_open()
                self._plans_expire_at = SYSTEM_CLOCK.monotonic() + self._plan_lifetime
            self._timed_out, self._in_use_since = False, SYSTEM_CLOCK.monotonic()
            if self._timer is None and not self._unlimited_use:
                self._check_after(min(self.timeout, COMMAND_TIMEOUT))
            try:
                if self._in_use_since > self._plans_expire_at:
                    self._plans_expire_at = self._in_use_since + self._plan_lifetime
                    await self._connection.execute("DISCARD PLANS")
                return await use(self._connection)
            except asyncio.CancelledError:
                # It may be lost or inside a transaction; the next user must not inherit that.
                self._connection.terminate()
                raise
            except DRIVER_FAULTS as error:
                # Not `from error`: the server's details repeat values.
                raise self._failed(error, self._is_lost(error), writes) from None
            except CLOSED_MIDWAY:
                if not self._connection.is_closed():
                    raise
                raise self._failed(ConnectionError("closed in the middle of a statement"), True, writes) from None
            finally:
                self._in_use_since = None

    def _check_timeout(self) -> None:
        """Terminate the connection when its use has taken too long; the user sees a lost connection."""
        self._timer = None
        if self._in_use_since is None:
            return
        left = self._in_use_since + min(self.timeout, COMMAND_TIMEOUT) - SYSTEM_CLOCK.monotonic()
        if left > 0 and self._refusal is None:
            self._check_after(left)
        else:
            self._timed_out = True
            self._connection.terminate()

    def _check_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_timeout)

    def _failed(self, error: Exception, lost: bool, writes: bool) -> StoreError:
        return statement_failed(self._server.address, TimeoutError() if self._timed_out else error, lost, writes)

    def _is_lost(self, error: Exception) -> bool:
        if isinstance(error, OUT_OF_SYNC):
            self._connection.terminate()
        lost = bool(self._connection.is_closed())
        if is_read_only(error):
            # A session never notices that a standby was promoted; a new one does.
            self._connection.terminate()
        return lost

    async def disconnect(self) -> None:
        async with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._connection is not None and not self._connection.is_closed():
                await close_quietly(self._connection)

    def open(self) -> None:
        """Allow uses from now on; the first one connects."""
        # A new one: a store may be opened again in another event loop.
        self._lock = asyncio.Lock()
        self._refusal = None

    def refuse(self) -> None:
        """Refuse new uses, and shorten the time that a running one may take."""
        self._refusal = self._closed
        if not self._unlimited_use:
            self._check_after(CLOSING_COMMAND_TIMEOUT)

    async def close(self) -> None:
        self.refuse()
        await self.disconnect()

    def check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal()

    def _not_open(self) -> StoreError:
        return not_open(self._server.address)

    def _closed(self) -> StoreError:
        # Not StoreUnavailableError: a closed store does not come back, so nobody should wait for it.
        return StoreError(f"{self._server.address}: the store is closed")


class ConnectionPool:
    """Several shared connections; each use takes a free one or waits for it."""

    def __init__(self, server: Server, size: int) -> None:
        self._free = [SharedConnection(server) for _ in range(size)]
        self._all = tuple(self._free)
        self._available = asyncio.Semaphore(size)

    async def run(self, use: Callable[[Any], Awaitable[T]], writes: bool = False) -> T:
        async with self._available:
            # The one used last, so that no more connections are opened than needed.
            connection = self._free.pop()
            try:
                return await connection.run(use, writes)
            finally:
                self._free.append(connection)

    def open(self) -> None:
        for connection in self._all:
            connection.open()

    def check_open(self) -> None:
        self._all[0].check_open()

    async def close(self) -> None:
        for connection in self._all:
            connection.refuse()
        await asyncio.gather(*(connection.disconnect() for connection in self._all))

"""Connections: few, opened when first used, and opened again after they were lost."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError, StoreUnusableError
from redrive.stores.postgres.faults import (
    CLOSED_BETWEEN,
    CONNECTING_FAULTS,
    DRIVER_FAULTS,
    LOST_TRACK,
    connecting_failed,
    may_only_read,
    statement_failed,
)
from redrive.stores.postgres.names import public_address, quoted
from redrive.stores.postgres.turns import Turns

try:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations
except ImportError:
    asyncpg = None

T = TypeVar("T")

CONNECT_WITHIN = 10
CONNECTED_ALMOST = 0.5
"""Seconds that one who is cancelled while connecting still has for that."""
ANSWER_WITHIN = 60.0
"""Seconds after which a server that does not answer counts as lost,"""
ANSWER_TO_CLOSING_WITHIN = 2.0
"""and after which it does where the store is to be closed."""
GOODBYE_WITHIN = 2.0
LONGEST_PAUSE_IN_TRANSACTION = "5s"
"""A client that stopped inside a transaction must not hold the others up for longer than a lease lasts."""
OLDEST_SERVER = 14
ENCODINGS = ("UTF8", "SQL_ASCII")
"""Those that keep all text: the second takes bytes as they come."""

# The rules by which statements wait for each other are those of READ COMMITTED, whatever the database's default is.
_SESSION = """
SET standard_conforming_strings TO on;
SET search_path TO {schema};
SET jit TO off;
SET default_transaction_isolation TO 'read committed';
SET idle_in_transaction_session_timeout TO '{pause}';
SET idle_session_timeout TO 0
"""

# The statements of the engine go by index, whatever the server knows of the tables.
BY_INDEX = """;
SET plan_cache_mode TO force_generic_plan;
SET enable_seqscan TO off;
SET enable_hashjoin TO off;
SET enable_mergejoin TO off
"""


PLANS_LAST = 5.0
"""Seconds after which plans are made anew: one that was made for an empty table goes through all of a full one."""

# Nothing is done for a claim before a commit that waits for the disk, and that brings all before it to the disk too.
WITHOUT_WAITING = """;
SET synchronous_commit TO off
"""


class Server:
    """Where to connect, and how."""

    def __init__(self, url: str, schema: str) -> None:
        self.address = public_address(url)
        self._url = url
        self._session = _SESSION.format(schema=quoted(schema), pause=LONGEST_PAUSE_IN_TRANSACTION)

    async def connect(self, setup: str = "", bounded: bool = True) -> Any:
        """`bounded`: the driver sees to it that each command is answered in time."""
        if asyncpg is None:
            raise StoreUnusableError("PostgreSQL needs the asyncpg driver: pip install 'redrive[postgres]'")
        try:
            connection = await _to_the_end(
                asyncpg.connect(
                    self._url,
                    timeout=CONNECT_WITHIN,
                    command_timeout=ANSWER_WITHIN if bounded else None,
                    max_cached_statement_lifetime=0,
                    max_cacheable_statement_size=0,
                )
            )
        except CONNECTING_FAULTS as error:
            raise connecting_failed(self.address, error) from None
        try:
            version: int = connection.get_server_version().major
            if version < OLDEST_SERVER:
                raise StoreUnusableError(f"{self.address}: this is PostgreSQL {version}; use {OLDEST_SERVER} or newer")
            encoding: str = connection.get_settings().server_encoding
            if encoding not in ENCODINGS:
                raise StoreUnusableError(
                    f"{self.address}: the database keeps text as {encoding}, which has no room for all of it;"
                    " create the database with ENCODING 'UTF8'"
                )
            await connection.execute(self._session + setup, timeout=CONNECT_WITHIN)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, DRIVER_FAULTS):
                raise connecting_failed(self.address, error) from None
            raise
        return connection


async def _to_the_end(connect: Coroutine[Any, Any, Any]) -> Any:
    """Cut off half way, the driver leaves an error to nobody, which the loop prints: whoever is cancelled waits."""
    connecting = asyncio.ensure_future(connect)
    try:
        await asyncio.wait([connecting])
    except asyncio.CancelledError:
        try:
            await asyncio.wait([connecting], timeout=CONNECTED_ALMOST)
        finally:
            if not connecting.cancel() and not connecting.cancelled() and connecting.exception() is None:
                connecting.result().terminate()
        raise
    return connecting.result()


class Lane:
    """One connection; who comes while it is in use waits for their turn.

    Each use of it has to end in time, and one timer serves them all: those of the driver, one for each command, take
    several percent of a commit. With `lengthy` uses each command has to.
    """

    def __init__(
        self,
        server: Server,
        setup: str = "",
        lengthy: bool = False,
        within: float = math.inf,
        plans_last: float = math.inf,
    ) -> None:
        """`within`: the seconds that a use may take, where that is less than the server has in general."""
        self.within = within
        self._server = server
        self._setup = setup
        self._lengthy = lengthy
        self._plans_last = plans_last
        self._plans_end = math.inf
        self._turns = Turns()
        self._connection: Any = None
        self._refused: Callable[[], StoreError] | None = self._not_open
        self._in_use_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gave_up = False

    async def run(self, use: Callable[[Any], Awaitable[T]], writes: bool = False) -> T:
        """Use the connection. What goes wrong is told in the store's own errors; it is opened again the next time."""
        if self._turns.taken:
            await self._turns.wait()
        self._turns.taken = True
        try:
            self.check_open()
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._server.connect(self._setup, bounded=self._lengthy)
                self.check_open()
                self._plans_end = SYSTEM_CLOCK.monotonic() + self._plans_last
            self._gave_up, self._in_use_since = False, SYSTEM_CLOCK.monotonic()
            if self._timer is None and not self._lengthy:
                self._look_after(min(self.within, ANSWER_WITHIN))
            try:
                if self._in_use_since > self._plans_end:
                    self._plans_end = self._in_use_since + self._plans_last
                    await self._connection.execute("DISCARD PLANS")
                return await use(self._connection)
            except asyncio.CancelledError:
                # It may be lost, or in a transaction: whoever is next would wait for its answer, or be in that.
                self._connection.terminate()
                raise
            except DRIVER_FAULTS as error:
                # Not `from error`: what the server adds to it repeats values.
                raise self._failed(error, self._lost(error), writes) from None
            except CLOSED_BETWEEN:
                if not self._connection.is_closed():
                    raise
                raise self._failed(ConnectionError("closed in the middle of a statement"), True, writes) from None
        finally:
            self._in_use_since = None
            self._turns.hand_on()

    def _look(self) -> None:
        """A server that has not answered in time is given up; who waits for it hears of a lost connection."""
        self._timer = None
        if self._in_use_since is None:
            return
        left = self._in_use_since + min(self.within, ANSWER_WITHIN) - SYSTEM_CLOCK.monotonic()
        if left > 0 and self._refused is None:
            self._look_after(left)
        else:
            self._gave_up = True
            self._connection.terminate()

    def _look_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _failed(self, error: Exception, lost: bool, writes: bool) -> StoreError:
        return statement_failed(self._server.address, TimeoutError() if self._gave_up else error, lost, writes)

    def _lost(self, error: Exception) -> bool:
        """Whether the connection is; after a timeout nobody knows what it would say next."""
        if isinstance(error, LOST_TRACK):
            self._connection.terminate()
        lost = bool(self._connection.is_closed())
        if may_only_read(error):
            # A session keeps what the database was when it began: only a new one finds it writable again.
            self._connection.terminate()
        return lost

    async def disconnect(self) -> None:
        if self._turns.taken:
            await self._turns.wait()
        self._turns.taken = True
        try:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._connection is not None and not self._connection.is_closed():
                await close_quietly(self._connection)
        finally:
            self._turns.hand_on()

    def open(self) -> None:
        """Connect from now on, when first used."""
        self._refused = None

    def refuse(self) -> None:
        """Whoever comes from now on; and whoever waits for an answer waits for a little while only."""
        self._refused = self._closed
        if not self._lengthy:
            self._look_after(ANSWER_TO_CLOSING_WITHIN)

    async def close(self) -> None:
        self.refuse()
        await self.disconnect()

    def check_open(self) -> None:
        if self._refused is not None:
            raise self._refused()

    def _not_open(self) -> StoreError:
        return StoreError(
            f"{self._server.address}: the store is not open; use it inside `async with redrive.open(...)`"
        )

    def _closed(self) -> StoreError:
        # Not StoreUnavailableError: whoever waits for it to come back would wait for ever.
        return StoreError(f"{self._server.address}: the store is closed")


class Lanes:
    """Several lanes; each call takes one that is free, or waits for it."""

    def __init__(self, server: Server, most: int) -> None:
        self._free = [Lane(server) for _ in range(most)]
        self._all = tuple(self._free)
        self._places = asyncio.Semaphore(most)

    async def run(self, use: Callable[[Any], Awaitable[T]], writes: bool = False) -> T:
        async with self._places:
            # The one used last: the others need not be opened before they are needed.
            lane = self._free.pop()
            try:
                return await lane.run(use, writes)
            finally:
                self._free.append(lane)

    async def disconnect(self) -> None:
        await asyncio.gather(*(lane.disconnect() for lane in self._all))

    def open(self) -> None:
        for lane in self._all:
            lane.open()

    def check_open(self) -> None:
        self._all[0].check_open()

    async def close(self) -> None:
        for lane in self._all:
            lane.refuse()
        await self.disconnect()


async def close_quietly(connection: Any) -> None:
    """Say goodbye; a server that does not answer is left without one."""
    try:
        await connection.close(timeout=GOODBYE_WITHIN)
    except DRIVER_FAULTS:
        connection.terminate()

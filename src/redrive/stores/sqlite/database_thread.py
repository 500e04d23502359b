"""A thread that owns one connection and does what it is given, each piece of work as one transaction."""

import asyncio
import contextlib
import enum
import math
import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.stores.sqlite.faults import as_store_error, is_busy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_Waiting = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Job = tuple[_Waiting, str, Callable[..., Any], tuple[Any, ...]]
Look = Callable[[sqlite3.Connection], None]


class _Signal(enum.Enum):
    LOOK = enum.auto()
    STOP = enum.auto()


_Jobs = SimpleQueue[_Job | _Signal]
FLUSHED, UNFLUSHED = "FULL", "NORMAL"
"""How a transaction ends, as SQLite calls it: with all on disk, or without waiting for that."""
LOOK_EVERY = 0.005
NAP = 0.001


class DatabaseThread:
    """Work comes in by a queue, and its outcome goes back to the event loop that asked.

    That is two hops of a few microseconds; an executor's would cost several times that at every commit.
    """

    def __init__(
        self,
        where: str,
        begin: str,
        connect: Callable[[], sqlite3.Connection],
        check: Callable[[], None],
        busy_timeout: float = 0.0,
    ) -> None:
        """`check` is called before each transaction; what it raises is the outcome."""
        self._where = where
        self._begin_with = begin
        self.busy_timeout = busy_timeout
        """How long a transaction may wait for its turn, in seconds."""
        self._connect = connect
        self._check = check
        self._jobs: _Jobs = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping: _Waiting | None = None
        self._look: Look | None = None
        self._flush = ""
        """The setting `synchronous` of the connection, once it is known."""

    async def start(self) -> None:
        """Connect; raises what stands in the way."""
        connected, self._jobs, self._flush = _waiting(), SimpleQueue(), ""
        thread = threading.Thread(
            target=self._run, args=(self._jobs, connected), name=f"redrive {self._where}", daemon=True
        )
        thread.start()
        try:
            await connected[1]
        except BaseException:
            self._jobs.put(_Signal.STOP)
            raise
        self._thread = thread

    async def stop(self) -> None:
        """Finish what was asked for, and close the connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping = _waiting()
            self._jobs.put(_Signal.STOP)
            await self._stopping[1]
            thread.join()

    def do(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Have `work(connection, *args)` done as one transaction; what it raises undoes it."""
        return self._ask(FLUSHED, work, args)

    def do_unflushed(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """The same for what need not outlive the machine: the next commit flushes it, or a power failure undoes it."""
        return self._ask(UNFLUSHED, work, args)

    def _ask(self, flush: str, work: Callable[..., Any], args: tuple[Any, ...]) -> "asyncio.Future[Any]":
        if self._thread is None:
            raise StoreError(f"{self._where}: the store is not open; use it inside `async with redrive.open(...)`")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._jobs.put(((loop, answer), flush, work, args))
        return answer

    def look(self, look: Look | None) -> None:
        """Call `look(connection)` every few milliseconds from now on, between pieces of work; None ends that."""
        self._look = look
        self._jobs.put(_Signal.LOOK)

    def _run(self, jobs: _Jobs, connected: _Waiting) -> None:
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            _answer(connected, None, as_store_error(error, self._where))
            return
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            _answer(connected, None, error)
            return
        _answer(connected, None, None)
        try:
            self._serve(jobs, connection)
        finally:
            connection.close()
            if self._stopping is not None:
                _answer(self._stopping, None, None)

    def _serve(self, jobs: _Jobs, connection: sqlite3.Connection) -> None:
        monotonic, next_look = SYSTEM_CLOCK.monotonic, 0.0
        while True:
            look = self._look
            try:
                job = jobs.get(timeout=None if look is None else LOOK_EVERY)
                if job is _Signal.STOP:
                    return
                if job is not _Signal.LOOK:
                    waiting, flush, work, args = job
                    _answer(waiting, *self._transact(connection, flush, work, args, waiting[1]))
                    # Not kept until the next job comes.
                    del job, waiting, work, args
                    if flush != FLUSHED and jobs.empty():
                        # Whoever comes next is in a hurry, now is nobody.
                        with contextlib.suppress(sqlite3.Error):
                            self._set_flush(connection, FLUSHED)
            except Empty:
                pass
            if look is not None and monotonic() >= next_look:
                with contextlib.suppress(sqlite3.Error):
                    look(connection)
                next_look = monotonic() + LOOK_EVERY

    def _set_flush(self, connection: sqlite3.Connection, flush: str) -> None:
        if flush != self._flush:
            connection.execute(f"PRAGMA synchronous = {flush}")
            self._flush = flush

    def _begin(self, connection: sqlite3.Connection, answer: "asyncio.Future[Any]") -> None:
        """Wait for our turn. SQLite's own wait is unfair: its naps grow, and who naps longest comes last again.

        Not where nobody waits for the answer any more: all that comes after it would wait too.
        """
        end = math.inf
        while True:
            try:
                connection.execute(self._begin_with)
                return
            except sqlite3.OperationalError as error:
                now = SYSTEM_CLOCK.monotonic()
                end = min(end, now + self.busy_timeout)
                if not is_busy(error) or now >= end or answer.cancelled():
                    raise
            SYSTEM_CLOCK.sleep_until(now + NAP)

    def _transact(
        self,
        connection: sqlite3.Connection,
        flush: str,
        work: Callable[..., Any],
        args: tuple[Any, ...],
        answer: "asyncio.Future[Any]",
    ) -> tuple[Any, Exception | None]:
        committing = False
        try:
            self._check()
            self._set_flush(connection, flush)
            self._begin(connection, answer)
            result = work(connection, *args)
            committing = True
            connection.execute("COMMIT")
            return result, None
        except Exception as error:  # noqa: BLE001 - handed to whoever asked
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            if not isinstance(error, sqlite3.Error):
                return None, error
            return None, as_store_error(error, self._where, committing)


def _waiting() -> _Waiting:
    loop = asyncio.get_running_loop()
    return loop, loop.create_future()


def _answer(waiting: _Waiting, result: Any, error: Exception | None) -> None:
    loop, future = waiting
    # Where the event loop is closed, nobody waits any more.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

"""A thread that owns one connection and runs the work it is given, each piece in one transaction."""

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
from redrive.stores.refusals import not_open
from redrive.stores.sqlite.faults import as_store_error, is_busy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_Reply = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Job = tuple[_Reply, str, Callable[..., Any], tuple[Any, ...]]
Poll = Callable[[sqlite3.Connection], None]


class _Signal(enum.Enum):
    POLL = enum.auto()
    STOP = enum.auto()


_Jobs = SimpleQueue[_Job | _Signal]
FLUSHED, UNFLUSHED = "FULL", "NORMAL"
"""Values of `PRAGMA synchronous`: whether a commit waits until the data is on disk."""
POLL_INTERVAL = 0.005
QUICK_POLL_INTERVAL, QUICK_FOR = 0.001, 0.1
"""How often it polls at first, and for how many seconds: what someone begins to wait for is often about to happen."""
BUSY_RETRY_INTERVAL = 0.001


class DatabaseThread:
    """Takes work from a queue and posts its outcome to the event loop that asked for it.

    That costs a few microseconds; an executor would cost several times as much at every commit.
    """

    def __init__(
        self,
        where: str,
        begin: str,
        connect: Callable[[], sqlite3.Connection],
        check: Callable[[], None],
        busy_timeout: float = 0.0,
    ) -> None:
        """`check` runs before each transaction and may raise to refuse it."""
        self._where = where
        self._begin_with = begin
        self.busy_timeout = busy_timeout
        """How many seconds a transaction may wait for other writers."""
        self._connect = connect
        self._check = check
        self._jobs: _Jobs = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped: _Reply | None = None
        self._poll: Poll | None = None
        self._quick_until = 0.0
        self._flush = ""
        """The connection's `synchronous` setting, once it was set."""

    async def start(self) -> None:
        """Start the thread and connect."""
        connected, self._jobs, self._flush = _new_reply(), SimpleQueue(), ""
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
        """Finish the queued work, close the connection and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopped = _new_reply()
            self._jobs.put(_Signal.STOP)
            await self._stopped[1]
            thread.join()

    def do(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Run `work(connection, *args)` in one transaction, rolled back if it raises."""
        return self._submit(FLUSHED, work, args)

    def do_unflushed(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Do the same without waiting for the disk: a power failure may lose it, and the next `do` flushes it."""
        return self._submit(UNFLUSHED, work, args)

    def _submit(self, flush: str, work: Callable[..., Any], args: tuple[Any, ...]) -> "asyncio.Future[Any]":
        if self._thread is None:
            raise not_open(self._where)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._jobs.put(((loop, answer), flush, work, args))
        return answer

    def poll(self, poll: Poll | None) -> None:
        """Call `poll(connection)` every few milliseconds from now on, between pieces of work; None ends it."""
        self._poll = poll
        self._quick_until = SYSTEM_CLOCK.monotonic() + QUICK_FOR
        self._jobs.put(_Signal.POLL)

    def _run(self, jobs: _Jobs, connected: _Reply) -> None:
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            _post(connected, None, as_store_error(error, self._where))
            return
        except Exception as error:  # noqa: BLE001 - posted to the caller
            _post(connected, None, error)
            return
        _post(connected, None, None)
        try:
            self._serve(jobs, connection)
        finally:
            connection.close()
            if self._stopped is not None:
                _post(self._stopped, None, None)

    def _serve(self, jobs: _Jobs, connection: sqlite3.Connection) -> None:
        monotonic, next_poll, interval = SYSTEM_CLOCK.monotonic, 0.0, POLL_INTERVAL
        while True:
            poll = self._poll
            try:
                job = jobs.get(timeout=None if poll is None else interval)
                if job is _Signal.STOP:
                    return
                if job is not _Signal.POLL:
                    reply, flush, work, args = job
                    _post(reply, *self._transact(connection, flush, work, args, reply[1]))
                    # Else they would stay alive until the next job comes.
                    del job, reply, work, args
                    if flush != FLUSHED and jobs.empty():
                        # While idle, so that the next commit does not wait for it.
                        with contextlib.suppress(sqlite3.Error):
                            self._set_flush(connection, FLUSHED)
            except Empty:
                pass
            if poll is not None and (now := monotonic()) >= next_poll:
                with contextlib.suppress(sqlite3.Error):
                    poll(connection)
                interval = POLL_INTERVAL if now >= self._quick_until else QUICK_POLL_INTERVAL
                next_poll = now + interval

    def _set_flush(self, connection: sqlite3.Connection, flush: str) -> None:
        if flush != self._flush:
            connection.execute(f"PRAGMA synchronous = {flush}")
            self._flush = flush

    def _begin(self, connection: sqlite3.Connection, answer: "asyncio.Future[Any]") -> None:
        """Begin a transaction, waiting for other writers as long as the caller still wants the answer.

        SQLite's own busy handler is unfair: it sleeps longer each time, so whoever has waited longest comes last.
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
            SYSTEM_CLOCK.sleep_until(now + BUSY_RETRY_INTERVAL)

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
        except Exception as error:  # noqa: BLE001 - posted to the caller
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            if not isinstance(error, sqlite3.Error):
                return None, error
            return None, as_store_error(error, self._where, committing)


def _new_reply() -> _Reply:
    loop = asyncio.get_running_loop()
    return loop, loop.create_future()


def _post(reply: _Reply, result: Any, error: Exception | None) -> None:
    loop, future = reply
    # A closed loop has no callers left.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, future, result, error)


def _resolve(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

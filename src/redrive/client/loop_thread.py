"""An app in an event loop of its own, in a background thread; any other thread can call it."""

import asyncio
import atexit
import concurrent.futures.thread
import os
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from redrive.client.app import App
from redrive.client.caller_connections import found_transaction, refuse_unless_open
from redrive.determinism.event_loops import under_trio
from redrive.flows.workflows.loop import FlowLoop
from redrive.flows.workflows.loop_errors import NotInWorkflow
from redrive.stores.caller_transaction import CallerTransaction, Parameters, Rows

T = TypeVar("T")

EXIT_TIMEOUT = 3.0
"""Seconds that an app which nobody closed has to release its flows when the interpreter exits."""

_open: set["LoopThread"] = set()
"""Those whose threads have not ended. In a forked child, also those of its parent."""


class LoopThread:
    """Opens an app in a new thread, and closes it there. The thread never keeps the interpreter from exiting."""

    def __init__(self, make_app: Callable[[], App]) -> None:
        """Return once the app is open; raise what kept it from opening."""
        self.pid = os.getpid()
        self.app: App
        self._loop: asyncio.AbstractEventLoop
        self._stopped: asyncio.Event
        self._closing = threading.Lock()
        self.is_closed = False
        """Whether it takes no more calls; also after an error ended the thread."""
        opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        # In the caller's context, so that a test's clock is the app's too.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._serve, make_app, opened), name="redrive-app", daemon=True
        )
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            # An interrupted caller leaves no thread behind; one that could not open has ended already.
            if opened.done() and opened.exception() is None:
                self.close()
            else:
                opened.add_done_callback(lambda _: None if opened.exception() else self.request_close())
            raise

    def run(self, call: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        """Run `call(app)` in the app's loop and wait for its result."""
        future = self._submit(call)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise _closed() from None
        finally:
            # Where the caller was interrupted, as by Ctrl-C, nobody waits for it any more.
            future.cancel()

    def run_in(self, connection: Any, call: Callable[[App, CallerTransaction], Coroutine[Any, Any, T]]) -> T:
        """Do the same in the caller's transaction. Its statements are run in this thread, which owns the connection."""
        transaction = found_transaction(connection)
        if not isinstance(transaction, CallerTransaction) or transaction.needs_loop:
            if isinstance(transaction, Coroutine):
                transaction.close()
            raise TypeError(
                f"connection: a {type(connection).__qualname__} belongs to an event loop; pass a connection that is "
                "not asynchronous, or use redrive.open"
            )
        refuse_unless_open(transaction)
        statements: SimpleQueue[tuple[str, Parameters, asyncio.Future[Rows]] | None] = SimpleQueue()

        async def fetch(statement: str, parameters: Parameters) -> Rows:
            answer: asyncio.Future[Rows] = self._loop.create_future()
            statements.put((statement, parameters, answer))
            return await answer

        future = self._submit(lambda app: call(app, transaction._replace(fetch=fetch)))
        future.add_done_callback(lambda _: statements.put(None))
        try:
            while (asked := statements.get()) is not None:
                statement, parameters, answer = asked
                try:
                    rows: Any = transaction.fetch(statement, parameters)
                except Exception as error:  # noqa: BLE001 - raised by the caller's own driver, and given back to the caller
                    self._loop.call_soon_threadsafe(_fail, answer, error)
                else:
                    self._loop.call_soon_threadsafe(_answer, answer, rows)
            return future.result()
        except concurrent.futures.CancelledError:
            raise _closed() from None
        finally:
            future.cancel()

    def _submit(self, call: Callable[[App], Coroutine[Any, Any, T]]) -> "concurrent.futures.Future[T]":
        refuse_in_event_loop()

        async def run() -> T:
            return await call(self.app)

        with self._closing:
            if self.is_closed:
                raise _closed()
            return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call a function in the app's loop."""
        with self._closing:
            if not self.is_closed:
                self._loop.call_soon_threadsafe(call)

    def close(self, timeout: float | None = None) -> None:
        """Close the app and end the thread; wait for that as long as running attempts take, or for `timeout`."""
        self.request_close()
        self._thread.join(timeout)

    def request_close(self) -> None:
        with self._closing:
            if not self.is_closed:
                # What was submitted before is in the loop by now: its callers get an answer.
                self.is_closed = True
                self._loop.call_soon_threadsafe(self._stopped.set)

    def _serve(self, make_app: Callable[[], App], opened: "concurrent.futures.Future[None]") -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._keep_open(make_app, opened))
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)
        finally:
            self._end()
            _open.discard(self)

    async def _keep_open(self, make_app: Callable[[], App], opened: "concurrent.futures.Future[None]") -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with make_app() as self.app:
            _open.add(self)
            opened.set_result(None)
            try:
                await self._stopped.wait()
            finally:
                # However it ends, nothing new may wait for this loop.
                self._end()

    def _end(self) -> None:
        with self._closing:
            self.is_closed = True


def _close_all_at_exit() -> None:
    for thread in list(_open):
        # A forked child has no such thread.
        if thread.pid == os.getpid():
            thread.close(EXIT_TIMEOUT / 2)


# At exit the interpreter first closes all pools of threads and waits for what runs there. Attempts that an app began
# then would fail, so apps stop before. What was running meanwhile is waited for, and recorded, after it.
getattr(threading, "_register_atexit", atexit.register)(_close_all_at_exit)
atexit.register(_close_all_at_exit)


def refuse_in_event_loop() -> None:
    """Raise where waiting would block an event loop: the caller has `await`, and so another app."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, FlowLoop):
        raise NotInWorkflow("an app of redrive.open_sync(...)")
    if loop is not None or under_trio():
        raise RuntimeError(
            "an app of redrive.open_sync(...) would block the event loop that runs here; use it in a thread "
            "(await asyncio.to_thread(...)), or use redrive.open(...) and await its methods"
        )


def _closed() -> RuntimeError:
    return RuntimeError("this app was closed; open it again, or open another with redrive.open_sync(...)")


def _answer(waiting: "asyncio.Future[Rows]", rows: Rows) -> None:
    if not waiting.done():
        waiting.set_result(rows)


def _fail(waiting: "asyncio.Future[Rows]", error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)

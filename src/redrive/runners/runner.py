"""Carry out one attempt of an action, wherever it runs, and report how it ended."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol, cast

from redrive.calls.scope import CURRENT
from redrive.determinism.clock import Clock, current_clock
from redrive.determinism.event_loops import Late
from redrive.determinism.thread_cut import CutShort
from redrive.errors import AttemptTimeoutError, DeserializationError, Permanent, SerializationError
from redrive.failures.failure import Failure, JudgedError
from redrive.flows.action import Action, Place
from redrive.flows.driver import Handler
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.values import NOT_READ, Arguments
from redrive.runners.attempt import Attempt, close_scope, enter_attempt, scope_of
from redrive.runners.http.settings import HttpSettings

_POISON = (SerializationError, DeserializationError)

CLEAN_UP = 3.0
"""Seconds that a coroutine has to end once it was cancelled because its time is over; then it is left behind."""


class Reports(Protocol):
    """Where outcomes go, in the event loop."""

    def succeeded(self, attempt: Attempt, result: str, read: Any = NOT_READ) -> None:
        """`read`: what reading the result gives, where that is known already."""
        ...

    def accepted(self, attempt: Attempt) -> None:
        """How it ended will be told later."""
        ...

    def failed(
        self,
        attempt: Attempt,
        error: BaseException,
        *,
        timed_out: bool = False,
        poison: bool = False,
        failure: Failure | None = None,
    ) -> None:
        """`poison`: no other attempt can end otherwise. `failure`: what the error is, where that is known already."""
        ...


class Runner:
    """Runs attempts: coroutines in this loop, plain functions in threads, and on request in processes."""

    def __init__(self, reports: Reports, threads: int, processes: int, http: HttpSettings | None = None) -> None:
        self.limits: dict[Place, int] = {"thread": threads, "process": processes}
        self._reports = reports
        self._clock = current_clock()
        # Known once the first attempt begins. To ask for it each time is a system call on some versions.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[Attempt, asyncio.Task[None]] = {}
        self._cancelled: set[Attempt] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._processes: Any = None
        self._http_settings = http or HttpSettings()
        self._http: Any = None

    def start(self, handler: Handler, attempt: Attempt, arguments: str | dict[str, Any]) -> None:
        """Begin the attempt; its outcome is reported unless it is cancelled. `arguments`: as stored, or as read."""
        if isinstance(handler, HttpHandler):
            work = self._over_http(handler, attempt, str(arguments))
        else:
            work = _WORK[handler.place](self, handler, attempt, arguments)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._running[attempt] = self._loop.create_task(work)

    def cancel(self, attempt: Attempt) -> None:
        """Stop it: nothing more is reported. A thread cannot be stopped: it runs on, and what it returns is dropped."""
        task = self._running.get(attempt)
        if task is not None:
            self._cancelled.add(attempt)
            task.cancel()
            # One that has not taken its first step never does, so it cannot see to this itself.
            task.add_done_callback(lambda _: self._is_over(attempt))

    async def drain(self, seconds: float) -> list[Attempt]:
        """Wait until nothing runs, but not longer; answers what still does. What begins meanwhile is waited for too."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (running := [task for task in self._running.values() if not task.done()]) and (
            left := end - loop.time()
        ) > 0:
            await asyncio.wait(running, timeout=left)
        return list(self._running)

    async def wait_for(self, attempts: Sequence[Attempt], seconds: float) -> None:
        """Until they have ended, but not longer."""
        if running := [task for attempt in attempts if (task := self._running.get(attempt)) is not None]:
            await asyncio.wait(running, timeout=seconds)

    async def close(self) -> None:
        # To cancel one again would cut what it does to clean up.
        for attempt in [one for one in self._running if one not in self._cancelled]:
            self.cancel(attempt)
        if self._running:
            await asyncio.wait(self._running.values(), timeout=1.0)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._processes is not None:
            await self._processes.close()
        if self._http is not None:
            await self._http.close()

    async def _in_loop(self, action: Action[Any, Any], attempt: Attempt, arguments: str | dict[str, Any]) -> None:
        clock = self._clock
        enter_attempt(attempt)
        scope = scope_of(attempt, clock)
        CURRENT.set(scope)
        signature = action.signature
        try:
            try:
                values = signature.read_arguments(arguments) if isinstance(arguments, str) else arguments
            except DeserializationError as error:
                self._reports.failed(attempt, error, poison=True)
                return
            if attempt.timeout is None:
                result = await signature.call_with(action.function, values)
            else:
                with clock.cut_at(clock.monotonic() + attempt.timeout, self._late(attempt)):
                    result = await signature.call_with(action.function, values)
            text, read = signature.stored_result(result)
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt is an outcome
            self._ended(attempt, error)
        else:
            self._reports.succeeded(attempt, text, read)
        finally:
            close_scope(scope)
            self._is_over(attempt)

    async def _over_http(self, handler: HttpHandler, attempt: Attempt, body: str) -> None:
        clock = self._clock
        try:
            if self._http is None:
                self._http = self._http_runner()
            if attempt.timeout is None:
                answer = await self._http.call(handler, attempt, body)
            else:
                with clock.cut_at(clock.monotonic() + attempt.timeout, self._late(attempt)):
                    answer = await self._http.call(handler, attempt, body)
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt is an outcome
            self._ended(attempt, error)
        else:
            if isinstance(answer, str):
                self._reports.succeeded(attempt, answer)
            else:
                self._reports.accepted(attempt)
        finally:
            self._is_over(attempt)

    def _http_runner(self) -> Any:
        # Loaded here: few need it.
        try:
            from redrive.runners.http.http_runner import HttpRunner
        except ImportError as error:
            raise Permanent(str(error)) from None
        return HttpRunner(self._http_settings)

    async def _in_thread(self, action: Action[Any, Any], attempt: Attempt, arguments: str | dict[str, Any]) -> None:
        def begin() -> "asyncio.Future[str]":
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.limits["thread"], thread_name_prefix="redrive-action")
            attempt.beat_from_thread(asyncio.get_running_loop())
            context, begins = copy_context(), [True]

            def work() -> str:
                # The pool keeps work though it could not start a thread for it.
                return context.run(_call_function, action, attempt, arguments, self._clock) if begins else ""

            try:
                attempt.thread_call = self._threads.submit(work)
            except BaseException:
                begins.clear()
                raise
            return asyncio.wrap_future(attempt.thread_call)

        await self._outcome(attempt, begin)

    async def _in_process(self, action: Action[Any, Any], attempt: Attempt, arguments: str | dict[str, Any]) -> None:
        def begin() -> "asyncio.Future[str]":
            if self._processes is None:
                # Loaded here: few need it.
                from redrive.runners.process_pool import ProcessPool

                self._processes = ProcessPool(self.limits["process"])
            text = arguments if isinstance(arguments, str) else _written(action, arguments)
            outcome: asyncio.Future[str] = asyncio.ensure_future(self._processes.call(action, attempt, text))
            return outcome

        await self._outcome(attempt, begin)

    async def _outcome(self, attempt: Attempt, begin: "Callable[[], asyncio.Future[str]]") -> None:
        clock = self._clock
        try:
            # What stands in the way of it is an outcome too.
            outcome = begin()
            if attempt.timeout is None:
                text = await outcome
            else:
                with clock.cut_at(clock.monotonic() + attempt.timeout):
                    text = await outcome
        except DeserializationError as error:
            self._reports.failed(attempt, error, poison=True)
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt is an outcome
            self._ended(attempt, _as_raised(attempt, error))
        else:
            self._reports.succeeded(attempt, text)
        finally:
            self._is_over(attempt)

    def _late(self, attempt: Attempt) -> Late:
        return Late(CLEAN_UP, functools.partial(self._leave_behind, attempt))

    def _leave_behind(self, attempt: Attempt) -> None:
        """Its time is over and it goes on all the same: report that, and drop whatever comes of it."""
        if attempt not in self._cancelled:
            self._cancelled.add(attempt)
            self._timed_out(attempt)

    def _timed_out(self, attempt: Attempt) -> None:
        self._reports.failed(attempt, AttemptTimeoutError(attempt.timeout or 0.0), timed_out=True)

    def _is_over(self, attempt: Attempt) -> None:
        self._running.pop(attempt, None)
        self._cancelled.discard(attempt)

    def _ended(self, attempt: Attempt, error: BaseException) -> None:
        # Of its type: an error that lies about its class must not go unreported.
        kind = type(error)
        if issubclass(kind, KeyboardInterrupt) or (issubclass(kind, GeneratorExit) and not self._runs_here(attempt)):
            raise error
        if attempt in self._cancelled:
            return
        if issubclass(kind, CutShort):
            self._timed_out(attempt)
        else:
            poison = issubclass(kind, _POISON)
            failure = cast("JudgedError", error).judged() if issubclass(kind, JudgedError) else None
            self._reports.failed(attempt, error, poison=poison, failure=failure)

    def _runs_here(self, attempt: Attempt) -> bool:
        """Whether the attempt's own task is running; a task that is thrown away is closed from somewhere else."""
        loop = asyncio._get_running_loop()
        return loop is not None and asyncio.current_task(loop) is self._running.get(attempt)


def _written(action: Action[Any, Any], values: dict[str, Any]) -> str:
    """Arguments that were read, as they are stored."""
    signature = action.signature
    bound: Arguments = signature.call_with(lambda *args, **kwargs: signature.bind(args, kwargs), values)
    return bound.encoded


def _as_raised(attempt: Attempt, error: BaseException) -> BaseException:
    """What a function raised in its thread: asyncio makes a CancelledError of its own, which ends tasks, of another."""
    call = attempt.thread_call
    if isinstance(error, asyncio.CancelledError) and call is not None and call.done() and not call.cancelled():
        return call.exception() or error
    return error


def _call_function(action: Action[Any, Any], attempt: Attempt, arguments: str | dict[str, Any], clock: Clock) -> str:
    """In a thread of the pool, in a context of its own."""
    enter_attempt(attempt)
    scope = scope_of(attempt, clock)
    CURRENT.set(scope)
    signature = action.signature
    try:
        values = signature.read_arguments(arguments) if isinstance(arguments, str) else arguments
        return signature.write_result(signature.call_with(action.function, values))
    except StopIteration as error:
        # No future can hold it.
        raise RuntimeError(f"the action raised StopIteration: {error}") from error
    finally:
        close_scope(scope)


_WORK: dict[Place, Callable[..., Any]] = {
    "loop": Runner._in_loop,
    "thread": Runner._in_thread,
    "process": Runner._in_process,
}

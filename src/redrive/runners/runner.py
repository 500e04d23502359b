"""Carry out attempts: start one on its executor, and report its outcome to the listener."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, cast

from redrive.calls.scope import CURRENT
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.event_loops import Late
from redrive.determinism.thread_cut import CutShort
from redrive.errors import AttemptTimeoutError, DeserializationError, Permanent, SerializationError
from redrive.failures.failure import JudgedError
from redrive.failures.retries_inside import warn_of_retries_inside
from redrive.flows.action import Action
from redrive.flows.driver import Handler
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt, NotCalled, close_scope, enter_attempt, scope_of
from redrive.runners.executors import ProcessExecutor, Result, ThreadExecutor, Values, time_limit
from redrive.runners.far_limits import FAR, FarLimits
from redrive.runners.http.settings import HttpSettings
from redrive.runners.outcome_listener import OutcomeListener
from redrive.telemetry.tracing import current_tracer

_POISON = (SerializationError, DeserializationError)

CLEAN_UP = 3.0
"""How many seconds a coroutine has to end after its timeout; then the timeout is reported all the same."""

_Execute = Callable[[Any, Attempt, Values], Awaitable[Result]]


class Runner:
    """Runs attempts: coroutines in the event loop, functions in threads or processes, and HTTP requests."""

    def __init__(
        self,
        listener: OutcomeListener,
        threads: int,
        processes: int,
        http: HttpSettings | None = None,
        may_call: Callable[[], bool] = lambda: True,
    ) -> None:
        """may_call: asked right before each call, also in threads; when it is False, the attempt is dropped."""
        self._listener = listener
        self._may_call = may_call
        self._clock = current_clock()
        # One more, for an attempt that runs alone.
        self._threads = ThreadExecutor(self._clock, threads + 1, may_call)
        self._processes = ProcessExecutor(self._clock, processes, may_call)
        self._execute: dict[str, _Execute] = {
            "thread": self._threads.execute,
            "process": self._processes.execute,
        }
        self._http_settings = http or HttpSettings()
        self._http: Any = None
        # Set by the first attempt: on some versions, asking for it each time is a system call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[Attempt, asyncio.Task[None]] = {}
        self._cancelled: set[Attempt] = set()
        self._far_limits = FarLimits(self._cut)
        # Virtual time has no use for a timer that looks again and again.
        self._far = FAR if self._clock is SYSTEM_CLOCK else inf
        self._cut_attempts: set[Attempt] = set()
        """Those in the loop that were cancelled because their time was over, and still run."""

    def start(self, handler: Handler, attempt: Attempt, arguments: Values) -> None:
        """Start the attempt; its outcome is reported unless it is cancelled."""
        if isinstance(handler, HttpHandler):
            work = self._run_over_http(handler, attempt, arguments)
        elif handler.executor == "loop":
            work = self._run_in_loop(handler, attempt, arguments)
        else:
            work = self._run(self._execute[handler.executor], handler, attempt, arguments)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._running[attempt] = self._loop.create_task(work)

    def cancel(self, attempt: Attempt) -> None:
        """Cancel the attempt, without a report. A thread cannot be stopped: it runs on, and its result is dropped."""
        task = self._running.get(attempt)
        if task is not None:
            self._cancelled.add(attempt)
            task.cancel()
            # A task that is cancelled before its first step never runs, so it cannot do this itself.
            task.add_done_callback(lambda _: self._forget(attempt))

    @property
    def attempts(self) -> int:
        """How many attempts run."""
        return len(self._running)

    async def drain(self, seconds: float) -> list[Attempt]:
        """Wait until no attempt runs, for at most `seconds`; return those that still do."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (running := [task for task in self._running.values() if not task.done()]) and (
            left := end - loop.time()
        ) > 0:
            await asyncio.wait(running, timeout=left)
        return list(self._running)

    async def wait_for(self, attempts: Sequence[Attempt], seconds: float) -> None:
        """Wait until these attempts have ended, for at most `seconds`."""
        if running := [task for attempt in attempts if (task := self._running.get(attempt)) is not None]:
            await asyncio.wait(running, timeout=seconds)

    async def close(self) -> None:
        """Cancel all attempts, and end threads, processes and connections."""
        # Not those already cancelled: a second cancellation would interrupt their cleanup.
        for attempt in [one for one in self._running if one not in self._cancelled]:
            self.cancel(attempt)
        if self._running:
            await asyncio.wait(self._running.values(), timeout=1.0)
        self._threads.close()
        await self._processes.close()
        if self._http is not None:
            await self._http.close()

    async def _run(self, execute: _Execute, handler: Handler, attempt: Attempt, arguments: Values) -> None:
        try:
            text, read = await execute(handler, attempt, arguments)
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt is its outcome
            self._report_error(attempt, error)
        else:
            self._listener.succeeded(attempt, text, read)
        finally:
            self._forget(attempt)

    async def _run_in_loop(self, action: Action[Any, Any], attempt: Attempt, arguments: Values) -> None:
        """The same as `_run` for coroutines, without a coroutine in between: most attempts are made here."""
        clock, signature = self._clock, action.signature
        enter_attempt(attempt)
        scope = scope_of(attempt, clock)
        CURRENT.set(scope)
        try:
            values = signature.read_arguments(arguments) if isinstance(arguments, str) else arguments
            if not self._may_call():
                return
            limit = attempt.timeout
            if limit is None or limit >= self._far:
                if limit is not None:
                    self._far_limits.add(attempt, limit)
                result = await signature.call_with(action.function, values)
            else:
                with time_limit(clock, attempt, self._late(attempt)):
                    result = await signature.call_with(action.function, values)
            text, read = signature.stored_result(result)
        except BaseException as error:  # noqa: BLE001 - as above
            self._report_error(attempt, error)
        else:
            self._listener.succeeded(attempt, text, read)
        finally:
            close_scope(scope)
            self._forget(attempt)

    async def _run_over_http(self, handler: HttpHandler, attempt: Attempt, arguments: Values) -> None:
        try:
            if self._http is None:
                self._http = self._new_http_runner()
            with time_limit(self._clock, attempt, self._late(attempt)):
                answer = await self._http.call(handler, attempt, str(arguments))
        except BaseException as error:  # noqa: BLE001 - as above
            self._report_error(attempt, error)
        else:
            if isinstance(answer, str):
                self._listener.succeeded(attempt, answer)
            else:
                self._listener.accepted(attempt)
        finally:
            self._forget(attempt)

    def _new_http_runner(self) -> Any:
        # Imported when needed: it needs aiohttp, which is an extra.
        try:
            from redrive.runners.http.http_runner import HttpRunner
        except ImportError as error:
            raise Permanent(str(error)) from None
        return HttpRunner(self._http_settings, self._may_call)

    def _report_error(self, attempt: Attempt, error: BaseException) -> None:
        # By its type: `isinstance` believes an error that lies about its class.
        kind = type(error)
        if issubclass(kind, KeyboardInterrupt) or (issubclass(kind, GeneratorExit) and not self._is_current(attempt)):
            raise error
        if attempt in self._cancelled or kind is NotCalled:
            return
        if issubclass(kind, CutShort) or (issubclass(kind, asyncio.CancelledError) and attempt in self._cut_attempts):
            self._report_timeout(attempt)
        else:
            if attempt.policy.attempts != 1:
                # Filters may turn the warning into an error, which must not take the attempt's place.
                with suppress(Warning):
                    warn_of_retries_inside(error, attempt.step)
            failure = cast("JudgedError", error).judged() if issubclass(kind, JudgedError) else None
            self._listener.failed(attempt, error, poison=issubclass(kind, _POISON), failure=failure)

    def _report_timeout(self, attempt: Attempt) -> None:
        self._listener.failed(attempt, AttemptTimeoutError(attempt.timeout or 0.0), timed_out=True)

    def _late(self, attempt: Attempt) -> Late:
        return Late(CLEAN_UP, partial(self._abandon, attempt))

    def _cut(self, attempt: Attempt) -> None:
        """The time of an attempt in the loop is over."""
        task = self._running[attempt]
        self._cut_attempts.add(attempt)
        task.cancel()
        timer = task.get_loop().call_later(*self._late(attempt))
        task.add_done_callback(lambda _: timer.cancel())

    def _abandon(self, attempt: Attempt) -> None:
        """Report the timeout of an attempt that does not end, and ignore its later outcome."""
        if attempt not in self._cancelled:
            self._cancelled.add(attempt)
            self._report_timeout(attempt)

    def _forget(self, attempt: Attempt) -> None:
        self._running.pop(attempt, None)
        self._cancelled.discard(attempt)
        self._cut_attempts.discard(attempt)
        self._far_limits.discard(attempt)
        if attempt.traceparent is not None and (tracer := current_tracer()) is not None:
            tracer.forget(attempt.delivery_token)

    def _is_current(self, attempt: Attempt) -> bool:
        """Whether the attempt's own task is running; a task that is discarded is closed from elsewhere."""
        loop = asyncio._get_running_loop()
        return loop is not None and asyncio.current_task(loop) is self._running.get(attempt)

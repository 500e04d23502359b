"""The executors for code that must not run in the event loop: a pool of threads, and a pool of processes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import copy_context
from typing import Any

from redrive.calls.scope import CURRENT
from redrive.determinism.clock import Clock
from redrive.determinism.event_loops import Late
from redrive.flows.action import Action
from redrive.flows.values.signature import NOT_READ, Arguments
from redrive.runners.attempt import Attempt, NotCalled, close_scope, enter_attempt, scope_of

Values = str | dict[str, Any]
"""Arguments as stored, or as read."""
Result = tuple[str, Any]
"""The result as JSON, and the value that reading it gives; NOT_READ if that is not known."""

CALL_CONTEXTS: list[Callable[[], AbstractContextManager[None]]] = []
"""Entered around each call of a plain function, in its thread: as by frameworks that keep connections per thread."""

_UNLIMITED = nullcontext()


def time_limit(clock: Clock, attempt: Attempt, late: Late | None = None) -> AbstractContextManager[None]:
    """Cut the block when the attempt's timeout is over. `late`: called when the code ignores its cancellation."""
    return _UNLIMITED if attempt.timeout is None else clock.cut_at(clock.monotonic() + attempt.timeout, late)


class ThreadExecutor:
    """Runs plain functions in threads. A thread cannot be stopped: after a timeout it runs on."""

    def __init__(self, clock: Clock, limit: int, may_call: Callable[[], bool]) -> None:
        self._clock = clock
        self._limit = limit
        self._may_call = may_call
        self._pool: ThreadPoolExecutor | None = None

    async def execute(self, action: Action[Any, Any], attempt: Attempt, arguments: Values) -> Result:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._limit, thread_name_prefix="redrive-action")
        attempt.beat_from_thread(asyncio.get_running_loop())
        context, submitted = copy_context(), [True]

        def work() -> str:
            # The pool keeps work for which it could not start a thread; a later thread must not do it.
            if not submitted:
                return ""
            return context.run(call_function, action, attempt, arguments, self._clock, self._may_call)

        try:
            call = attempt.thread_call = self._pool.submit(work)
        except BaseException:
            submitted.clear()
            raise
        error: BaseException
        try:
            with time_limit(self._clock, attempt):
                return await asyncio.wrap_future(call), NOT_READ
        except asyncio.CancelledError as cancelled:
            error = cancelled
        if call.done() and not call.cancelled():
            # The function itself raised CancelledError; asyncio replaces that with one that would end this task.
            error = call.exception() or error
        raise error

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessExecutor:
    """Runs functions in processes, which are killed when an attempt is cut."""

    def __init__(self, clock: Clock, limit: int, may_call: Callable[[], bool]) -> None:
        self._clock = clock
        self._limit = limit
        self._may_call = may_call
        self._pool: Any = None

    async def execute(self, action: Action[Any, Any], attempt: Attempt, arguments: Values) -> Result:
        if self._pool is None:
            # Imported when needed: few programs use it.
            from redrive.runners.process_pool import ProcessPool

            self._pool = ProcessPool(self._limit, self._may_call)
        encoded = arguments if isinstance(arguments, str) else _encoded(action, arguments)
        with time_limit(self._clock, attempt):
            return await self._pool.call(action, attempt, encoded), NOT_READ

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


def call_function(
    action: Action[Any, Any],
    attempt: Attempt,
    arguments: Values,
    clock: Clock,
    may_call: Callable[[], bool] = lambda: True,
) -> str:
    """Call a plain function, in a thread or a process and a context of its own; return its result as JSON.

    NotCalled when `may_call`, asked right before, says so.
    """
    enter_attempt(attempt)
    scope = scope_of(attempt, clock)
    CURRENT.set(scope)
    signature = action.signature
    try:
        values = signature.read_arguments(arguments) if isinstance(arguments, str) else arguments
        if not may_call():
            raise NotCalled
        with ExitStack() as around:
            for one in CALL_CONTEXTS:
                around.enter_context(one())
            return signature.write_result(signature.call_with(action.function, values))
    except StopIteration as error:
        # A future cannot hold a StopIteration.
        raise RuntimeError(f"the action raised StopIteration: {error}") from error
    finally:
        close_scope(scope)


def _encoded(action: Action[Any, Any], values: dict[str, Any]) -> str:
    signature = action.signature
    bound: Arguments = signature.call_with(lambda *args, **kwargs: signature.bind(args, kwargs), values)
    return bound.encoded

"""The guard of a coroutine function, written for the call that succeeds; see sync_fast_path.py.

A running attempt must be cancelled at the call's deadline. A DeadlineWatch does that for all calls of an event loop.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.calls import async_driver
from redrive.calls.deadline_watch import NO_LOOP, watch_here
from redrive.calls.guard import Guard
from redrive.calls.scope import CURRENT, OWNER, STARTED
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import DeadlineExceededError


def fast_guarded_coroutine_function(
    guard: Guard, operation: str, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    current_scope, enter_scope, now = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic
    loop_hooks, current_task = sys.get_asyncgen_hooks, asyncio.current_task
    deadline = guard.policy.deadline
    last_watch = NO_LOOP

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal last_watch
        watch = last_watch
        if loop_hooks()[0] is not watch.hook:
            watch = last_watch = watch_here(deadline)
        scope = [guard, 0.0]
        try:
            if (
                current_scope()[OWNER] is None
                and watch.loop is not None
                and (task := current_task(watch.loop)) is not None
            ):
                scope[STARTED] = now()
                enter_scope(scope)
                if watch.only is None:
                    watch.task, watch.cancelling = task, task.cancelling()
                    watch.only = scope
                else:
                    watch.add(scope, task)
                result = await function(*args, **kwargs)
                scope[OWNER] = None
                if watch.only is scope:
                    watch.only = watch.task = None
                else:
                    watch.remove(scope)
                return result
            failed: Exception | None = None
        except BaseException as error:
            scope[OWNER] = None
            if watch.remove(scope) and isinstance(error, asyncio.CancelledError):
                failed = DeadlineExceededError(deadline or 0.0)
            elif isinstance(error, Exception):
                failed = error
            else:
                raise
        try:
            if failed is None:
                return (await async_driver.run(guard, operation, function, args, kwargs)).unwrap()
            return (await async_driver.resume(guard, operation, scope, failed, function, args, kwargs)).unwrap()
        finally:
            # The traceback refers to this frame: without this, the error would refer to itself.
            del failed

    return guarded

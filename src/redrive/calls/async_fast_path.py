"""The success path of a guarded coroutine function; see fast_path.py for what it is about."""

import asyncio
import sys
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.calls import async_driver
from redrive.calls.deadline_watch import STEPPING, DeadlineWatch, was_only_cut
from redrive.calls.own_parameters import COLLECTED, count_parameters, with_parameters_of
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, OWNER, Scope
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.signals import DeadlineExceeded


def guard_coroutine_function(
    guard: Retrier, operation: str, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    deadline, count = guard.policy.deadline, count_parameters(function)
    current, enter, now, stepping, modules = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic, STEPPING, sys.modules
    watches: list[DeadlineWatch] = []
    watch = DeadlineWatch(None, deadline)

    def look_around() -> tuple[DeadlineWatch, asyncio.Task[Any] | None]:
        """The watch of the loop that runs this, made at its first call, and the task; None under trio."""
        nonlocal watch
        loop = asyncio._get_running_loop()
        if loop is None:
            return watch, None
        watches[:] = [known for known in watches if known.loop is not None and not known.loop.is_closed()]
        found = next((known for known in watches if known.loop is loop), None)
        if found is None:
            found = DeadlineWatch(loop, deadline)
            watches.append(found)
        watch = found
        return found, asyncio.current_task()

    # Its parameters are those of the function: see own_parameters.py.
    async def guarded(a: Any, b: Any, c: Any) -> Any:
        failed: tuple[Scope, Exception] | None = None
        if not current()[0]:
            mine = watch
            # asyncio's own answer to "which task is this" takes longer than all the rest of this function. When a
            # single loop of the process is in the middle of a step, and it is ours, then the step is ours too.
            if len(stepping) == 1 and mine.loop in stepping and "trio" not in modules:
                task = stepping[mine.loop]
            else:
                mine, task = look_around()
            if task is not None:
                cancelled = task.cancelling()
                enter(scope := [guard, now()])
                if mine.only is None:
                    mine.only = scope
                    mine.task = task
                else:
                    mine.add(scope, task)
                try:
                    if count == 0:
                        result = await function()
                    elif count == 1:
                        result = await function(a)
                    elif count == 2:
                        result = await function(a, b)
                    elif count == 3:
                        result = await function(a, b, c)
                    else:
                        result = await function(*a, **b)
                except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
                    failed = scope, error
                    if not mine.take_out(scope, task):
                        was_only_cut(task, cancelled)
                except CancelledError:
                    if mine.take_out(scope, task) or not was_only_cut(task, cancelled):
                        scope[OWNER] = None
                        raise
                    failed = scope, DeadlineExceeded(mine.deadline or 0.0)
                except BaseException:
                    scope[OWNER] = None
                    mine.take_out(scope, task)
                    raise
                else:
                    scope[0] = None
                    if mine.only is scope:
                        mine.only = mine.task = None
                    elif not mine.take_out(scope, task):
                        was_only_cut(task, cancelled)
                    return result
        args: tuple[Any, ...]
        args, kwargs = (), {}
        if count == 1:
            args = (a,)
        elif count == 2:
            args = (a, b)
        elif count == 3:
            args = (a, b, c)
        elif count == COLLECTED:
            args, kwargs = a, b
        if failed is None:
            return await async_driver.run(guard, operation, function, args, kwargs)
        try:
            return await async_driver.go_on(guard, operation, *failed, function, args, kwargs)
        finally:
            del failed

    return with_parameters_of(function, guarded)

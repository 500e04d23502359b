"""The success path of a guarded coroutine function; see fast_path.py for what it is about."""

import asyncio
from _thread import get_ident
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.calls import async_driver
from redrive.calls.deadline_watch import STEPPING, DeadlineWatch, watch_in
from redrive.calls.own_parameters import COLLECTED, count_parameters, with_parameters_of
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.raising import raise_as_it_is


def guard_coroutine_function(
    guard: Retrier, operation: str, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    deadline, count = guard.policy.deadline, count_parameters(function)
    current, enter, now, thread, stepping = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic, get_ident, STEPPING
    watch = DeadlineWatch(None, deadline)

    def look_around() -> tuple[DeadlineWatch, asyncio.Task[Any] | None]:
        """The watch of the loop that runs this, and the task; None under trio."""
        nonlocal watch
        loop = asyncio._get_running_loop()
        if loop is None:
            return watch, None
        watch = found = watch_in(loop, deadline)
        return found, asyncio.current_task()

    # Its parameters are those of the function: see own_parameters.py.
    async def guarded(a: Any, b: Any, c: Any) -> Any:
        failed: list[Any] | None = None
        if not current()[0]:
            mine = watch
            # asyncio's own answer to "which task is this" takes longer than all the rest of this function.
            if thread() == mine.thread and mine.loop in stepping:
                task = stepping[mine.loop]
            else:
                mine, task = look_around()
            if task is not None:
                cancelled = task.cancelling()
                scope = [guard, now()]
                try:
                    enter(scope)
                    if mine.only is None:
                        mine.only = scope
                        mine.task = task
                    else:
                        mine.add(scope, task)
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
                except BaseException as error:  # noqa: BLE001 - every failure of the attempt is classified
                    scope[0] = None
                    if mine.only is scope:
                        mine.only = mine.task = None
                    else:
                        mine.more.pop(task, None)
                    failed = [scope, error, mine, task, cancelled]
                else:
                    scope[0] = None
                    if mine.only is scope:
                        mine.only = mine.task = None
                    elif mine.more.pop(task, None) is None:
                        mine.take_back(task, cancelled)
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
        return await go_on(failed, args, kwargs)

    async def go_on(failed: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        scope, error, mine, task, cancelled = failed
        # Out of the guard's hands: the frames of a traceback keep their variables.
        failed.clear()
        try:
            error = mine.meaning_of(error, task, cancelled)
            if not isinstance(error, Exception):
                raise_as_it_is(error)
            return await async_driver.go_on(guard, operation, scope, error, function, args, kwargs)
        finally:
            del error

    return with_parameters_of(function, guarded)

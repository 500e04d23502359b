"""The success path of a guarded coroutine function; see fast_path.py for what it is about."""

import asyncio
import sys
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.calls import async_driver
from redrive.calls.deadline_watch import CUT, STEPPING, DeadlineWatch, was_only_cut
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, OWNER
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.signals import DeadlineExceeded


def guard_coroutine_function(
    guard: Retrier, operation: str, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    if guard.policy.deadline is None:
        return _guard_without_deadline(guard, operation, function)
    deadline = guard.policy.deadline
    current, enter, now, modules = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic, sys.modules
    watches: list[DeadlineWatch] = []
    watch: DeadlineWatch = DeadlineWatch(None, deadline)

    def watch_here() -> DeadlineWatch | None:
        """The watch of the loop that runs this, made at its first call; None under trio."""
        nonlocal watch
        loop = asyncio._get_running_loop()
        if loop is None:
            return None
        watches[:] = [known for known in watches if known.loop is not None and not known.loop.is_closed()]
        found = next((known for known in watches if known.loop is loop), None)
        if found is None:
            found = DeadlineWatch(loop, deadline)
            watches.append(found)
        watch = found
        return found

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        if current()[0]:
            return await async_driver.run(guard, operation, function, args, kwargs)
        mine = watch
        task: Any
        # asyncio's own answer to "which task is this" takes longer than all the rest of this function. When a single
        # loop of the process is in the middle of a step, and it is ours, then the step is ours too.
        if len(STEPPING) == 1 and "trio" not in modules and (stepping := STEPPING.get(mine.loop)) is not None:
            task = stepping
        else:
            found = watch_here()
            if found is None:
                return await async_driver.run(guard, operation, function, args, kwargs)
            mine, task = found, asyncio.current_task()
        active, cancelled = mine.active, task.cancelling()
        active[task] = scope = [guard, now()]
        enter(scope)
        if mine.timer is None:
            mine.look_after(deadline)
        failed: Exception
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
            failed = error
            if active.pop(task) is CUT:
                was_only_cut(task, cancelled)
        except CancelledError:
            if active.pop(task) is not CUT or not was_only_cut(task, cancelled):
                scope[OWNER] = None
                raise
            failed = DeadlineExceeded(deadline)
        except BaseException:
            scope[OWNER] = None
            active.pop(task, None)
            raise
        else:
            scope[OWNER] = None
            if active.pop(task) is CUT:
                was_only_cut(task, cancelled)
            return result
        try:
            return await async_driver.go_on(guard, operation, scope, failed, function, args, kwargs)
        finally:
            del failed

    return guarded


def _guard_without_deadline(
    guard: Retrier, operation: str, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    current, enter, now = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        if current()[0]:
            return await async_driver.run(guard, operation, function, args, kwargs)
        scope = [guard, now()]
        enter(scope)
        try:
            result = await function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
            failed = error
        except BaseException:
            scope[OWNER] = None
            raise
        else:
            scope[OWNER] = None
            return result
        try:
            return await async_driver.go_on(guard, operation, scope, failed, function, args, kwargs)
        finally:
            del failed

    return guarded

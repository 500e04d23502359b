"""The success path of a guarded coroutine function; see fast_path.py for what it is about."""

import asyncio
from _thread import get_ident
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.calls import async_driver
from redrive.calls.deadline_watch import DeadlineWatch, watch_in
from redrive.calls.own_parameters import fitting_guard
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, OWNER, Scope
from redrive.determinism.raising import raise_as_it_is


def guard_coroutine_function(
    guard: Retrier, operation: str, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    deadline = guard.policy.deadline
    watch = DeadlineWatch(None, deadline)

    async def go_on(
        scope: Scope, failed: list[BaseException] | None, mine: DeadlineWatch, /, *args: Any, **kwargs: Any
    ) -> Any:
        if failed is None:
            if find_watch():
                return await again(*args, **kwargs)
            return await async_driver.run(guard, operation, function, args, kwargs)
        # Out of the guard's hands: the frames of a traceback keep their variables.
        error = mine.meaning_of(failed.pop(), scope)
        try:
            if not isinstance(error, Exception):
                raise_as_it_is(error)
            return await async_driver.go_on(guard, operation, scope, error, function, args, kwargs)
        finally:
            del error

    def find_watch() -> bool:
        """Whether another watch had to be found: that of the loop that runs this."""
        nonlocal watch
        loop = asyncio._get_running_loop()
        owned = CURRENT.get()[OWNER] is not None
        if loop is None or owned or (watch.loop is loop and watch.thread == get_ident()):
            return False
        watch = watch_in(loop, deadline)
        return True

    async def without_parameters() -> Any:
        scope = [guard, 0.0]
        mine = watch
        try:
            if mine.open(scope):
                result = await function()
                scope[0] = None
                if mine.only is scope:
                    mine.only = mine.task = None
                elif mine.more.pop(id(scope), None) is None:
                    mine.leave(scope)
                return result
            failed = None
        except BaseException as error:  # noqa: BLE001 - every failure of the attempt is classified
            scope[0] = None
            failed = [error]
        return await go_on(scope, failed, mine)

    async def with_one(a: Any) -> Any:
        scope = [guard, 0.0]
        mine = watch
        try:
            if mine.open(scope):
                result = await function(a)
                scope[0] = None
                if mine.only is scope:
                    mine.only = mine.task = None
                elif mine.more.pop(id(scope), None) is None:
                    mine.leave(scope)
                return result
            failed = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        return await go_on(scope, failed, mine, a)

    async def with_two(a: Any, b: Any) -> Any:
        scope = [guard, 0.0]
        mine = watch
        try:
            if mine.open(scope):
                result = await function(a, b)
                scope[0] = None
                if mine.only is scope:
                    mine.only = mine.task = None
                elif mine.more.pop(id(scope), None) is None:
                    mine.leave(scope)
                return result
            failed = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        return await go_on(scope, failed, mine, a, b)

    async def with_three(a: Any, b: Any, c: Any) -> Any:
        scope = [guard, 0.0]
        mine = watch
        try:
            if mine.open(scope):
                result = await function(a, b, c)
                scope[0] = None
                if mine.only is scope:
                    mine.only = mine.task = None
                elif mine.more.pop(id(scope), None) is None:
                    mine.leave(scope)
                return result
            failed = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        return await go_on(scope, failed, mine, a, b, c)

    async def with_any(*args: Any, **kwargs: Any) -> Any:
        scope = [guard, 0.0]
        mine = watch
        try:
            if mine.open(scope):
                result = await function(*args, **kwargs)
                scope[0] = None
                if mine.only is scope:
                    mine.only = mine.task = None
                elif mine.more.pop(id(scope), None) is None:
                    mine.leave(scope)
                return result
            failed = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        return await go_on(scope, failed, mine, *args, **kwargs)

    again = fitting_guard(function, (without_parameters, with_one, with_two, with_three), with_any)
    return again

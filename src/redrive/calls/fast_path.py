"""The success path of a guarded plain function: as little as possible around the call.

The guard opens a scope, makes the first attempt, and is done when it succeeds. Everything else (an enclosing guarded
call, a test's clock, a failure) goes to the drivers. What stands here is written for speed: names are bound once per
guard, the scope is a list, and the guard takes the function's own parameters (see own_parameters.py), which is why it
stands here once for each number of them.

A signal's handler may raise after any call, and a call may find the stack full: so the scope is entered inside the
`try`, and marked as ended before anything else is called.
"""

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from redrive.calls import sync_driver
from redrive.calls.own_parameters import COLLECTED, count_parameters, with_parameters_of
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, Scope
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.raising import raise_as_it_is


def guard_function(guard: Retrier, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    current, enter, now = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic

    def run(*args: Any, **kwargs: Any) -> Any:
        return sync_driver.run(guard, operation, function, args, kwargs)

    def go_on(scope: Scope, failed: list[BaseException], /, *args: Any, **kwargs: Any) -> Any:
        # The error is taken out of the guard's hands: the frames of a traceback keep their variables.
        error = failed.pop()
        try:
            if not isinstance(error, Exception):
                raise_as_it_is(error)
            return sync_driver.go_on(guard, operation, scope, error, function, args, kwargs)
        finally:
            del error

    def without_parameters() -> Any:
        if current()[0]:
            return run()
        scope = [guard, now()]
        try:
            enter(scope)
            result = function()
        except BaseException as error:  # noqa: BLE001 - every failure of the attempt is classified
            scope[0] = None
            failed = [error]
        else:
            scope[0] = None
            if type(result) is CoroutineType:
                sync_driver.refuse_coroutine(operation, result)
            return result
        return go_on(scope, failed)

    def with_one(a: Any) -> Any:
        if current()[0]:
            return run(a)
        scope = [guard, now()]
        try:
            enter(scope)
            result = function(a)
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        else:
            scope[0] = None
            if type(result) is CoroutineType:
                sync_driver.refuse_coroutine(operation, result)
            return result
        return go_on(scope, failed, a)

    def with_two(a: Any, b: Any) -> Any:
        if current()[0]:
            return run(a, b)
        scope = [guard, now()]
        try:
            enter(scope)
            result = function(a, b)
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        else:
            scope[0] = None
            if type(result) is CoroutineType:
                sync_driver.refuse_coroutine(operation, result)
            return result
        return go_on(scope, failed, a, b)

    def with_three(a: Any, b: Any, c: Any) -> Any:
        if current()[0]:
            return run(a, b, c)
        scope = [guard, now()]
        try:
            enter(scope)
            result = function(a, b, c)
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        else:
            scope[0] = None
            if type(result) is CoroutineType:
                sync_driver.refuse_coroutine(operation, result)
            return result
        return go_on(scope, failed, a, b, c)

    def with_any(*args: Any, **kwargs: Any) -> Any:
        if current()[0]:
            return run(*args, **kwargs)
        scope = [guard, now()]
        try:
            enter(scope)
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            failed = [error]
        else:
            scope[0] = None
            if type(result) is CoroutineType:
                sync_driver.refuse_coroutine(operation, result)
            return result
        return go_on(scope, failed, *args, **kwargs)

    count = count_parameters(function)
    if count == COLLECTED:
        return with_any
    return with_parameters_of(function, (without_parameters, with_one, with_two, with_three)[count])

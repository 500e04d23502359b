"""The success path of a guarded plain function: as little as possible around the call.

The guard opens a scope, makes the first attempt, and is done when it succeeds. Everything else (an enclosing guarded
call, a test's clock, a failure) goes to the drivers. What stands here is written for speed: the scope is a list, it is
opened in one call (see opening.py), and the guard takes the function's own parameters (see own_parameters.py), which is
why it stands here once for each number of them.

A signal's handler may raise after any call, and a call may find the stack full: so the scope is opened inside the
`try`, and marked as ended before anything else is called.
"""

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from redrive.calls import sync_driver
from redrive.calls.opening import open_scope
from redrive.calls.own_parameters import fitting_guard
from redrive.calls.retrier import Retrier
from redrive.calls.scope import Scope
from redrive.determinism.raising import raise_as_it_is


def guard_function(guard: Retrier, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def go_on(scope: Scope, outcome: Any, /, *args: Any, **kwargs: Any) -> Any:
        """The outcome is None where the scope was not opened, else a coroutine, or a list with an error in it."""
        if outcome is None:
            return sync_driver.run(guard, operation, function, args, kwargs)
        if type(outcome) is CoroutineType:
            sync_driver.refuse_coroutine(operation, outcome)
        # The error is taken out of the guard's hands: the frames of a traceback keep their variables.
        error = outcome.pop()
        try:
            if not isinstance(error, Exception):
                raise_as_it_is(error)
            return sync_driver.go_on(guard, operation, scope, error, function, args, kwargs)
        finally:
            del error

    def without_parameters() -> Any:
        scope = [guard, 0.0]
        try:
            if open_scope(scope):
                outcome = function()
                scope[0] = None
                if type(outcome) is not CoroutineType:
                    return outcome
            else:
                outcome = None
        except BaseException as error:  # noqa: BLE001 - every failure of the attempt is classified
            scope[0] = None
            outcome = [error]
        return go_on(scope, outcome)

    def with_one(a: Any) -> Any:
        scope = [guard, 0.0]
        try:
            if open_scope(scope):
                outcome = function(a)
                scope[0] = None
                if type(outcome) is not CoroutineType:
                    return outcome
            else:
                outcome = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            outcome = [error]
        return go_on(scope, outcome, a)

    def with_two(a: Any, b: Any) -> Any:
        scope = [guard, 0.0]
        try:
            if open_scope(scope):
                outcome = function(a, b)
                scope[0] = None
                if type(outcome) is not CoroutineType:
                    return outcome
            else:
                outcome = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            outcome = [error]
        return go_on(scope, outcome, a, b)

    def with_three(a: Any, b: Any, c: Any) -> Any:
        scope = [guard, 0.0]
        try:
            if open_scope(scope):
                outcome = function(a, b, c)
                scope[0] = None
                if type(outcome) is not CoroutineType:
                    return outcome
            else:
                outcome = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            outcome = [error]
        return go_on(scope, outcome, a, b, c)

    def with_any(*args: Any, **kwargs: Any) -> Any:
        scope = [guard, 0.0]
        try:
            if open_scope(scope):
                outcome = function(*args, **kwargs) if kwargs else function(*args)
                scope[0] = None
                if type(outcome) is not CoroutineType:
                    return outcome
            else:
                outcome = None
        except BaseException as error:  # noqa: BLE001 - as above
            scope[0] = None
            outcome = [error]
        return go_on(scope, outcome, *args, **kwargs)

    return fitting_guard(function, (without_parameters, with_one, with_two, with_three), with_any)

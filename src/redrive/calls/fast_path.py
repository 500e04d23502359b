"""The success path of a guarded plain function: as little as possible around the call.

The wrapper opens a scope, makes the first attempt, and is done when it succeeds. Everything else (an enclosing
guarded call, a test's clock, a failure) goes to the drivers. What stands here is written for speed: names are bound
once per wrapper, the scope is a list, and keyword arguments are unpacked only when there are any.
"""

from collections.abc import Callable
from typing import Any

from redrive.calls import sync_driver
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, OWNER
from redrive.determinism.clock import SYSTEM_CLOCK


def guard_function(guard: Retrier, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    current, enter, now = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if current()[0]:
            return sync_driver.run(guard, operation, function, args, kwargs)
        scope = [guard, now()]
        enter(scope)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
            failed = error
        except BaseException:
            scope[OWNER] = None
            raise
        else:
            scope[OWNER] = None
            return result
        try:
            return sync_driver.go_on(guard, operation, scope, failed, function, args, kwargs)
        finally:
            del failed

    return guarded

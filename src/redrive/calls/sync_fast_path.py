"""The guard of a plain function, written for the call that succeeds.

It opens a scope, makes the first attempt, and returns. Everything else (an enclosing guarded call, a test clock, a
failure) is left to the driver.
"""

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from redrive.calls import sync_driver
from redrive.calls.guard import Guard
from redrive.calls.scope import CURRENT, OWNER, STARTED
from redrive.determinism.clock import SYSTEM_CLOCK


def fast_guarded_function(guard: Guard, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    # Local names are the fastest. Besides, tools that freeze time in tests replace module attributes only.
    current_scope, enter_scope, now = CURRENT.get, CURRENT.set, SYSTEM_CLOCK.monotonic

    def guarded(*args: Any, **kwargs: Any) -> Any:
        scope = [guard, 0.0]
        # A signal handler may raise after any call, and any call may exceed the recursion limit. So the scope is
        # opened inside the `try`, and marked as ended before anything else is called.
        try:
            if current_scope()[OWNER] is None:
                scope[STARTED] = now()
                enter_scope(scope)
                result = function(*args, **kwargs)
                scope[OWNER] = None
                if type(result) is not CoroutineType:
                    return result
                sync_driver.refuse_coroutine(operation, result)
            failed = None
        except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
            scope[OWNER] = None
            failed = error
        except BaseException:
            scope[OWNER] = None
            raise
        try:
            if failed is None:
                return sync_driver.run(guard, operation, function, args, kwargs).unwrap()
            return sync_driver.resume(guard, operation, scope, failed, function, args, kwargs).unwrap()
        finally:
            # The traceback refers to this frame: without this, the error would refer to itself.
            del failed

    return guarded

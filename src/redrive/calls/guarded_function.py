"""Makes the guarded version of a function, a coroutine function, a method, or a generator function."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal

from redrive.calls import async_driver, sync_driver
from redrive.calls.function_kinds import is_async, operation_name
from redrive.calls.guard import Guard

Generators = Literal["first_output", "restart"]
"""first_output: retry until the first item. restart: retry later too, from the beginning; items may be repeated."""


def guarded_function(guard: Guard, function: Any, generators: Generators = "first_output") -> Any:
    """Return the guarded version of `function`, of the same kind."""
    if isinstance(function, staticmethod | classmethod):
        return type(function)(guarded_function(guard, function.__func__, generators))
    if not callable(function):
        raise TypeError(f"retry guards functions; {type(function).__name__} cannot be called")
    if isinstance(function, type):
        raise TypeError(
            f"retry guards functions, not classes; guard the methods of {function.__name__}, or a factory function"
        )
    operation = guard.operation or operation_name(function)
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 - asks what it is, not whether
    yields_async = inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(called)
    if guard.reread is not None and is_async(guard.reread) and not yields_async and not is_async(function):
        raise sync_driver.async_reread(operation)
    if yields_async or inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(called):
        from redrive.calls.generator_driver import guarded_generator_function

        guarded = guarded_generator_function(guard, operation, function, yields_async, restart=generators == "restart")
    elif is_async(function):
        guarded = _guarded_coroutine_function(guard, operation, function)
    else:
        guarded = _guarded_plain_function(guard, operation, function)
    functools.update_wrapper(guarded, function)
    guarded.retrier = guard  # type: ignore[attr-defined]  # for code that needs the policy of a guarded function
    return guarded


def _guarded_plain_function(guard: Guard, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if guard.succeeds_unobserved:
        from redrive.calls.sync_fast_path import fast_guarded_function

        return fast_guarded_function(guard, operation, function)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return sync_driver.run(guard, operation, function, args, kwargs).unwrap()

    return guarded


def _guarded_coroutine_function(guard: Guard, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if guard.succeeds_unobserved:
        # It imports asyncio, which programs without coroutines need not load.
        from redrive.calls.async_fast_path import fast_guarded_coroutine_function

        return fast_guarded_coroutine_function(guard, operation, function)

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        return (await async_driver.run(guard, operation, function, args, kwargs)).unwrap()

    return guarded

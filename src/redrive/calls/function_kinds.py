"""What a callable is called and whether calling it returns a coroutine."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def operation_name(function: Callable[..., Any]) -> str:
    """Return the name of the function, without its arguments."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name.replace("<locals>.", "")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function returns a coroutine; true for objects with an async `__call__` too."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - asks whether it is async, not whether it exists

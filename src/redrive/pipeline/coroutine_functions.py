"""Which functions are no coroutine functions, as far as that can be told before they are called."""

import inspect
from functools import partial
from typing import Any

from redrive.calls.function_kinds import is_async

# What a function is said to return that may be awaited.
_AWAITED = ("Awaitable", "Coroutine", "Future", "Task", "Any")


def is_surely_plain(function: Any) -> bool:
    """Whether awaiting what it returns must fail: it is written `def`, and nothing says that it returns an awaitable.

    A lambda, a wrapper of another function and an object that can be called may return one.
    """
    while isinstance(function, partial):
        function = function.func
    written = getattr(function, "__func__", function)
    if not inspect.isfunction(written) or is_async(written) or written.__name__ == "<lambda>":
        return False
    if hasattr(written, "__wrapped__"):
        return False
    flags = written.__code__.co_flags
    if flags & inspect.CO_ITERABLE_COROUTINE or (flags & inspect.CO_VARARGS and flags & inspect.CO_VARKEYWORDS):
        return False
    returns = str(written.__annotations__.get("return", ""))
    return not any(word in returns for word in _AWAITED)

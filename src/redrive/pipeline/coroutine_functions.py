"""Tell coroutine functions from plain ones before they are called, and refuse results that cannot be awaited."""

import inspect
from functools import partial
from typing import Any

from redrive.calls.function_kinds import is_async
from redrive.errors import Permanent

# Return annotations of plain functions whose result may be awaited.
_AWAITABLE_HINTS = ("Awaitable", "Coroutine", "Future", "Task", "Any")


def is_definitely_sync(function: Any) -> bool:
    """Whether its result cannot be awaited: written with `def`, and not annotated as returning an awaitable.

    False for lambdas, wrappers and callable objects, which may return one.
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
    return not any(word in returns for word in _AWAITABLE_HINTS)


def not_awaitable(stage: str, attribute: str) -> Permanent:
    """Return the error for a stage's function whose result turned out not to be awaitable."""
    return Permanent(f"stage {stage!r}: its {attribute} is not a coroutine function; write: async def {attribute}(...)")

"""Gives a guard the parameters of the function it guards, so that it need not pass on `*args, **kwargs`.

Collecting and unpacking those takes a quarter of the time of a guarded call that succeeds. The guard is written with
parameters of its own, once for each number of them; its code gets the names that the guarded function has for its.
"""

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

_COLLECTING = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def fitting_guard(function: Any, by_count: Sequence[Any], collecting: Callable[..., Any]) -> Callable[..., Any]:
    """The guard for this function's parameters: of those for 0, 1, 2... of them, else the one that collects them."""
    if not isinstance(function, FunctionType):
        return collecting
    theirs = function.__code__
    count = theirs.co_argcount
    if count >= len(by_count) or theirs.co_kwonlyargcount or theirs.co_flags & _COLLECTING:
        return collecting
    guard = by_count[count]
    code = guard.__code__
    # No variable may have the name of a parameter: debuggers write variables back by their names. No parameter has
    # a dot in its own.
    code = code.replace(
        co_posonlyargcount=theirs.co_posonlyargcount,
        co_varnames=theirs.co_varnames[:count] + _dotted(code.co_varnames[count:]),
        co_freevars=_dotted(code.co_freevars),
    )
    return FunctionType(code, guard.__globals__, guard.__name__, function.__defaults__, guard.__closure__)


def _dotted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{name}" for name in names)

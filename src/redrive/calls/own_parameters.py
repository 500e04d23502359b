"""Gives a guard the parameters of the function it guards, so that it need not pass on `*args, **kwargs`.

Collecting and unpacking those takes a quarter of the time of a guarded call that succeeds. The guard is written with
parameters of its own; its code gets as many of them as the guarded function has, under the function's names.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

MOST = 3
COLLECTED = -1
"""In the place of a number of parameters: there are too many, or they need `*args, **kwargs`."""

_COLLECTING = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def count_parameters(function: Callable[..., Any]) -> int:
    """How many arguments the function takes, each of which can be passed on by its position; or COLLECTED."""
    if not isinstance(function, FunctionType):
        return COLLECTED
    code = function.__code__
    by_position = not code.co_flags & _COLLECTING and not code.co_kwonlyargcount
    return code.co_argcount if by_position and code.co_argcount <= MOST else COLLECTED


def with_parameters_of(function: Any, guard: Any) -> Callable[..., Any]:
    """The guard with the function's parameters; of its own, those beyond the function's number are never set.

    Where they are COLLECTED, its first two are `*args, **kwargs`.
    """
    count, code, defaults = count_parameters(function), guard.__code__, None
    if count == COLLECTED:
        parameters: tuple[str, ...] = ("args", "kwargs")
        code = code.replace(co_argcount=0, co_flags=code.co_flags | _COLLECTING)
    else:
        theirs, defaults = function.__code__, function.__defaults__
        parameters = theirs.co_varnames[:count]
        code = code.replace(co_argcount=count, co_posonlyargcount=theirs.co_posonlyargcount)
    # No variable may have the name of a parameter: debuggers write variables back by their names. No parameter has
    # a dot in its own.
    code = code.replace(
        co_varnames=parameters + _dotted(code.co_varnames[len(parameters) :]), co_freevars=_dotted(code.co_freevars)
    )
    return FunctionType(code, guard.__globals__, guard.__name__, defaults, guard.__closure__)


def _dotted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{name}" for name in names)

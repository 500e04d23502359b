"""The functions of the language: plain data in, plain data out."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from redrive.expressions.limits import ELEMENT_WORK, LONGEST_RANGE, MOST_DIGITS, MOST_ELEMENTS, Scope, TooLarge
from redrive.expressions.operations import (
    CONTAINERS,
    charge_search,
    check_elements,
    check_key,
    check_range,
    check_text,
    looked_at,
    made,
    measured,
)
from redrive.near_names import did_you_mean


class Function(NamedTuple):
    """A function that expressions can call. It gets the scope before its own arguments."""

    run: Callable[..., Any]
    signature: inspect.Signature
    """Without the scope."""
    about: str

    def usage(self, name: str) -> str:
        """How a call is written."""
        return f"{name}{self.signature}".replace(", /", "").replace("/, ", "").replace("*, ", "")

    def problem(self, name: str, positional: int, named: tuple[str, ...]) -> str | None:
        """What is wrong with the arguments of a call; None when they fit."""
        for one in named:
            if one not in self.signature.parameters:
                hint = did_you_mean(one, self.signature.parameters, f"write {self.usage(name)}")
                return f"{name} has no argument {one!r}; {hint}"
        try:
            self.signature.bind(*range(positional), **dict.fromkeys(named))
        except TypeError as error:
            return f"{name}: {error}; write {self.usage(name)}"
        return None


FUNCTIONS: dict[str, Function] = {}
_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "..."})()


def function_of(run: Callable[..., Any]) -> Function:
    """The function that a Python function implements; its docstring becomes the reference."""
    signature = inspect.signature(run)
    parameters = [one.replace(annotation=one.empty) for one in list(signature.parameters.values())[1:]]
    plain = signature.replace(parameters=parameters, return_annotation=signature.empty)
    return Function(run, plain, inspect.getdoc(run) or "")


def _function(run: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[run.__name__.strip("_")] = function_of(run)
    return run


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}() takes a text, not {type(value).__name__}")
    return value


def _dict(name: str, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name}() takes a dict, not {type(value).__name__}")
    return value


def _each(scope: Scope, text: str) -> str:
    """The text, after counting work on each of its characters."""
    return str(looked_at(scope, text, ELEMENT_WORK // 2))


def _copied(scope: Scope, value: Any) -> Any:
    """The value, of which a list or dict is to be made: refused before that when it is too large."""
    if hasattr(value, "__len__"):
        check_elements(len(value))
        scope.budget.work(ELEMENT_WORK * len(value))
    return value


# Numbers


@_function
def abs_(scope: Scope, x: Any, /) -> Any:
    """The absolute value of a number."""
    return abs(x)


@_function
def int_(scope: Scope, x: Any = 0, /) -> Any:
    """A whole number, from a number or a text."""
    return made(scope, int(_each(scope, x) if isinstance(x, str) else x))


@_function
def float_(scope: Scope, x: Any = 0.0, /) -> Any:
    """A floating-point number, from a number or a text."""
    return float(_each(scope, x) if isinstance(x, str) else x)


@_function
def round_(scope: Scope, number: Any, ndigits: Any = None) -> Any:
    """The nearest whole number, or the number rounded to so many digits; halves go to the even neighbour."""
    if isinstance(ndigits, int) and abs(ndigits) > MOST_DIGITS:
        raise TooLarge("a rounded number", MOST_DIGITS, "digits")
    return round(number, ndigits)


@_function
def sum_(scope: Scope, values: Any, /) -> Any:
    """The sum of the numbers in a list."""
    return made(scope, sum(looked_at(scope, values)))


@_function
def min_(scope: Scope, *values: Any) -> Any:
    """The smallest element of a list, or the smallest of several values."""
    return min(_comparable(scope, values))


@_function
def max_(scope: Scope, *values: Any) -> Any:
    """The largest element of a list, or the largest of several values."""
    return max(_comparable(scope, values))


def _comparable(scope: Scope, values: tuple[Any, ...]) -> Any:
    if not values:
        raise TypeError("needs a list, or several values")
    several = values[0] if len(values) == 1 else list(values)
    return _each(scope, several) if isinstance(several, str) else looked_at(scope, several)


# Texts


@_function
def str_(scope: Scope, x: Any = "", /) -> Any:
    """The value as text."""
    if isinstance(x, (*CONTAINERS, BaseException)):
        size = measured(scope, x)
        check_text(max(size.elements, size.characters))
        # Printing takes longer than looking, floats above all.
        scope.budget.work(10 * size.work)
    return made(scope, str(x))


@_function
def lower(scope: Scope, text: str, /) -> Any:
    """The text in lower case."""
    return made(scope, _each(scope, _text("lower", text)).lower())


@_function
def upper(scope: Scope, text: str, /) -> Any:
    """The text in upper case."""
    return made(scope, _each(scope, _text("upper", text)).upper())


@_function
def strip(scope: Scope, text: str, /) -> Any:
    """The text without white space around it."""
    return made(scope, _each(scope, _text("strip", text)).strip())


@_function
def startswith(scope: Scope, text: str, start: str, /) -> Any:
    """Whether the text starts with another."""
    return looked_at(scope, _text("startswith", text)).startswith(_text("startswith", start))


@_function
def endswith(scope: Scope, text: str, end: str, /) -> Any:
    """Whether the text ends with another."""
    return looked_at(scope, _text("endswith", text)).endswith(_text("endswith", end))


@_function
def split(scope: Scope, text: str, separator: Any = None, /) -> Any:
    """The parts of a text between separators, or between white space."""
    charge_search(scope, _text("split", text), separator if isinstance(separator, str) else " ")
    # One part more than allowed, so that the limit notices.
    parts = text.split(separator, MOST_ELEMENTS)
    scope.budget.work(ELEMENT_WORK * len(parts))
    return made(scope, parts)


@_function
def join(scope: Scope, separator: str, texts: Any, /) -> Any:
    """The texts of a list as one, with the separator between them."""
    _text("join", separator)
    if isinstance(texts, (str, *CONTAINERS)):
        scope.budget.work(ELEMENT_WORK * len(texts))
        check_text(sum(len(one) for one in texts if isinstance(one, str)) + len(separator) * len(texts))
    return made(scope, separator.join(texts))


# Lists and dicts


@_function
def len_(scope: Scope, x: Any, /) -> Any:
    """The number of elements or characters."""
    return len(x)


@_function
def list_(scope: Scope, x: Any = (), /) -> Any:
    """A new list of the elements."""
    return made(scope, list(_copied(scope, x)))


@_function
def dict_(scope: Scope, x: Any = (), /) -> Any:
    """A new dict: a copy, or made from a list of [key, value]."""
    if isinstance(_copied(scope, x), list):
        for pair in x:
            if isinstance(pair, CONTAINERS) and pair:
                check_key(scope, next(iter(pair)))
    return made(scope, dict(x))


@_function
def sorted_(scope: Scope, x: Any, /, *, reverse: Any = False) -> Any:
    """A new list of the elements in order."""
    _copied(scope, x)
    rounds = len(x).bit_length() if hasattr(x, "__len__") else 0
    if isinstance(x, str):
        scope.budget.work(ELEMENT_WORK * len(x) * rounds)
    return made(scope, sorted(looked_at(scope, x, rounds), reverse=reverse))


@_function
def range_(scope: Scope, start: Any, stop: Any = _MISSING, step: Any = 1, /) -> Any:
    """Whole numbers: range(3) is 0, 1, 2. For loops; list(range(3)) is a list."""
    numbers = check_range(range(start) if stop is _MISSING else range(start, stop, step))
    if numbers and (abs(numbers[-1] - numbers[0]) // abs(numbers.step)) >= LONGEST_RANGE:
        raise TooLarge("a range", LONGEST_RANGE, "numbers")
    return numbers


@_function
def keys(scope: Scope, x: Any, /) -> Any:
    """The keys of a dict, as a list."""
    return made(scope, list(_copied(scope, _dict("keys", x))))


@_function
def values(scope: Scope, x: Any, /) -> Any:
    """The values of a dict, as a list."""
    return made(scope, list(_copied(scope, _dict("values", x)).values()))


@_function
def items(scope: Scope, x: Any, /) -> Any:
    """The items of a dict, each a list of key and value."""
    # Each item is a new list.
    scope.budget.work(5 * ELEMENT_WORK * len(_dict("items", x)))
    return made(scope, [list(pair) for pair in _copied(scope, x).items()])


@_function
def bool_(scope: Scope, x: Any = False, /) -> Any:
    """Whether the value is true: not None, not 0, and not empty."""
    return bool(x)

"""The functions that every script has: plain data in, plain data out. What they ask of the flow repeats on replay."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NamedTuple

from redrive.determinism.ids import UUID
from redrive.flows.scripts.execution import ELEMENTS_A_STEP, LONGEST_TEXT, MOST_ELEMENTS, Frame, TooLarge
from redrive.flows.scripts.limits import LONGEST_RANGE, MOST_DIGITS
from redrive.flows.scripts.operations import check_range
from redrive.flows.scripts.sizes import (
    charge_product,
    charge_search,
    check_key,
    made,
    measured,
    printable,
)
from redrive.flows.workflows.loop import FlowLoop, running_flow_loop


class Builtin(NamedTuple):
    """One of them: called with the frame before its own arguments."""

    run: Callable[..., Any]
    signature: inspect.Signature
    """Without the frame."""
    about: str

    def usage(self, name: str) -> str:
        """How a call is written."""
        return f"{name}{self.signature}".replace(", /", "").replace("/, ", "").replace("*, ", "")

    def check(self, name: str, positional: int, named: tuple[str, ...]) -> str | None:
        """What is wrong with a call that has these arguments; None when it is right."""
        known = list(self.signature.parameters)
        for one in named:
            if one not in known:
                close = get_close_matches(one, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"write {self.usage(name)}"
                return f"{name} has no argument {one!r}; {hint}"
        try:
            self.signature.bind(*range(positional), **dict.fromkeys(named))
        except TypeError as error:
            return f"{name}: {error}; write {self.usage(name)}"
        return None


BUILTINS: dict[str, Builtin] = {}


def _builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    parameters = [one.replace(annotation=one.empty) for one in list(signature.parameters.values())[1:]]
    plain = signature.replace(parameters=parameters, return_annotation=signature.empty)
    name = function.__name__.strip("_")
    BUILTINS[name] = Builtin(function, plain, inspect.getdoc(function) or "")
    return function


_DIGITS_OF_PYTHON = 4300
_DIGITS_A_STEP = 150_000
"""Reading a number takes as long as it has digits, times that."""
_STEPS_OF_AN_ID = 3
_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "..."})()

# Numbers


@_builtin
def abs_(frame: Frame, x: Any, /) -> Any:
    """The number without its sign."""
    return abs(x)


@_builtin
def int_(frame: Frame, x: Any = 0, /) -> Any:
    """A whole number, from a number or a text."""
    if isinstance(x, str):
        _charge_each(frame, x)
        # Longer ones are refused before they are read.
        digits = min(len(x), _DIGITS_OF_PYTHON)
        frame.execution.charge(digits * digits, _DIGITS_A_STEP)
    return made(frame, int(x))


@_builtin
def float_(frame: Frame, x: Any = 0.0, /) -> Any:
    """A number with a fraction, from a number or a text."""
    if isinstance(x, str):
        _charge_each(frame, x)
    return float(x)


@_builtin
def round_(frame: Frame, number: Any, ndigits: Any = None) -> Any:
    """The nearest whole number, or with that many digits; halves go to the even one."""
    if isinstance(ndigits, int) and abs(ndigits) > MOST_DIGITS:
        raise TooLarge("a rounded number", MOST_DIGITS, "digits")
    if type(number) is int and ndigits is not None:
        charge_product(frame, number, number)
    return round(number, ndigits)


@_builtin
def sum_(frame: Frame, values: Any, /) -> Any:
    """The numbers of a list together."""
    if isinstance(values, range):
        frame.execution.charge(len(values), 2 * ELEMENTS_A_STEP)
    return made(frame, sum(measured(frame, values)))


@_builtin
def min_(frame: Frame, *values: Any) -> Any:
    """The least of a list, or of several values."""
    return min(_comparable(frame, values))


@_builtin
def max_(frame: Frame, *values: Any) -> Any:
    """The greatest of a list, or of several values."""
    return max(_comparable(frame, values))


def _comparable(frame: Frame, values: tuple[Any, ...]) -> Any:
    if not values:
        raise TypeError("needs a list, or several values")
    several = values[0] if len(values) == 1 else list(values)
    if isinstance(several, range | str):
        frame.execution.charge(len(several), 2 * ELEMENTS_A_STEP)
    return measured(frame, several)


def _charge_each(frame: Frame, text: str) -> None:
    """Count a look at each character of a text."""
    frame.execution.charge(len(text), 2 * ELEMENTS_A_STEP)


# Texts


@_builtin
def str_(frame: Frame, x: Any = "", /) -> Any:
    """The value as text."""
    return made(frame, str(printable(frame, x)))


@_builtin
def lower(frame: Frame, text: str, /) -> Any:
    """The text in small letters."""
    _charge_each(frame, _text("lower", text))
    return made(frame, text.lower())


@_builtin
def upper(frame: Frame, text: str, /) -> Any:
    """The text in capitals."""
    _charge_each(frame, _text("upper", text))
    return made(frame, text.upper())


@_builtin
def strip(frame: Frame, text: str, /) -> Any:
    """The text without white space around it."""
    _charge_each(frame, _text("strip", text))
    return made(frame, text.strip())


@_builtin
def split(frame: Frame, text: str, separator: Any = None, /) -> Any:
    """The parts of a text, between separators or white space."""
    charge_search(frame, _text("split", text), separator if isinstance(separator, str) else " ")
    # One more than may be, so that it can be told.
    parts = text.split(separator, MOST_ELEMENTS)
    frame.execution.charge(len(parts), ELEMENTS_A_STEP)
    return made(frame, parts)


@_builtin
def join(frame: Frame, separator: str, texts: Any, /) -> Any:
    """The texts of a list as one, with the separator between them."""
    _text("join", separator)
    if isinstance(texts, str | list | dict):
        frame.execution.charge(len(texts), ELEMENTS_A_STEP)
        length = sum(len(one) for one in texts if isinstance(one, str)) + len(separator) * len(texts)
        if length > LONGEST_TEXT:
            raise TooLarge("a text", LONGEST_TEXT, "characters")
    return made(frame, separator.join(texts))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}() takes a text, not {type(value).__name__}")
    return value


# Lists and dicts


@_builtin
def len_(frame: Frame, x: Any, /) -> Any:
    """How many elements or characters it has."""
    return len(x)


@_builtin
def list_(frame: Frame, x: Any = (), /) -> Any:
    """A new list of the elements."""
    _charge_elements(frame, x)
    return made(frame, list(x))


@_builtin
def dict_(frame: Frame, x: Any = (), /) -> Any:
    """A new dict: a copy, or of a list of [key, value]."""
    _charge_elements(frame, x, 2)
    if isinstance(x, list):
        for pair in x:
            if isinstance(pair, list) and pair:
                check_key(frame, pair[0])
            elif isinstance(pair, dict) and pair:
                check_key(frame, next(iter(pair)))
    return made(frame, dict(x))


@_builtin
def sorted_(frame: Frame, x: Any, /, *, reverse: Any = False) -> Any:
    """A new list of the elements in order."""
    _charge_elements(frame, x)
    rounds = len(x).bit_length() if hasattr(x, "__len__") else 0
    if isinstance(x, str | range):
        frame.execution.charge(len(x) * rounds, ELEMENTS_A_STEP)
    return made(frame, sorted(measured(frame, x, rounds), reverse=reverse))


@_builtin
def range_(frame: Frame, start: Any, stop: Any = _MISSING, step: Any = 1, /) -> Any:
    """Whole numbers: range(3) is 0, 1, 2. For loops; list(range(3)) is a list."""
    numbers = check_range(range(start) if stop is _MISSING else range(start, stop, step))
    if numbers and (abs(numbers[-1] - numbers[0]) // abs(numbers.step)) >= LONGEST_RANGE:
        raise TooLarge("a range", LONGEST_RANGE, "numbers")
    return numbers


@_builtin
def keys(frame: Frame, x: Any, /) -> Any:
    """The keys of a dict, as a list."""
    _charge_elements(frame, _dict("keys", x))
    return made(frame, list(x))


@_builtin
def values(frame: Frame, x: Any, /) -> Any:
    """The values of a dict, as a list."""
    _charge_elements(frame, _dict("values", x))
    return made(frame, list(x.values()))


@_builtin
def items(frame: Frame, x: Any, /) -> Any:
    """The pairs of a dict, each a list of key and value."""
    _charge_elements(frame, _dict("items", x), 10)
    return made(frame, [list(pair) for pair in x.items()])


def _charge_elements(frame: Frame, value: Any, times: int = 1) -> None:
    """Count the making of a list or a dict of so many elements, when it may be made."""
    if hasattr(value, "__len__"):
        if len(value) > MOST_ELEMENTS:
            raise TooLarge("a list", MOST_ELEMENTS, "elements")
        frame.execution.charge(len(value) * times, ELEMENTS_A_STEP)


def _dict(name: str, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name}() takes a dict, not {type(value).__name__}")
    return value


@_builtin
def bool_(frame: Frame, x: Any = False, /) -> Any:
    """Whether the value is true: not None, 0, or empty."""
    return bool(x)


# The flow


@_builtin
def now(frame: Frame) -> Any:
    """The time of the flow, in seconds since 1970."""
    return _loop().now


@_builtin
def random(frame: Frame) -> Any:
    """A number from 0 to below 1, by chance."""
    return _loop().random.random()


@_builtin
def uuid(frame: Frame) -> Any:
    """A new id."""
    frame.execution.charge(_STEPS_OF_AN_ID, 1)
    return str(UUID(int=_loop().random.getrandbits(128), version=4))


@_builtin
def flow_id(frame: Frame) -> Any:
    """The id of the flow."""
    return _loop().flow_id


def _loop() -> FlowLoop:
    loop = running_flow_loop()
    assert loop is not None  # noqa: S101 - scripts run nowhere else
    return loop

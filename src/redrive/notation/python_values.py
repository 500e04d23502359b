"""What an expression in Python source is, without running it: a plain value, a name, a call, or not known."""

import ast
import operator
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from redrive.notation.place import Position

_TIMEDELTA = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
# Larger numbers are no setting of a retry, and could take long to compute.
_LARGEST = 10**18
_LARGEST_EXPONENT = 64

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class Name(msgspec.Struct, frozen=True):
    """A name, dotted or not; what it refers to is not known."""

    text: str
    """With the module it was imported from, where that is known."""
    written: str = ""
    """As the source spells it, if that differs."""

    def __repr__(self) -> str:
        return self.written or self.text


class Unknown(msgspec.Struct, frozen=True):
    """An expression whose value is known only at run time."""

    node: ast.expr

    def __repr__(self) -> str:
        return ast.unparse(self.node)


class Call(msgspec.Struct, frozen=True):
    """A call, with its arguments read."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    node: ast.expr
    at: Position
    keyword_positions: dict[str, Position]

    def __repr__(self) -> str:
        return ast.unparse(self.node)


class Combined(msgspec.Struct, frozen=True):
    """Several expressions joined by one operator, such as `a | b | c`."""

    operator: str
    parts: tuple[Any, ...]
    node: ast.expr

    def __repr__(self) -> str:
        return ast.unparse(self.node)


def as_plain(value: Any) -> Any:
    """Turn names into text and `timedelta(...)` into a timedelta; other calls and combinations stay as they are."""
    if isinstance(value, Name):
        return value.text
    if isinstance(value, list):
        return [as_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: as_plain(one) for key, one in value.items()}
    if isinstance(value, Call) and value.name.rpartition(".")[2] == "timedelta":
        return _timedelta(value)
    return value


def computed(node: ast.BinOp, left: Any, right: Any) -> Any:
    """Return the result of simple arithmetic on numbers and timedeltas; None when it is not that."""
    calculate = _ARITHMETIC.get(type(node.op))
    left, right = as_plain(left), as_plain(right)
    if calculate is None or not (_is_amount(left) and _is_amount(right)):
        return None
    if isinstance(node.op, ast.Pow) and not (_is_number(right) and abs(right) <= _LARGEST_EXPONENT):
        return None
    try:
        result = calculate(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return result if isinstance(result, timedelta) or (_is_number(result) and abs(result) <= _LARGEST) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_amount(value: Any) -> bool:
    return isinstance(value, timedelta) or _is_number(value)


def _timedelta(call: Call) -> Any:
    given = dict(zip(_TIMEDELTA, call.arguments, strict=False)) | call.keywords
    fits = all(key in _TIMEDELTA and _is_number(one) for key, one in given.items())
    try:
        return timedelta(**given) if fits else call
    except (OverflowError, ValueError):
        return call

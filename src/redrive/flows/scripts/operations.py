"""Arithmetic, comparison and indexing with Python's own meaning, refused where the result would be too large."""

import operator
from collections.abc import Callable
from typing import Any

from redrive.flows.scripts.execution import (
    LARGEST_INT,
    LONGEST_TEXT,
    MOST_ELEMENTS,
    MOST_PARTS,
    Frame,
    TooLarge,
)

Operation = Callable[[Frame, Any, Any], Any]
Pair = Callable[[Any, Any], Any]

_CONTAINERS = (list, dict)


def bounded(value: Any) -> Any:
    """The value, unless it is a number that is too large."""
    if type(value) is int and value.bit_length() > LARGEST_INT:
        raise TooLarge("a whole number", LARGEST_INT, "bits")
    return value


def made(frame: Frame, value: Any) -> Any:
    """The value, which is new: counted as work, and refused when it is too large."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise TooLarge("a text", LONGEST_TEXT, "characters")
        frame.execution.charge(len(value))
    elif isinstance(value, _CONTAINERS):
        if len(value) > MOST_ELEMENTS:
            raise TooLarge("a list" if isinstance(value, list) else "a dict", MOST_ELEMENTS, "elements")
        frame.execution.charge(len(value))
    elif type(value) is int:
        return bounded(value)
    return value


def measured(frame: Frame, value: Any) -> Any:
    """The value, when all that is inside of it can be looked at: lists may hold themselves, or one another many times.

    Scalars cost nothing here.
    """
    if isinstance(value, _CONTAINERS):
        frame.execution.charge(parts_of(value))
    return value


def parts_of(value: Any) -> int:
    """How many values are inside of a value, each as often as it is there; TooLarge when they are too many."""
    waiting: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    parts = 0
    while waiting:
        one = waiting.pop()
        parts += len(one)
        if parts > MOST_PARTS:
            raise TooLarge("a value, with all that is inside of it,", MOST_PARTS, "parts")
        waiting += [part for part in (one.values() if isinstance(one, dict) else one) if isinstance(part, _CONTAINERS)]
    return parts


def _adding(plus: Pair) -> Operation:
    def add(frame: Frame, left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            return bounded(left + right)
        _check_sum(left, right)
        return made(frame, plus(left, right))

    return add


def _check_sum(left: Any, right: Any) -> None:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > LONGEST_TEXT:
            raise TooLarge("a text", LONGEST_TEXT, "characters")
    elif isinstance(left, list) and hasattr(right, "__len__") and len(left) + len(right) > MOST_ELEMENTS:
        raise TooLarge("a list", MOST_ELEMENTS, "elements")


def _multiplying(times: Pair) -> Operation:
    def multiply(frame: Frame, left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            return bounded(left * right)
        for repeated, count in ((left, right), (right, left)):
            if isinstance(count, int):
                if isinstance(repeated, str) and len(repeated) * count > LONGEST_TEXT:
                    raise TooLarge("a text", LONGEST_TEXT, "characters")
                if isinstance(repeated, list) and len(repeated) * count > MOST_ELEMENTS:
                    raise TooLarge("a list", MOST_ELEMENTS, "elements")
        return made(frame, times(left, right))

    return multiply


def _bounded(operation: Pair) -> Operation:
    return lambda frame, left, right: bounded(operation(left, right))


def _remainder(modulo: Pair) -> Operation:
    def remainder(frame: Frame, left: Any, right: Any) -> Any:
        if isinstance(left, str):
            raise TypeError('% does not fill in texts here; write "..." + str(value)')
        return modulo(left, right)

    return remainder


def _power(raised: Pair) -> Operation:
    def power(frame: Frame, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and right > 0 and abs(left) > 1:
            # A number of b bits is at least 2 ** (b - 1).
            if (left.bit_length() - 1) * right > LARGEST_INT:
                raise TooLarge("a whole number", LARGEST_INT, "bits")
            return bounded(left**right)
        result = raised(left, right)
        if isinstance(result, complex):
            raise ValueError("a negative number to a fractional power is no real number")
        return result

    return power


ARITHMETIC: dict[str, Operation] = {
    "+": _adding(operator.add),
    "-": _bounded(operator.sub),
    "*": _multiplying(operator.mul),
    "/": _bounded(operator.truediv),
    "//": _bounded(operator.floordiv),
    "%": _remainder(operator.mod),
    "**": _power(operator.pow),
}

_add = _adding(operator.iadd)


def _add_in_place(frame: Frame, left: Any, right: Any) -> Any:
    """A list stays the same one, as in Python, and only what is new is counted."""
    if not isinstance(left, list):
        return _add(frame, left, right)
    _check_sum(left, right)
    before = len(left)
    left += right
    frame.execution.charge(len(left) - before)
    return left


IN_PLACE: dict[str, Operation] = {
    "+": _add_in_place,
    "-": _bounded(operator.isub),
    "*": _multiplying(operator.imul),
    "/": _bounded(operator.itruediv),
    "//": _bounded(operator.ifloordiv),
    "%": _remainder(operator.imod),
    "**": _power(operator.ipow),
}
"""`left += right` and its like: Python's errors name the operator as it is written."""


def _compared(compare: Callable[[Any, Any], Any]) -> Operation:
    def run(frame: Frame, left: Any, right: Any) -> Any:
        if isinstance(left, _CONTAINERS) and isinstance(right, _CONTAINERS):
            measured(frame, left)
            measured(frame, right)
        return compare(left, right)

    return run


def contained(frame: Frame, left: Any, right: Any) -> bool:
    if isinstance(left, _CONTAINERS) and isinstance(right, list):
        measured(frame, left)
        measured(frame, right)
    elif isinstance(right, str | list | range):
        frame.execution.charge(len(right))
    container: Any = right
    return left in container


def not_contained(frame: Frame, left: Any, right: Any) -> bool:
    return not contained(frame, left, right)


def same(frame: Frame, left: Any, right: Any) -> bool:
    if not any(one is None or one is True or one is False for one in (left, right)):
        raise TypeError("`is` is for None, True and False; compare other values with ==")
    return left is right


def not_same(frame: Frame, left: Any, right: Any) -> bool:
    return not same(frame, left, right)


COMPARISONS: dict[str, Operation] = {
    "==": _compared(operator.eq),
    "!=": _compared(operator.ne),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "in": contained,
    "not in": not_contained,
    "is": same,
    "is not": not_same,
}

UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "not": operator.not_}


def item_of(frame: Frame, value: Any, index: Any) -> Any:
    return value[index]


def slice_of(frame: Frame, value: Any, start: Any, stop: Any, step: Any) -> Any:
    return made(frame, value[start:stop:step])


def set_item(frame: Frame, value: Any, index: Any, new: Any) -> None:
    if isinstance(value, dict) and len(value) >= MOST_ELEMENTS and index not in value:
        raise TooLarge("a dict", MOST_ELEMENTS, "elements")
    value[index] = new


def taken_apart(value: Any, count: int) -> list[Any]:
    """The elements of a value, for as many names."""
    if count == 2:
        first, second = value
        return [first, second]
    try:
        parts = iter(value)
    except TypeError:
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object") from None
    taken: list[Any] = []
    for part in parts:
        if len(taken) == count:
            raise ValueError(f"too many values to unpack (expected {count})")
        taken.append(part)
    if len(taken) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(taken)})")
    return taken

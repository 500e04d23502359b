"""Arithmetic, comparison and indexing with Python's own meaning, refused where the result would be too large."""

import operator
from collections.abc import Callable
from typing import Any

from redrive.flows.scripts.execution import (
    ELEMENTS_A_STEP,
    LARGEST_INT,
    LARGEST_KEY,
    LONGEST_TEXT,
    LOOKS_A_STEP,
    MOST_ELEMENTS,
    Frame,
    TooLarge,
)
from redrive.flows.scripts.sizes import (
    CONTAINERS,
    bounded,
    charge_product,
    charge_search,
    check_key,
    grown,
    made,
    measured,
    size_of,
)

Operation = Callable[[Frame, Any, Any], Any]
Pair = Callable[[Any, Any], Any]


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
            charge_product(frame, left, right)
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


def _dividing(divide: Pair) -> Operation:
    def division(frame: Frame, left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            charge_product(frame, left, right)
        elif isinstance(left, str) and divide in (operator.mod, operator.imod):
            raise TypeError('% does not fill in texts here; write "..." + str(value)')
        return divide(left, right)

    return division


def _power(raised: Pair) -> Operation:
    def power(frame: Frame, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and right > 0:
            if abs(left) <= 1:
                # Python multiplies also these, once for each bit.
                return int(left) if right & 1 else left * left
            # A number of b bits is at least 2 ** (b - 1).
            if (left.bit_length() - 1) * right > LARGEST_INT:
                raise TooLarge("a whole number", LARGEST_INT, "bits")
            result = left**right
            charge_product(frame, result, result)
            return bounded(result)
        result = raised(left, right)
        if isinstance(result, complex):
            raise ValueError("a negative number to a fractional power is no real number")
        return result

    return power


ARITHMETIC: dict[str, Operation] = {
    "+": _adding(operator.add),
    "-": _bounded(operator.sub),
    "*": _multiplying(operator.mul),
    "/": _dividing(operator.truediv),
    "//": _dividing(operator.floordiv),
    "%": _dividing(operator.mod),
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
    grown(frame, left, before)
    return left


IN_PLACE: dict[str, Operation] = {
    "+": _add_in_place,
    "-": _bounded(operator.isub),
    "*": _multiplying(operator.imul),
    "/": _dividing(operator.itruediv),
    "//": _dividing(operator.ifloordiv),
    "%": _dividing(operator.imod),
    "**": _power(operator.ipow),
}
"""`left += right` and its like: Python's errors name the operator as it is written."""


def _compared(compare: Callable[[Any, Any], Any]) -> Operation:
    def run(frame: Frame, left: Any, right: Any) -> Any:
        if isinstance(left, CONTAINERS) and isinstance(right, CONTAINERS):
            measured(frame, left)
            measured(frame, right)
        elif type(left) is str and type(right) is str:
            frame.execution.charge(min(len(left), len(right)))
        return compare(left, right)

    return run


def contained(frame: Frame, left: Any, right: Any) -> bool:
    container: Any = right
    if isinstance(right, str):
        if isinstance(left, str):
            charge_search(frame, right, left)
    elif isinstance(right, range):
        if type(left) is not int:
            frame.execution.charge(len(right), ELEMENTS_A_STEP)
    elif isinstance(right, list):
        if isinstance(left, CONTAINERS):
            measured(frame, left)
            measured(frame, right)
        else:
            # It may be compared with each element to its end.
            frame.execution.charge(len(right), ELEMENTS_A_STEP)
            long = max(0, size_of(left).characters - LOOKS_A_STEP)
            frame.execution.charge(len(right) * long)
    elif isinstance(right, dict):
        check_key(frame, left)
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
    if type(value) is dict and type(index) is str:
        check_key(frame, index)
    return value[index]


def slice_of(frame: Frame, value: Any, start: Any, stop: Any, step: Any) -> Any:
    taken = value[start:stop:step]
    if isinstance(taken, range):
        return check_range(taken)
    if step is not None and isinstance(taken, str):
        # One by one.
        frame.execution.charge(len(taken))
    return made(frame, taken)


def check_range(numbers: range) -> range:
    """The range, when Python is quick with it."""
    if max(one.bit_length() for one in (numbers.start, numbers.stop, numbers.step)) > LARGEST_KEY:
        raise TooLarge("a whole number of a range", LARGEST_KEY, "bits")
    return numbers


def set_item(frame: Frame, value: Any, index: Any, new: Any) -> None:
    if isinstance(value, dict):
        check_key(frame, index)
        before = len(value)
        if before >= MOST_ELEMENTS and index not in value:
            raise TooLarge("a dict", MOST_ELEMENTS, "elements")
        value[index] = new
        grown(frame, value, before)
    else:
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

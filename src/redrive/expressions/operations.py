"""Arithmetic, comparison and indexing with Python's own meaning, refused where the result would be too large."""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from redrive.expressions.limits import (
    ELEMENT_SIZE,
    ELEMENT_WORK,
    LARGEST_INT,
    LARGEST_KEY,
    LARGEST_VALUE,
    LONGEST_TEXT,
    MOST_ELEMENTS,
    Scope,
    Size,
    TooLarge,
    size_of,
)

Operation: TypeAlias = Callable[[Scope, Any, Any], Any]
Pair: TypeAlias = Callable[[Any, Any], Any]
CONTAINERS = (list, dict)
_NAIVE_SEARCH = 30_000


def bounded(value: Any) -> Any:
    """The value, unless it is a whole number that is too large."""
    if type(value) is int and value.bit_length() > LARGEST_INT:
        raise TooLarge("a whole number", LARGEST_INT, "bits")
    return value


def check_text(length: int) -> None:
    if length > LONGEST_TEXT:
        raise TooLarge("a text", LONGEST_TEXT, "characters")


def check_elements(count: int, what: str = "a list") -> None:
    if count > MOST_ELEMENTS:
        raise TooLarge(what, MOST_ELEMENTS, "elements")


def made(scope: Scope, value: Any) -> Any:
    """The value, which is new: its size is checked and counted."""
    if isinstance(value, str):
        check_text(len(value))
        scope.budget.work(len(value))
        scope.budget.hold(len(value))
    elif isinstance(value, CONTAINERS):
        check_elements(len(value), "a dict" if isinstance(value, dict) else "a list")
        scope.budget.work(ELEMENT_WORK * len(value))
        scope.budget.hold(ELEMENT_SIZE * len(value))
    else:
        bounded(value)
    return value


def looked_at(scope: Scope, value: Any, times: int = 1) -> Any:
    """The value, after counting that everything inside it is looked at so many times."""
    if isinstance(value, str | range):
        scope.budget.work(len(value) * times * (1 if isinstance(value, str) else ELEMENT_WORK))
    elif isinstance(value, (*CONTAINERS, BaseException)):
        scope.budget.work(measured(scope, value).work * times)
    return value


def measured(scope: Scope, value: Any) -> Size:
    """The size of a value. Finding out that it is too large counts as work too."""
    try:
        return size_of(value)
    except TooLarge:
        scope.budget.work(2 * LARGEST_VALUE * ELEMENT_WORK // ELEMENT_SIZE)
        raise


def check_key(scope: Scope, key: Any) -> Any:
    """The key of a dict; TooLarge for numbers of which many could share one place."""
    if type(key) is int and key.bit_length() > LARGEST_KEY:
        raise TooLarge("a whole number that is the key of a dict", LARGEST_KEY, "bits")
    if type(key) is str:
        scope.budget.work(len(key))
    return key


def check_range(numbers: range) -> range:
    """The range; TooLarge for numbers with which Python is slow."""
    if max(one.bit_length() for one in (numbers.start, numbers.stop, numbers.step)) > LARGEST_KEY:
        raise TooLarge("a whole number of a range", LARGEST_KEY, "bits")
    return numbers


def _adding(plus: Pair) -> Operation:
    def add(scope: Scope, left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            return bounded(left + right)
        if isinstance(left, str) and isinstance(right, str):
            check_text(len(left) + len(right))
        elif isinstance(left, list) and hasattr(right, "__len__"):
            check_elements(len(left) + len(right))
        return made(scope, plus(left, right))

    return add


def _add_in_place(scope: Scope, left: Any, right: Any) -> Any:
    """A list stays the same one, as in Python, and only what is new is counted."""
    if not isinstance(left, list):
        return _IADD(scope, left, right)
    before = len(left)
    check_elements(before + (len(right) if hasattr(right, "__len__") else 0))
    left += right
    grown(scope, before, len(left))
    return left


def grown(scope: Scope, before: int, after: int) -> None:
    """Count the new elements of a list or dict."""
    scope.budget.work(ELEMENT_WORK * (after - before))
    if after // 100 > before // 100:
        scope.budget.hold(ELEMENT_SIZE * max(after - before, 100))


def _multiplying(times: Pair) -> Operation:
    def multiply(scope: Scope, left: Any, right: Any) -> Any:
        for repeated, count in ((left, right), (right, left)):
            if isinstance(count, int):
                if isinstance(repeated, str):
                    check_text(len(repeated) * count)
                elif isinstance(repeated, list):
                    check_elements(len(repeated) * count)
        return made(scope, times(left, right))

    return multiply


def _dividing(divide: Pair) -> Operation:
    def division(scope: Scope, left: Any, right: Any) -> Any:
        if isinstance(left, str) and divide in (operator.mod, operator.imod):
            raise TypeError('% does not fill in texts; write "..." + str(value)')
        return divide(left, right)

    return division


def _power(raised: Pair) -> Operation:
    def power(scope: Scope, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and right > 0:
            if abs(left) <= 1:
                # Python multiplies once for each bit of the exponent, also here.
                return int(left) if right & 1 else left * left
            # A number of b bits is at least 2 ** (b - 1).
            if (left.bit_length() - 1) * right > LARGEST_INT:
                raise TooLarge("a whole number", LARGEST_INT, "bits")
        result = raised(left, right)
        if isinstance(result, complex):
            raise ValueError("a negative number to a fractional power is not a real number")
        return bounded(result)

    return power


def _plain(operation: Pair) -> Operation:
    return lambda scope, left, right: bounded(operation(left, right))


_OPERATORS: dict[str, tuple[Callable[[Pair], Operation], str]] = {
    "+": (_adding, "add"),
    "-": (_plain, "sub"),
    "*": (_multiplying, "mul"),
    "/": (_dividing, "truediv"),
    "//": (_dividing, "floordiv"),
    "%": (_dividing, "mod"),
    "**": (_power, "pow"),
}
"""Sign -> what bounds it, and the name of Python's own operator."""
ARITHMETIC = {sign: bounding(getattr(operator, name)) for sign, (bounding, name) in _OPERATORS.items()}
_IADD = _adding(operator.iadd)
IN_PLACE = {sign: bounding(getattr(operator, f"i{name}")) for sign, (bounding, name) in _OPERATORS.items()}
"""`left += right` and the like: Python's errors name the operator as it is written."""
IN_PLACE["+"] = _add_in_place


def _comparing(compare: Pair) -> Operation:
    def run(scope: Scope, left: Any, right: Any) -> Any:
        if isinstance(left, (str, *CONTAINERS)) and isinstance(right, (str, *CONTAINERS)):
            looked_at(scope, left)
            looked_at(scope, right)
        return compare(left, right)

    return run


def charge_search(scope: Scope, text: str, part: str) -> None:
    """Count a search for a part of a text. In a short text, the part may be compared at every place."""
    scope.budget.work(len(text))
    if len(text) < _NAIVE_SEARCH:
        scope.budget.work(max(len(text) - len(part), 0) * len(part))


def contained(scope: Scope, left: Any, right: Any) -> bool:
    if isinstance(right, dict):
        check_key(scope, left)
    elif isinstance(right, list):
        if isinstance(left, CONTAINERS):
            looked_at(scope, left)
            looked_at(scope, right)
        else:
            # The value may be compared with each element to its end.
            scope.budget.work(len(right) * (ELEMENT_WORK + (len(left) if isinstance(left, str) else 0)))
    elif isinstance(right, str) and isinstance(left, str):
        charge_search(scope, right, left)
    elif not isinstance(right, range) or type(left) is not int:
        looked_at(scope, right)
    return operator.contains(right, left)


def same(scope: Scope, left: Any, right: Any) -> bool:
    if not any(one is None or one is True or one is False for one in (left, right)):
        raise TypeError("`is` is for None, True and False; compare other values with ==")
    return left is right


COMPARISONS: dict[str, Operation] = {
    "==": _comparing(operator.eq),
    "!=": _comparing(operator.ne),
    "<": _comparing(operator.lt),
    "<=": _comparing(operator.le),
    ">": _comparing(operator.gt),
    ">=": _comparing(operator.ge),
    "in": contained,
    "not in": lambda scope, left, right: not contained(scope, left, right),
    "is": same,
    "is not": lambda scope, left, right: not same(scope, left, right),
}


def item_of(scope: Scope, value: Any, index: Any) -> Any:
    if type(index) is str and isinstance(value, dict):
        check_key(scope, index)
    return value[index]


def slice_of(scope: Scope, value: Any, start: Any, stop: Any, step: Any) -> Any:
    taken = value[start:stop:step]
    if isinstance(taken, range):
        return check_range(taken)
    if step is not None and isinstance(taken, str):
        # Copied one by one.
        looked_at(scope, taken, 10)
    return made(scope, taken)


def set_item(scope: Scope, new: Any, value: Any, index: Any) -> None:
    """`value[index] = new`. Python evaluates what is assigned first."""
    if not isinstance(value, dict):
        value[index] = new
        return
    check_key(scope, index)
    before = len(value)
    if index not in value:
        check_elements(before + 1, "a dict")
    value[index] = new
    grown(scope, before, len(value))


def dict_of(scope: Scope, *parts: Any) -> dict[Any, Any]:
    """The dict of a display: keys and values in turn."""
    for key in parts[::2]:
        check_key(scope, key)
    return dict(zip(parts[::2], parts[1::2], strict=True))

"""How large values are, what work on them costs in steps, and which are too large."""

from typing import Any, NamedTuple

from redrive.flows.scripts.execution import (
    COPIES_A_STEP,
    ELEMENTS_A_STEP,
    LARGEST_INT,
    LARGEST_KEY,
    LONGEST_TEXT,
    LOOKS_A_STEP,
    MOST_CHARACTERS,
    MOST_ELEMENTS,
    MOST_PARTS,
    Frame,
    TooLarge,
)
from redrive.flows.scripts.held import ELEMENT, SMALL

CONTAINERS = (list, dict)
_HOLDING = (list, dict, tuple, BaseException)
_BITS_A_CHARACTER = 10
_SHORT_BITS = 64
"""Work with such numbers is part of the step it is in."""
_SHORT = 1 << _SHORT_BITS
_PRODUCT_A_STEP = 1_000_000
"""Multiplying, dividing and printing whole numbers takes as long as one is long, times the other."""
_COMPARISONS_A_STEP = 1000
_NAIVE_SEARCH = 30_000
"""A text shorter than this may be compared with what is looked for at every place of it."""


class Size(NamedTuple):
    parts: int
    """Values inside of it, each as often as it is there."""
    characters: int
    """Of all texts; those of a large number are counted too."""
    key: Any = ""
    """A key that is no text, where one of its dicts has such."""


def size_of(value: Any) -> Size:
    """With all that is inside of it: lists may hold themselves, or one another many times. TooLarge is an answer."""
    if not isinstance(value, _HOLDING):
        return Size(0, _characters(value))
    parts = characters = 0
    odd: Any = ""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseException):
            one = one.args
        parts += len(one)
        if parts > MOST_PARTS:
            raise TooLarge("a value, with all that is inside of it,", MOST_PARTS, "parts")
        inside = one
        if isinstance(one, dict):
            for key in one:
                if type(key) is str:
                    characters += len(key)
                else:
                    odd = key
            inside = one.values()
        for part in inside:
            kind = type(part)
            if kind is list or kind is dict:
                waiting.append(part)
            elif kind is str:
                characters += len(part)
            elif kind is int:
                if not -_SHORT < part < _SHORT:
                    characters += part.bit_length() // _BITS_A_CHARACTER
            elif isinstance(part, _HOLDING):
                waiting.append(part)
        if characters > MOST_CHARACTERS:
            raise TooLarge("a value, with all that is inside of it,", MOST_CHARACTERS, "characters")
    return Size(parts, characters, odd)


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if type(value) is int:
        return 0 if -_SHORT < value < _SHORT else value.bit_length() // _BITS_A_CHARACTER
    return 0


def _counted(frame: Frame, value: Any) -> Size:
    try:
        return size_of(value)
    except TooLarge:
        # To find that out was work too.
        frame.execution.charge(MOST_PARTS, ELEMENTS_A_STEP)
        raise


def measured(frame: Frame, value: Any, times: int = 1) -> Any:
    """The value, when all that is inside of it can be looked at, so many times."""
    _charge_look(frame, _counted(frame, value), times)
    return value


def sendable(frame: Frame, value: Any) -> Any:
    """The value, when it can leave the script as data."""
    size = _counted(frame, value)
    _charge_look(frame, size)
    if type(size.key) is not str:
        raise TypeError(
            f"a dict has the key {size.key!r:.60}, which is no text; what leaves a script has texts as keys: "
            "write str(key)"
        )
    return value


def _charge_look(frame: Frame, size: Size, times: int = 1) -> None:
    frame.execution.charge(size.parts * times, ELEMENTS_A_STEP)
    frame.execution.charge(size.characters * times)


def printable(frame: Frame, value: Any) -> Any:
    """The value, when its text can be made."""
    if type(value) is int:
        charge_product(frame, value, value)
        return value
    if type(value) is str:
        return value
    parts, characters, _ = _counted(frame, value)
    if max(parts, characters) > LONGEST_TEXT:
        raise TooLarge("a text", LONGEST_TEXT, "characters")
    # Printing takes longer than looking, numbers above all.
    frame.execution.charge(20 * (parts + isinstance(value, float)) + characters, ELEMENTS_A_STEP)
    return value


def bounded(value: Any) -> Any:
    """The value, unless it is a number that is too large."""
    if type(value) is int and value.bit_length() > LARGEST_INT:
        raise TooLarge("a whole number", LARGEST_INT, "bits")
    return value


def made(frame: Frame, value: Any) -> Any:
    """The value, which is new: counted as work, and refused when it is too large."""
    if isinstance(value, str):
        check_length(value)
        if len(value) >= SMALL:
            frame.execution.charge(COPIES_A_STEP + len(value), COPIES_A_STEP)
            frame.execution.hold(value, len(value))
    elif isinstance(value, CONTAINERS):
        frame.execution.charge(LOOKS_A_STEP + len(value))
        check_length(value)
        if len(value) >= SMALL:
            frame.execution.hold(value, len(value) * ELEMENT)
    elif type(value) is int:
        return bounded(value)
    return value


def check_length(value: Any) -> None:
    """Refuse what has more elements or characters than a value may have."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise TooLarge("a text", LONGEST_TEXT, "characters")
    elif len(value) > MOST_ELEMENTS:
        raise TooLarge("a dict" if isinstance(value, dict) else "a list", MOST_ELEMENTS, "elements")


def grown(frame: Frame, value: Any, before: int) -> None:
    """Count what a list or a dict has more than before."""
    frame.execution.charge(len(value) - before)
    if len(value) // SMALL > before // SMALL:
        frame.execution.hold(value, max(len(value) - before, SMALL) * ELEMENT)


def check_key(frame: Frame, key: Any) -> Any:
    """The key of a dict. Python finds those of larger numbers slowly: many of them stand at one place."""
    if type(key) is str:
        # To be found, a text is looked at twice: to know its place, and to compare it with what is there.
        frame.execution.charge(len(key))
    if type(key) is int and key.bit_length() > LARGEST_KEY:
        raise TooLarge("a whole number that is the key of a dict", LARGEST_KEY, "bits")
    return key


def charge_product(frame: Frame, left: int, right: int) -> None:
    """Count a multiplication, a division, or what takes as long."""
    bits = left.bit_length()
    if bits > _SHORT_BITS:
        frame.execution.charge(bits * right.bit_length(), _PRODUCT_A_STEP)


def charge_search(frame: Frame, text: str, part: str) -> None:
    """Count the looking for a part in a text."""
    frame.execution.charge(len(text))
    if len(text) < _NAIVE_SEARCH:
        frame.execution.charge(max(len(text) - len(part), 0) * len(part), _COMPARISONS_A_STEP)

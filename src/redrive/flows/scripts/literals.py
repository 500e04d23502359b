"""Numbers, strings and durations of a script, read as Python reads them."""

import re
import unicodedata

from redrive.errors import DurationError
from redrive.failures.duration import read_duration

_SIMPLE = {"\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^{}\n]+)\}|(.))")
_LONGEST_NUMBER = 1000
"""Digits: longer ones are a mistake, and Python itself refuses to print them at some length."""


class LiteralError(ValueError):
    """A literal that means nothing: what is wrong with it, in words."""


def read_number(text: str) -> int | float:
    if len(text) > _LONGEST_NUMBER:
        raise LiteralError(f"a number of {len(text)} characters; at most {_LONGEST_NUMBER}")
    based = text[:2].lower() in ("0x", "0o", "0b")
    try:
        return float(text) if not based and any(char in text for char in ".eE") else int(text, 0)
    except ValueError:
        zeros = "; a number does not begin with 0" if text[:1] == "0" and text.isdigit() else ""
        raise LiteralError(f"'{text}' is not a number{zeros}") from None


def read_seconds(text: str) -> float:
    try:
        return read_duration(text)
    except DurationError as error:
        raise LiteralError(str(error)) from None


def read_string(quoted: str) -> str:
    """What stands between the quotes, with Python's escapes."""
    inside = quoted[1:-1]
    text = _ESCAPE.sub(_unescaped, inside) if "\\" in inside else inside
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise LiteralError("half of a character: \\ud800 to \\udfff stand for nothing alone; write \\U0001F600")
    return text


def _unescaped(escape: "re.Match[str]") -> str:
    octal, two, four, eight, name, other = escape.groups()
    if octal:
        return chr(int(octal, 8))
    if digits := two or four or eight:
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise LiteralError(f"no character has the number {digits}")
        return chr(code)
    if name:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            raise LiteralError(f"no character is named '{name[:80]}'") from None
    if other in _SIMPLE:
        return _SIMPLE[other]
    raise LiteralError(f"'\\{other}' is not an escape; for a backslash itself write \\\\")

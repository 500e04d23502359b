"""Reads number and string literals as Python does."""

import re
import unicodedata

_SIMPLE = {"\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^{}\n]+)\}|(.))")
_LONGEST_NUMBER = 1000
"""Characters of a number: longer ones are a mistake, and Python itself refuses to print very long ones."""


class LiteralError(ValueError):
    """A literal that cannot be read. Its text says why."""


def read_number(text: str) -> int | float:
    if len(text) > _LONGEST_NUMBER:
        raise LiteralError(f"a number has at most {_LONGEST_NUMBER} characters; this one has {len(text)}")
    based = text[:2].lower() in ("0x", "0o", "0b")
    try:
        return float(text) if not based and any(char in text for char in ".eE") else int(text, 0)
    except ValueError:
        zeros = "; a whole number does not begin with 0" if text[:1] == "0" and text.isdigit() else ""
        raise LiteralError(f"'{text}' is not a number{zeros}") from None


def read_string(quoted: str) -> str:
    """The string, with Python's escapes resolved."""
    inside = quoted[1:-1]
    text = _ESCAPE.sub(_unescaped, inside) if "\\" in inside else inside
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise LiteralError("\\ud800 to \\udfff are unpaired surrogates, which are no characters; write \\U0001F600")
    return text


def _unescaped(escape: "re.Match[str]") -> str:
    octal, two, four, eight, name, other = escape.groups()
    if octal:
        return chr(int(octal, 8))
    if digits := two or four or eight:
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise LiteralError(f"no character has the code {digits}")
        return chr(code)
    if name:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            raise LiteralError(f"no character is named '{name[:80]}'") from None
    if other in _SIMPLE:
        return _SIMPLE[other]
    raise LiteralError(f"'\\{other}' is not an escape; for a backslash itself write \\\\")

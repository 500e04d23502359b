"""Plain scalars by the YAML 1.2 core schema, in which `on`, `yes` and `1:30` are strings."""

import re

_WHOLE = re.compile(r"[-+]?[0-9]+\Z")
_OTHER_BASE = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# No setting has more digits, and Python refuses to convert very long digit strings.
_LONGEST_NUMBER = 400

Scalar = str | int | float | bool | None


def plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _WHOLE.match(text):
        return int(text)
    if _OTHER_BASE.match(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _FRACTION.match(text):
        return float(text)
    if _SPECIAL.match(text):
        return float(text.replace(".", ""))
    return text

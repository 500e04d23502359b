"""What a bare word means: YAML 1.2's core rules, so that `on`, `yes` and `1:30` stay the words they are."""

import re

_WHOLE = re.compile(r"[-+]?[0-9]+\Z")
_OTHER_BASE = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Longer digit strings cannot be meant as a setting, and Python refuses to convert the longest of them.
_LONGEST_NUMBER = 400

Scalar = str | int | float | bool | None


def bare_word(text: str) -> Scalar:
    """The value of an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
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

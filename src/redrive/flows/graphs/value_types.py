"""The types of inputs and outputs, which are those of JSON."""

from typing import Any, get_args

from redrive.flows.graphs.spec import ValueType

VALUE_TYPES: tuple[ValueType, ...] = get_args(ValueType)

_IN_WORDS: dict[ValueType, str] = {
    "any": "any value",
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}


def fits(value: Any, wanted: ValueType) -> bool:
    match wanted:
        case "any":
            return True
        case "string":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list | tuple)


def may_fit(given: ValueType, wanted: ValueType) -> bool:
    """Whether a value of one type may fit another."""
    return given == wanted or "any" in (given, wanted) or {given, wanted} == {"integer", "number"}


def in_words(wanted: ValueType) -> str:
    return _IN_WORDS[wanted]


def kind_of(value: Any) -> str:
    """Describe the type of a value without showing the value."""
    if value is None:
        return "null"
    for one in ("boolean", "integer", "number", "string", "object", "array"):
        if fits(value, one):
            return "a boolean" if one == "boolean" else _IN_WORDS[one]
    return f"a {type(value).__name__}"

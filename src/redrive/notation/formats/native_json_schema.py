"""The JSON Schema of redrive's own notation, for editors and for validation in CI."""

from typing import Any

from redrive.notation.fields import LARGEST_COUNT, MOST_RULES
from redrive.notation.formats.native import KEYS, RULE_KEYS
from redrive.notation.wait_text import BACKOFF_KINDS, LARGEST_FACTOR, LEAST_FACTOR, PLAIN_JITTER
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.jitter import PERCENTAGE
from redrive.policies.policy import DEFAULT_POLICY

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER = r"([0-9]+(\.[0-9]+)?|\.[0-9]+)"
_UNITS = r"\s*".join(f"({_NUMBER}\\s*{unit})?" for unit in ("d", "h", "m", "s", "ms"))
# Largest unit first and each at most once, as in the reader; the look-ahead rejects the empty text.
_DURATION = rf"(?=[0-9.])({_NUMBER}|{_UNITS})"
# From 1 to 1000.
_FACTOR = r"x0*([1-9][0-9]{0,2}(\.[0-9]*)?|1000(\.0*)?)"
_STATUS = r"status:\s*([1-5][xX]{2}|[1-5][0-9]{2}(-[1-5][0-9]{2})?)"
_NAME = r"[^\W\d]\w*(\.([^\W\d]\w*|<locals>))*"


def native_schema() -> dict[str, Any]:
    """Return the schema as plain data; `$defs` holds what several fields share."""
    return {
        "$schema": DIALECT,
        "title": "redrive retry policy",
        "description": "What is retried, how often, with which waits and for how long.",
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _FIELDS[key] for key in KEYS},
        "$defs": {
            "duration": _one_of(
                {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "description": "seconds"},
                {"type": "string", "pattern": f"^{_DURATION}$"},
            ),
            "count": {"type": "integer", "minimum": 0, "maximum": LARGEST_COUNT},
            "backoff": _BACKOFF,
            "jitter": _JITTER,
            "failure": _one_of(
                {"type": "string", "pattern": f"^({_STATUS}|{_NAME})$", "not": {"enum": ["none", "nothing"]}},
                {"type": "integer", "minimum": 100, "maximum": 599, "description": "an HTTP status"},
            ),
            "failures": _one_of(_ref("failure"), {"type": "array", "items": _ref("failure")}),
            "rule": {
                "type": "object",
                "additionalProperties": False,
                "required": ["match"],
                "properties": {key: _RULE_FIELDS[key] for key in RULE_KEYS},
            },
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _one_of(*options: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(options)}


def _field(description: str, *options: dict[str, Any], default: Any = None) -> dict[str, Any]:
    field: dict[str, Any] = {"description": description, **_one_of(*options)}
    if default is not None:
        field["default"] = default
    return field


_POSITIVE = {"allOf": [_ref("duration")], "not": {"enum": [0, "0", "0s", "0ms"]}}
_NO_LIMIT = {"const": "unlimited"}
_NONE = {"const": "none"}

_BACKOFF = _one_of(
    {
        "type": "string",
        "pattern": rf"^\s*(exponential\s+{_DURATION}(\s+{_FACTOR})?|(linear|constant)\s+{_DURATION})\s*$",
    },
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["base"],
        "properties": {
            "kind": {"const": "exponential"},
            "base": _ref("duration"),
            "factor": {"type": "number", "minimum": LEAST_FACTOR, "maximum": LARGEST_FACTOR},
        },
    },
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "base"],
        "properties": {"kind": {"enum": list(BACKOFF_KINDS)}, "base": _ref("duration")},
    },
)
_JITTER = _one_of(
    {"enum": list(PLAIN_JITTER)},
    {"type": "string", "pattern": rf"^additive\s+{_DURATION}\s*$"},
    {"type": "string", "pattern": rf"^proportional\s+{PERCENTAGE}\s*$"},
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["additive"],
        "properties": {"additive": _ref("duration")},
    },
)

_FIELDS: dict[str, dict[str, Any]] = {
    "attempts": _field(
        "Total attempts, including the first.",
        {"type": "integer", "minimum": 1, "maximum": LARGEST_COUNT},
        _NO_LIMIT,
        default=DEFAULT_POLICY.attempts,
    ),
    "backoff": _field("How the wait grows from retry to retry.", _ref("backoff"), default="exponential 500ms"),
    "jitter": _field("How the wait is randomised.", _ref("jitter"), default="additive 250ms"),
    "max_wait": _field("The longest wait between two attempts.", _POSITIVE, _NONE, default="30s"),
    "deadline": _field("Time limit for all attempts and waits together.", _POSITIVE, _NONE, default="1m"),
    "attempt_timeout": _field("Time limit for one attempt.", _POSITIVE, _NONE, default="none"),
    "timeout_growth": {
        "description": "After the first timeout, attempts get this multiple of attempt_timeout.",
        "type": "number",
        "minimum": 1,
        "maximum": 10,
        "default": DEFAULT_POLICY.timeout_growth,
    },
    "timeout_retries": _field("Retries granted to attempts that exceeded attempt_timeout.", _ref("count"), _NO_LIMIT),
    "max_retry_after": _field("The longest Retry-After that is obeyed.", _ref("duration"), _NONE, default="1m"),
    "floor": _field("The minimum that a wait of zero is lifted to.", _ref("duration"), default="100ms"),
    "retry_on": _field("The failures that are retried when no rule matches.", _ref("failures"), default=["transient"]),
    "never_on": _field("The failures that are never retried.", _ref("failures"), default=[]),
    "rules": {
        "description": "Limits and waits for particular failures; the first rule that matches applies.",
        "type": "array",
        "maxItems": MOST_RULES,
        "items": _ref("rule"),
        "default": [],
    },
    "idempotent": {
        "description": "False: repeating the work does harm, so a failure that may have taken effect is not retried.",
        "type": "boolean",
    },
}
_RULE_FIELDS: dict[str, dict[str, Any]] = {
    "match": _field(
        "The failures it applies to.", _ref("failure"), {"type": "array", "minItems": 1, "items": _ref("failure")}
    ),
    "retries": _field("Retries it grants, counted separately from all others.", _ref("count"), _NO_LIMIT),
    "backoff": _ref("backoff"),
    "jitter": _ref("jitter"),
    "max_wait": _POSITIVE,
}

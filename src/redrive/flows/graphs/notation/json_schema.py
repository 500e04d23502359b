"""The JSON Schema of a graph, for editors and for checks outside of redrive.

It covers the form only. Problems between steps, such as unknown names and cycles, are found when the graph is read.
"""

from typing import Any

from redrive.flows.dependency_name import LONGEST_DEPENDENCY
from redrive.flows.graphs.conditions import LONGEST_CONDITION
from redrive.flows.graphs.graph import MOST_STEPS
from redrive.flows.graphs.notation.environments import ENVIRONMENT_KEYS, MOST_ENVIRONMENTS
from redrive.flows.graphs.notation.graph_reading import GRAPH_KEYS
from redrive.flows.graphs.notation.handlers import CATEGORIES, HANDLER_KEYS, HTTP_ONLY, LONGEST_ADDRESS
from redrive.flows.graphs.notation.input_reading import MOST_INPUTS
from redrive.flows.graphs.notation.names import LONGEST_NAME, NAME_PATTERN
from redrive.flows.graphs.notation.step_policy import POLICY_KEYS
from redrive.flows.graphs.notation.step_reading import MOST_AT_ONCE, MOST_DEPENDENCIES, STEP_KEYS
from redrive.flows.graphs.value_types import VALUE_TYPES
from redrive.notation.fields import LARGEST_COUNT
from redrive.notation.formats.native_json_schema import DIALECT, native_schema


def graph_schema() -> dict[str, Any]:
    """The schema as plain data."""
    policy = native_schema()
    return {
        "$schema": DIALECT,
        "title": "redrive graph",
        "description": "Steps with their inputs and outputs, and the goals of a flow.",
        "type": "object",
        "required": ["steps"],
        "oneOf": [{"required": ["graph"]}, {"required": ["template"]}],
        "additionalProperties": False,
        "properties": {key: _GRAPH[key] for key in GRAPH_KEYS},
        "$defs": {
            **policy.pop("$defs"),
            "name": {"type": "string", "pattern": NAME_PATTERN, "maxLength": LONGEST_NAME},
            "names": {"type": "array", "items": _ref("name"), "maxItems": MOST_DEPENDENCIES},
            "type": {"enum": list(VALUE_TYPES)},
            "input": _INPUT,
            "flow_input": {
                "anyOf": [_ref("type"), _mapping({"type": _ref("type"), "default": True})],
            },
            "step": _STEP,
            "policy": {key: policy[key] for key in ("type", "additionalProperties", "properties")},
            "environment": _mapping({key: _ENVIRONMENT[key] for key in ENVIRONMENT_KEYS}),
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _mapping(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _by_name(value: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "object", "propertyNames": _ref("name"), "additionalProperties": value, "maxProperties": most}


_INPUT: dict[str, Any] = {
    "description": "a type, or a mapping",
    "anyOf": [
        _ref("type"),
        {
            **_mapping({"type": _ref("type"), "value": {"not": {"type": "null"}}}),
            "required": ["value"],
            "description": "a constant",
        },
        _mapping(
            {
                "type": _ref("type"),
                "default": {"description": "the value when nothing provides it"},
                "for_each": {"type": "boolean", "description": "the value is a list; each element gets a work item"},
                "from": _ref("name") | {"description": "the name of its value"},
            }
        ),
    ],
}

_COUNT_OF_MS = {"type": "integer", "minimum": 0}

_STEP_FIELDS: dict[str, Any] = {
    "endpoint": {"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^ ]+$", "maxLength": LONGEST_ADDRESS},
    "action": {"type": "string", "minLength": 1, "description": "a function that is registered with @action"},
    "handler": {"type": "string", "pattern": "^[^:]+:.+", "description": "package.module:function"},
    "mode": {"enum": ["sync", "async"], "default": "sync"},
    "statuses": {
        "type": "object",
        "propertyNames": {"pattern": "^[2-5][0-9]{2}$"},
        "additionalProperties": {"enum": list(CATEGORIES)},
    },
    "conflict": {"enum": ["reread"], "description": "409 is an optimistic-lock conflict"},
    "inputs": _by_name(_ref("input"), MOST_INPUTS),
    "outputs": {
        "anyOf": [
            _by_name(_ref("type"), MOST_INPUTS),
            {"type": "array", "items": _ref("name"), "uniqueItems": True, "maxItems": MOST_INPUTS},
        ]
    },
    "depends_on": _ref("names"),
    "when": {"type": "string", "minLength": 1, "maxLength": LONGEST_CONDITION},
    "parallelism": {"type": "integer", "minimum": 1, "maximum": MOST_AT_ONCE},
    "work_config": _mapping(
        {
            "max_retries": {"type": "integer", "minimum": -1, "maximum": LARGEST_COUNT - 1},
            "backoff": _COUNT_OF_MS,
            "max_backoff": {"type": "integer", "minimum": 1},
            "backoff_type": {"enum": ["fixed", "linear", "exponential"]},
        }
    ),
    "retry": _mapping(
        {
            "retryable": {"type": "boolean"},
            "max_attempts": {"type": "integer", "minimum": 1, "maximum": LARGEST_COUNT},
            "backoff": {"enum": ["exponential", "linear", "constant", "fixed", "none"]},
            "backoff_base_ms": _COUNT_OF_MS,
            "max_backoff_ms": {"type": "integer", "minimum": 1},
        }
    ),
    "policy": {"anyOf": [{"type": "string", "description": "[retry: 3, backoff: 30s]"}, _ref("policy")]},
    "timeout": _ref("duration"),
    "idempotent": {"type": "boolean"},
    "dependency": {"type": "string", "minLength": 1, "maxLength": LONGEST_DEPENDENCY},
    "compensate": _ref("name"),
}


def _at_most_one(keys: tuple[str, ...]) -> dict[str, Any]:
    none = {"not": {"anyOf": [{"required": [key]} for key in keys]}}
    return {"oneOf": [none, *({"required": [key]} for key in keys)]}


_STEP: dict[str, Any] = {
    **_mapping({key: _STEP_FIELDS[key] for key in STEP_KEYS}),
    "oneOf": [{"required": [key]} for key in HANDLER_KEYS],
    "allOf": [_at_most_one(POLICY_KEYS)],
    "dependentRequired": {key: ["endpoint"] for key in HTTP_ONLY},
}

_GRAPH: dict[str, Any] = {
    "graph": _ref("name"),
    "template": _ref("name"),
    "description": {"type": "string"},
    "goals": {**_ref("names"), "description": "by default all steps that do not compensate another", "minItems": 1},
    "also": {**_ref("names"), "description": "steps that run besides the goals, and may fail"},
    "inputs": _by_name(_ref("flow_input"), MOST_INPUTS),
    "steps": {**_by_name(_ref("step"), MOST_STEPS), "minProperties": 1},
    "environments": _by_name(_ref("environment"), MOST_ENVIRONMENTS),
}

# The overrides of a step: none of its keys is required.
_ENVIRONMENT: dict[str, Any] = {
    **{key: _GRAPH[key] for key in ("description", "goals", "also", "inputs")},
    "steps": _by_name(_mapping({key: _STEP_FIELDS[key] for key in STEP_KEYS}), MOST_STEPS),
}

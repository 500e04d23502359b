"""Derive the inputs of a step from the parameters of its Python function."""

import inspect
import types
from typing import Any, Union, get_origin, get_type_hints

import msgspec

from redrive.flows.action import Action
from redrive.flows.graphs.spec import InputSpec, ValueType

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_TYPES: dict[Any, ValueType] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    tuple: "array",
    set: "array",
    frozenset: "array",
}


def inputs_of_action(action: Action[..., Any]) -> dict[str, InputSpec]:
    """The parameters as inputs; required without a default. A default that JSON cannot hold is left to the function."""
    try:
        hints = get_type_hints(action.function)
    except Exception:  # noqa: BLE001 - unreadable hints are reported when the action is called
        hints = {}
    inputs: dict[str, InputSpec] = {}
    for name, parameter in inspect.signature(action.function).parameters.items():
        if parameter.kind not in _BY_NAME:
            continue
        kind = _value_type(hints.get(name, Any))
        if parameter.default is parameter.empty:
            inputs[name] = InputSpec(type=kind)
            continue
        try:
            written, read = action.signature.stored_argument(name, parameter.default)
        except TypeError:
            continue
        if read == parameter.default:
            inputs[name] = InputSpec(type=kind, role="optional", default=msgspec.json.decode(written))
    return inputs


def parameters_of_action(action: Action[..., Any]) -> tuple[str, ...] | None:
    """The parameters that can be passed by name; None for any name, since the function has `**kwargs`."""
    parameters = inspect.signature(action.function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return tuple(one.name for one in parameters if one.kind in _BY_NAME)


def _value_type(hint: Any) -> ValueType:
    origin = get_origin(hint) or hint
    if origin in (Union, types.UnionType):
        return "any"
    try:
        known = _TYPES.get(origin)
    except TypeError:
        return "any"
    if known is None and isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return "array" if origin.__struct_config__.array_like else "object"
    return known or "any"

"""Read inputs and outputs: `order_id: string`, `{type: string, default: north}`, `{value: web}`."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from redrive.errors import NotationError
from redrive.flows.graphs.item_inputs import misfit
from redrive.flows.graphs.notation.names import read_name
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.spec import InputSpec, ValueType
from redrive.flows.graphs.value_types import VALUE_TYPES, fits, in_words, kind_of
from redrive.notation.fields import Fields
from redrive.notation.place import Place, similar

INPUT_KEYS = ("type", "default", "value", "for_each", "from")
NOT_FOR_CONSTANTS = ("default", "for_each", "from")
FLOW_INPUT_KEYS = ("type", "default")
MOST_INPUTS = 500

_OTHER_WORDS: dict[str, ValueType] = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "mapping": "object",
    "list": "array",
}


def read_inputs(data: Any, place: Place, problems: Problems) -> dict[str, InputSpec]:
    """The inputs of a step."""
    inputs: dict[str, InputSpec] = {}
    for name, value, at in _entries(data, place, problems, "inputs, such as {order_id: string}"):
        # An input that cannot be read accepts anything, so that it causes no further problems.
        inputs[str(name)] = InputSpec(role="optional")
        with problems:
            inputs[read_name(name, at)] = _read_input(value, at, problems)
    return inputs


def read_flow_inputs(data: Any, place: Place, problems: Problems) -> dict[str, InputSpec]:
    """The inputs of a graph, each with a type and an optional default."""
    inputs: dict[str, InputSpec] = {}
    for name, value, at in _entries(data, place, problems, "inputs, such as {order_id: string}"):
        inputs[str(name)] = InputSpec(role="optional")
        with problems:
            inputs[read_name(name, at)] = _read_flow_input(value, at, problems)
    return inputs


def read_outputs(data: Any, place: Place, problems: Problems) -> dict[str, ValueType]:
    """The outputs of a step, written as a mapping of names to types or as a list of names."""
    outputs: dict[str, ValueType] = {}
    if isinstance(data, list | tuple) and len(data) <= MOST_INPUTS:
        for index, one in enumerate(data):
            with problems:
                name = read_name(one, place.at(index))
                if name in outputs:
                    raise place.at(index).refuse(one, "named twice", "each output once")
                outputs[name] = "any"
        return outputs
    for name, value, at in _entries(data, place, problems, "outputs, such as {total: number} or [total]"):
        outputs[str(name)] = "any"
        with problems:
            outputs[read_name(name, at)] = read_type(value, at)
    return outputs


def read_type(value: Any, place: Place) -> ValueType:
    for known in VALUE_TYPES:
        if value == known:
            return known
    hint = ""
    if isinstance(value, str):
        other = _OTHER_WORDS.get(value.lower())
        hint = f"; did you mean '{other}'?" if other else similar(value, VALUE_TYPES)
    raise place.refuse(value, f"not a type{hint}", ", ".join(VALUE_TYPES))


def _entries(data: Any, place: Place, problems: Problems, what: str) -> Iterator[tuple[Any, Any, Place]]:
    if not isinstance(data, Mapping):
        problems.add(place.refuse(data, f"not a mapping of {what}", "names, each with its type"))
    elif len(data) > MOST_INPUTS:
        problems.add(place.refuse(f"{len(data)} names", "too many", f"at most {MOST_INPUTS}"))
    else:
        yield from ((name, value, place.at(str(name))) for name, value in data.items())


def _read_input(data: Any, place: Place, problems: Problems) -> InputSpec:
    if not isinstance(data, Mapping):
        return InputSpec(type=read_type(data, place))
    fields = problems.fields(data, place, INPUT_KEYS, "an input")
    if fields is None:
        return InputSpec()
    if "value" in fields:
        return _read_constant(fields, problems)
    kind: ValueType = "any"
    with problems:
        kind = read_type(fields.data.get("type", "any"), place.at("type"))
    each = False
    with problems:
        each = fields.flag("for_each", False)
    source = None
    with problems:
        source = read_name(fields.data["from"], place.at("from")) if "from" in fields else None
    if "default" not in fields:
        return InputSpec(type=kind, for_each=each, source=source)
    default = _plain(fields, "default")
    spec = InputSpec(type=kind, role="optional", default=default, for_each=each, source=source)
    if found := misfit(spec, default):
        at = place.at("default", *found.path)
        raise at.refuse(kind_of(default), found.problem, "a default that fits the input")
    return spec


def _read_constant(fields: Fields, problems: Problems) -> InputSpec:
    for key in NOT_FOR_CONSTANTS:
        if key in fields:
            what = "no list to iterate over" if key == "for_each" else "its value already"
            problems.add(_refused(fields, key, f"a constant has {what}", f"either {key} or value"))
    value = _plain(fields, "value")
    if value is None:
        raise fields.refuse("value", "any value except null, or no such input", "a constant needs a value")
    kind = read_type(fields.data.get("type", "any"), fields.place.at("type"))
    if not fits(value, kind):
        raise _refused(fields, "value", f"does not match its type {kind}", in_words(kind))
    return InputSpec(type=kind, role="constant", value=value)


def _read_flow_input(data: Any, place: Place, problems: Problems) -> InputSpec:
    if not isinstance(data, Mapping):
        return InputSpec(type=read_type(data, place))
    fields = problems.fields(data, place, FLOW_INPUT_KEYS, "an input of a graph")
    if fields is None:
        return InputSpec()
    kind = read_type(fields.data.get("type", "any"), place.at("type"))
    if "default" not in fields:
        return InputSpec(type=kind)
    default = _plain(fields, "default")
    spec = InputSpec(type=kind, role="optional", default=default)
    if found := misfit(spec, default):
        raise _refused(fields, "default", found.problem, in_words(kind))
    return spec


def _plain(fields: Fields, key: str) -> Any:
    """The value as JSON keeps it, so that a flow sees the same value after it is stored."""
    value = fields.data[key]
    try:
        kept = msgspec.json.decode(msgspec.json.encode(value))
        if kept == value:
            return kept
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError, OverflowError):
        pass
    allowed = "JSON values: strings, numbers, true, false, null, lists and objects"
    raise _refused(fields, key, "not allowed", allowed)


def _refused(fields: Fields, key: str, problem: str, allowed: str) -> NotationError:
    """An error without the value, which may be a secret under any name."""
    return fields.place.at(key).refuse(kind_of(fields.data[key]), problem, allowed)

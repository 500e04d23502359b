"""Overrides of a graph for single environments."""

from collections.abc import Mapping
from typing import Any

from redrive.flows.graphs.notation.handlers import HANDLER_KEYS, HTTP_ONLY
from redrive.flows.graphs.notation.input_reading import NOT_FOR_CONSTANTS
from redrive.flows.graphs.notation.names import read_name
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.notation.step_policy import POLICY_KEYS
from redrive.notation.place import Place

MOST_ENVIRONMENTS = 20
ENVIRONMENT_KEYS = ("description", "goals", "also", "inputs", "steps")

# A key in an override removes these keys, unless the override has them too.
_REPLACED_IN_STEP: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(POLICY_KEYS, POLICY_KEYS),
    **dict.fromkeys(HANDLER_KEYS, (*HANDLER_KEYS, *HTTP_ONLY)),
    "endpoint": HANDLER_KEYS,
}
_REPLACED_IN_INPUT: dict[str, tuple[str, ...]] = {
    "value": NOT_FOR_CONSTANTS,
    **dict.fromkeys(NOT_FOR_CONSTANTS, ("value",)),
}


def read_environments(data: Any, place: Place, problems: Problems) -> dict[str, Mapping[str, Any]]:
    """The overrides of each environment."""
    found: dict[str, Mapping[str, Any]] = {}
    if not isinstance(data, Mapping):
        allowed = "names with their overrides, such as {production: {steps: {...}}}"
        problems.add(place.refuse(data, "not a mapping of environments", allowed))
    elif len(data) > MOST_ENVIRONMENTS:
        problems.add(place.refuse(f"{len(data)} environments", "too many", f"at most {MOST_ENVIRONMENTS}"))
    else:
        for name, overrides in data.items():
            with problems:
                read_name(name, place.at(str(name)))
                fields = problems.fields(overrides, place.at(name), ENVIRONMENT_KEYS, "a mapping of overrides")
                if fields is not None:
                    found[name] = fields.data
    return found


def in_environment(data: Mapping[str, Any], name: str, overrides: Mapping[str, Any], place: Place) -> tuple[Any, Place]:
    """The graph with the overrides of an environment. Each key keeps its line for error messages."""
    merged = _merged(data, overrides)
    steps, over = data.get("steps"), overrides.get("steps")
    if isinstance(steps, Mapping) and isinstance(over, Mapping):
        for step in over.keys() & steps.keys():
            merged["steps"][step] = _merged_step(steps[step], over[step])
    prefix = (*place.path, "environments", name)
    moved = {path[len(prefix) :]: at for path, at in place.positions.items() if path[: len(prefix)] == prefix}
    # A mapping that both have keeps its line in the graph; its keys may come from either.
    both = {path[:-1] for path in moved} & place.positions.keys()
    moved = {path: at for path, at in moved.items() if path not in both}
    return merged, Place(place.source, {**place.positions, **moved}, place.path)


def _merged_step(step: Any, over: Any) -> Any:
    if not isinstance(step, Mapping) or not isinstance(over, Mapping):
        return over
    merged = _merged(_without_replaced(step, over, _REPLACED_IN_STEP), over)
    inputs, others = step.get("inputs"), over.get("inputs")
    if isinstance(inputs, Mapping) and isinstance(others, Mapping):
        for name in inputs.keys() & others.keys():
            one, other = inputs[name], others[name]
            if isinstance(one, Mapping) and isinstance(other, Mapping):
                merged["inputs"][name] = _merged(_without_replaced(one, other, _REPLACED_IN_INPUT), other)
    return merged


def _without_replaced(
    data: Mapping[str, Any], over: Mapping[str, Any], replaced: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    gone = {old for key in over for old in replaced.get(key, ())} - over.keys()
    return {key: value for key, value in data.items() if key not in gone}


def _merged(data: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings are merged, anything else is replaced."""
    merged = dict(data)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = _merged(old, value)
        merged[key] = value
    return merged

"""Write a step in the form that `read_step` reads, so that a listed step can be registered again."""

from typing import Any

import msgspec

from redrive.flows.graphs.spec import ActionHandler, InputSpec, StepSpec


def step_as_data(spec: StepSpec) -> dict[str, Any]:
    """The step as data; `read_step` returns the same step for it."""
    data: dict[str, Any] = {"name": spec.name}
    handler = spec.handler
    if isinstance(handler, ActionHandler):
        data["action"] = handler.action
    else:
        data["endpoint"] = handler.endpoint
        data["mode"] = handler.mode
        if handler.statuses:
            data["statuses"] = dict(handler.statuses)
        if handler.conflict_is_lock:
            data["conflict"] = "reread"
    data["inputs"] = {name: input_as_data(one) for name, one in spec.inputs.items()}
    if spec.outputs:
        data["outputs"] = dict(spec.outputs)
    if spec.depends_on:
        data["depends_on"] = list(spec.depends_on)
    if spec.when:
        data["when"] = spec.when
    data["policy"] = msgspec.json.decode(spec.policy)
    for key in ("parallelism", "dependency", "compensate"):
        if (value := getattr(spec, key)) is not None:
            data[key] = value
    return data


def input_as_data(spec: InputSpec) -> Any:
    """The input as data: just its type if it has no other settings."""
    data: dict[str, Any] = {}
    if spec.type != "any":
        data["type"] = spec.type
    if spec.role == "constant":
        return data | {"value": spec.value}
    if spec.role == "optional":
        data["default"] = spec.default
    if spec.for_each:
        data["for_each"] = True
    if spec.source is not None:
        data["from"] = spec.source
    return data if data.keys() - {"type"} else spec.type

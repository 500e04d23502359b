"""Turn a handler's result into the outputs that its step declares."""

from collections.abc import Mapping
from typing import Any

from redrive.flows.graphs.spec import StepSpec
from redrive.flows.graphs.value_types import fits, in_words, kind_of


class OutputError(ValueError):
    """A result is not what the step declares. The message does not show the values."""


def outputs_of(spec: StepSpec, result: Any) -> dict[str, Any]:
    """The outputs of the step, by name; raises OutputError.

    An object that has all declared names provides them. A single declared output takes any other result as a whole,
    an object only if its type allows objects. A step that declares no output has one, named like the step.
    """
    declared = spec.outputs
    if not declared:
        return {spec.name: result}
    may_be_object = not {"any", "object"}.isdisjoint(declared.values())
    if isinstance(result, Mapping) and declared.keys() <= result.keys():
        outputs = {name: result[name] for name in declared}
    elif len(declared) == 1 and (may_be_object or not isinstance(result, Mapping)):
        outputs = dict.fromkeys(declared, result)
    elif isinstance(result, Mapping):
        missing = [name for name in declared if name not in result]
        raise OutputError(
            f"step {spec.name}: the result has no {', '.join(missing)}; the step declares {', '.join(declared)}"
        )
    else:
        names = ", ".join(declared)
        raise OutputError(f"step {spec.name}: the result is {kind_of(result)}, not an object with {names}")
    for name, value in outputs.items():
        if not fits(value, declared[name]):
            wanted = in_words(declared[name])
            raise OutputError(f"step {spec.name}: output {name!r} is {kind_of(value)}, but {wanted} is declared")
    return outputs

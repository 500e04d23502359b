"""What a handler answered, as the outputs that its step declares."""

from collections.abc import Mapping
from typing import Any

from redrive.flows.graphs.spec import StepSpec
from redrive.flows.graphs.value_types import fits, in_words, kind_of


class OutputError(ValueError):
    """An answer that is not what the step declares; the values themselves are not shown."""


def outputs_of(spec: StepSpec, result: Any) -> dict[str, Any]:
    """An object with all declared names gives those; one declared output takes any other answer whole.

    But an object is taken whole only where the output may be one: else its name is missing.
    A step that declares no output gives one value, named like the step.
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
            f"step {spec.name}: the answer has no {', '.join(missing)}; it declares {', '.join(declared)}"
        )
    else:
        names = ", ".join(declared)
        raise OutputError(f"step {spec.name}: the answer is {kind_of(result)}, not an object with {names}")
    for name, value in outputs.items():
        if not fits(value, declared[name]):
            wanted = in_words(declared[name])
            raise OutputError(f"step {spec.name}: its output {name!r} is {kind_of(value)}, and {wanted} is declared")
    return outputs

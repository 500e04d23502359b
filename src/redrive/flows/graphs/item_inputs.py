"""The inputs of a running step: looked up by name, checked against their types, and split among its items."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from redrive.flows.graphs.spec import InputSpec, StepSpec
from redrive.flows.graphs.value_types import fits, in_words, kind_of

MOST_ITEMS = 100_000
"""The most work items that one step may have."""


class UnfitInput(ValueError):
    """A value does not fit the step. The message does not show the value."""


class ItemInputs:
    """The inputs of each item of a step. With several `for_each` lists, the first varies slowest."""

    def __init__(self, spec: StepSpec, values: Mapping[str, Any]) -> None:
        """Raises UnfitInput when a value does not fit the step."""
        self.whole = {name: _taken(name, one, values) for name, one in spec.inputs.items()}
        """The inputs of the whole step, lists included; its condition sees these."""
        self._axes = [name for name, one in spec.inputs.items() if one.for_each]
        self.count = prod(len(self.whole[name]) for name in self._axes)
        if self.count > MOST_ITEMS:
            raise UnfitInput(f"for_each makes {self.count} work items; at most {MOST_ITEMS} are allowed")

    def of_item(self, index: int) -> dict[str, Any]:
        inputs = dict(self.whole)
        for name in reversed(self._axes):
            index, place = divmod(index, len(self.whole[name]))
            inputs[name] = self.whole[name][place]
        return inputs


def inputs_to_compensate(spec: StepSpec, *values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a compensation, each from the first mapping that has it."""
    together: dict[str, Any] = {}
    for name, one in spec.inputs.items():
        source = one.source or name
        for given in values:
            if source in given:
                together[source] = given[source]
                break
    return {name: _taken(name, one, together) for name, one in spec.inputs.items()}


def _taken(name: str, spec: InputSpec, values: Mapping[str, Any]) -> Any:
    if spec.role == "constant":
        return spec.value
    source = spec.source or name
    if source not in values:
        if spec.role == "required":
            raise UnfitInput(f"input {name!r}: nothing provides {source!r}")
        return _fitting(name, spec, spec.default) if spec.for_each else spec.default
    return _fitting(name, spec, values[source])


def _fitting(name: str, spec: InputSpec, value: Any) -> Any:
    if found := misfit(spec, value):
        where = "".join(f"[{index}]" for index in found.path)
        raise UnfitInput(f"input {name!r}{where}: {found.problem}")
    return value


class Misfit(NamedTuple):
    path: tuple[int, ...]
    """Where it is, below the value."""
    problem: str


def misfit(spec: InputSpec, value: Any) -> Misfit | None:
    """What is wrong with the value of an input, which is a list with `for_each`; None when it fits."""
    if not spec.for_each:
        if fits(value, spec.type) or (value is None and spec.role == "optional" and spec.default is None):
            return None
        return Misfit((), f"{kind_of(value)} where {in_words(spec.type)} is needed")
    if not isinstance(value, list | tuple):
        return Misfit((), f"{kind_of(value)} where for_each needs a list")
    if spec.type != "any":
        for index, one in enumerate(value):
            if not fits(one, spec.type):
                return Misfit((index,), f"{kind_of(one)} where {in_words(spec.type)} is needed")
    return None

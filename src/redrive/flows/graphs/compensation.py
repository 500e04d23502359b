"""Compensation of a failed flow: completed items are compensated one at a time, newest first."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.flows.graphs.item_inputs import ItemInputs, inputs_to_compensate
from redrive.flows.graphs.moves import ItemKey
from redrive.flows.graphs.spec import Plan, StepSpec


class CompletedItem(NamedTuple):
    """A completed item that has a compensation."""

    key: ItemKey
    """The key of its compensation."""
    spec: StepSpec
    """The step that compensates it."""
    step_inputs: ItemInputs
    outputs: Mapping[str, Any]

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of its compensation: each from the item's outputs, its inputs, or the values of the flow."""
        return inputs_to_compensate(self.spec, self.outputs, self.step_inputs.of_item(self.key.index), values)


class Compensation:
    """The completed items that are still to be compensated, and what became of the others."""

    def __init__(self, plan: Plan) -> None:
        self._specs = {spec.name: spec for spec in plan.compensations}
        self._completed: list[CompletedItem] = []
        self._left_of: dict[str, int] = {}
        self._failures: dict[str, dict[int, str]] = {}
        """Step -> index of the item -> why its compensation failed."""
        self._succeeded = 0
        self.open: set[ItemKey] = set()
        """The compensations that run: one at a time, or those that failed and are tried again."""

    def add(self, spec: StepSpec, index: int, inputs: ItemInputs, outputs: Mapping[str, Any]) -> None:
        """An item of the step has completed."""
        if spec.compensate is not None:
            key = ItemKey(spec.name, index, compensates=True)
            self._completed.append(CompletedItem(key, self._specs[spec.compensate], inputs, outputs))
            self._left_of[spec.name] = self._left_of.get(spec.name, 0) + 1

    def next(self) -> CompletedItem | None:
        if not self._completed:
            return None
        item = self._completed.pop()
        self.open.add(item.key)
        return item

    def end(self, key: ItemKey, failure: str) -> None:
        """The compensation ended; an empty failure means that it succeeded."""
        self.open.discard(key)
        self._left_of[key.step] -= 1
        if failure:
            self._failures.setdefault(key.step, {})[key.index] = failure
        else:
            self._succeeded += 1

    def reopen(self, key: ItemKey) -> None:
        """The compensation, which had failed, is tried again."""
        self.open.add(key)
        self._left_of[key.step] += 1
        failures = self._failures[key.step]
        del failures[key.index]
        if not failures:
            del self._failures[key.step]

    def left(self, step: str) -> int:
        return self._left_of.get(step, 0)

    def failure(self, step: str) -> str:
        return next(iter(self._failures.get(step, {}).values()), "")

    @property
    def is_complete(self) -> bool:
        """Whether something was compensated, and nothing failed to be."""
        return bool(self._succeeded) and not self._failures

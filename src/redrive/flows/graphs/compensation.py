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
        self._failures: dict[str, str] = {}
        self._succeeded = 0
        self.current: ItemKey | None = None

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
        self.current = item.key
        return item

    def end_current(self, failure: str) -> None:
        """The current compensation ended; an empty failure means that it succeeded."""
        if self.current is not None:
            self._left_of[self.current.step] -= 1
            if failure:
                self._failures.setdefault(self.current.step, failure)
            else:
                self._succeeded += 1
            self.current = None

    def left(self, step: str) -> int:
        return self._left_of.get(step, 0)

    def failure(self, step: str) -> str:
        return self._failures.get(step, "")

    @property
    def is_complete(self) -> bool:
        """Whether something was compensated, and nothing failed to be."""
        return bool(self._succeeded) and not self._failures

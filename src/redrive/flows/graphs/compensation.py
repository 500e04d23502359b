"""What a flow that failed has to undo: the newest completion first, one after the other."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.flows.graphs.item_inputs import ItemInputs, inputs_to_compensate
from redrive.flows.graphs.moves import ItemKey
from redrive.flows.graphs.spec import Plan, StepSpec


class Undo(NamedTuple):
    key: ItemKey
    spec: StepSpec
    """The step that undoes."""
    done_with: ItemInputs
    outputs: Mapping[str, Any]

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """By name from what the item gave, then from what it got, then from the values of the flow."""
        return inputs_to_compensate(self.spec, self.outputs, self.done_with.of_item(self.key.index), values)


class Rewind:
    def __init__(self, plan: Plan) -> None:
        self._specs = {spec.name: spec for spec in plan.compensations}
        self._left: list[Undo] = []
        self._left_of: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._went_well = 0
        self.current: ItemKey | None = None

    def remember(self, spec: StepSpec, index: int, inputs: ItemInputs, outputs: Mapping[str, Any]) -> None:
        """An item completed."""
        if spec.compensate is not None:
            key = ItemKey(spec.name, index, compensates=True)
            self._left.append(Undo(key, self._specs[spec.compensate], inputs, outputs))
            self._left_of[spec.name] = self._left_of.get(spec.name, 0) + 1

    def next(self) -> Undo | None:
        if not self._left:
            return None
        undo = self._left.pop()
        self.current = undo.key
        return undo

    def ended(self, trouble: str) -> None:
        """What became of the current one; no trouble: it is undone."""
        if self.current is not None:
            self._left_of[self.current.step] -= 1
            if trouble:
                self._troubles.setdefault(self.current.step, trouble)
            else:
                self._went_well += 1
            self.current = None

    def left(self, step: str) -> int:
        return self._left_of.get(step, 0)

    def trouble(self, step: str) -> str:
        return self._troubles.get(step, "")

    @property
    def all_went_well(self) -> bool:
        return bool(self._went_well) and not self._troubles

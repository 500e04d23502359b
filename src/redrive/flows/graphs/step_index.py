"""An index of steps by name and by output, built once for a graph or a catalogue and used for each plan."""

from collections.abc import Iterable

from redrive.flows.graphs.edges import given_by
from redrive.flows.graphs.spec import StepSpec


class StepIndex:
    def __init__(self, steps: Iterable[StepSpec]) -> None:
        self.by_name: dict[str, StepSpec] = {spec.name: spec for spec in steps}
        self.compensates: dict[str, list[str]] = {}
        """Compensating step -> the steps that it compensates. It runs only for compensation."""
        for spec in self.by_name.values():
            if spec.compensate is not None:
                self.compensates.setdefault(spec.compensate, []).append(spec.name)
        self.providers: dict[str, list[str]] = {}
        """Name of a value -> the steps that provide it, of which there should be one."""
        for spec in self.regular_steps():
            for name in given_by(spec):
                self.providers.setdefault(name, []).append(spec.name)

    def regular_steps(self) -> list[StepSpec]:
        """All steps except the compensating ones."""
        return [spec for spec in self.by_name.values() if spec.name not in self.compensates]

"""Steps by name and by what they give: made once for a graph or a catalogue, and asked for each plan."""

from collections.abc import Iterable

from redrive.flows.graphs.edges import given_by
from redrive.flows.graphs.spec import StepSpec


class StepIndex:
    def __init__(self, steps: Iterable[StepSpec]) -> None:
        self.by_name: dict[str, StepSpec] = {spec.name: spec for spec in steps}
        self.compensates: dict[str, list[str]] = {}
        """A step that only undoes -> the steps it undoes. It takes no part in the flow of data."""
        for spec in self.by_name.values():
            if spec.compensate is not None:
                self.compensates.setdefault(spec.compensate, []).append(spec.name)
        self.providers: dict[str, list[str]] = {}
        """Name of a value -> the steps that give it, of which there should be one."""
        for spec in self.working():
            for name in given_by(spec):
                self.providers.setdefault(name, []).append(spec.name)

    def working(self) -> list[StepSpec]:
        """Without those that only undo."""
        return [spec for spec in self.by_name.values() if spec.name not in self.compensates]

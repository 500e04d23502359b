"""Check the steps of a graph against each other, once each of them could be read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from redrive.flows.graphs.cycles import cycle_in_words, ordered
from redrive.flows.graphs.edges import edges_of, given_by, taken_by
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.spec import InputSpec, StepSpec, ValueType
from redrive.flows.graphs.step_index import StepIndex
from redrive.flows.graphs.value_types import in_words, may_fit
from redrive.notation.errors import Path


class Flaw(NamedTuple):
    """A problem at a path below the graph."""

    path: Path
    value: Any
    problem: str
    allowed: str


def flaws_of_step(spec: StepSpec) -> Iterator[Flaw]:
    """Contradictions within one step; in a graph, the search for cycles finds them."""
    if spec.name in spec.depends_on:
        place = spec.depends_on.index(spec.name)
        yield Flaw(("depends_on", place), spec.name, "a step cannot wait for itself", "other steps")
    for one in taken_by(spec):
        if one.source in given_by(spec):
            path: Path = ("inputs", one.name, "from") if one.spec.source else ("inputs", one.name)
            yield Flaw(path, one.source, f"the step provides '{one.source}' itself", "another name for one of the two")


class Structure:
    """Checks all steps of a graph together. `declared`: the graph's inputs; None when it declares none."""

    def __init__(self, index: StepIndex, declared: Mapping[str, InputSpec] | None, problems: Problems) -> None:
        self._index = index
        self._declared = declared
        self._problems = problems
        self._working = tuple(spec.name for spec in index.regular_steps())

    def flaws(self, goals: Sequence[str], also: Sequence[str]) -> Iterator[Flaw]:
        yield from self._of_names(("goals",), goals, "a goal")
        yield from self._of_names(("also",), also, "run")
        for spec in self._index.by_name.values():
            yield from self._of_names(("steps", spec.name, "depends_on"), spec.depends_on, "waited for")
            yield from self._of_compensation(spec)
        yield from self._two_providers()
        for spec in self._index.regular_steps():
            yield from self._of_inputs(spec)
        yield from self._cycles()

    def _of_names(self, path: Path, names: Sequence[str], what: str) -> Iterator[Flaw]:
        seen: set[str] = set()
        for place, name in enumerate(names):
            if name not in self._index.by_name:
                hint = self._problems.similar(name, self._working)
                yield Flaw((*path, place), name, f"there is no such step{hint}", self._steps_in_words())
            elif name in self._index.compensates:
                compensated = self._index.compensates[name][0]
                problem = f"this step only compensates {compensated} and cannot be {what}"
                yield Flaw((*path, place), name, problem, f"another step, or no compensation for {compensated}")
            elif name in seen:
                yield Flaw((*path, place), name, "named twice", "each step once")
            seen.add(name)

    def _steps_in_words(self) -> str:
        some = ", ".join(self._working[:10])
        return f"one of the steps {some}{', ...' if len(self._working) > 10 else ''}"

    def _of_compensation(self, spec: StepSpec) -> Iterator[Flaw]:
        path: Path = ("steps", spec.name)
        if spec.compensate is not None and spec.compensate not in self._index.by_name:
            hint = self._problems.similar(spec.compensate, tuple(self._index.by_name))
            yield Flaw((*path, "compensate"), spec.compensate, f"there is no such step{hint}", "a step of this graph")
        if spec.name not in self._index.compensates:
            return
        what = f"the compensation of {self._index.compensates[spec.name][0]}"
        if spec.compensate is not None:
            yield Flaw((*path, "compensate"), spec.compensate, f"{what} cannot itself be compensated", "leave it out")
        if spec.depends_on:
            value = list(spec.depends_on)
            yield Flaw((*path, "depends_on"), value, f"{what} cannot wait for other steps", "leave it out")
        if spec.when:
            yield Flaw((*path, "when"), spec.when, f"{what} cannot have a condition", "leave it out")
        for name, one in spec.inputs.items():
            if one.for_each:
                problem = f"{what} runs once for each item"
                yield Flaw((*path, "inputs", name, "for_each"), True, problem, "leave it out")
        yield from self._inputs_to_compensate(spec)

    def _inputs_to_compensate(self, spec: StepSpec) -> Iterator[Flaw]:
        if self._declared is None:
            return
        for other in (self._index.by_name[name] for name in self._index.compensates[spec.name]):
            known = (*given_by(other), *other.inputs)
            for one in taken_by(spec):
                if one.spec.role == "required" and one.source not in known and not self._is_provided(one.source):
                    hint = self._problems.similar(one.source, known)
                    problem = f"neither step {other.name}, which it compensates, nor the flow has it{hint}"
                    allowed = "an output or an input of the step it compensates, or a value of the flow"
                    yield Flaw(self._path_of(spec, one.name), one.source, problem, allowed)

    def _path_of(self, spec: StepSpec, name: str) -> Path:
        path: Path = ("steps", spec.name, "inputs", name)
        return (*path, "from") if spec.inputs[name].source else path

    def _is_provided(self, name: str) -> bool:
        return name in self._index.providers or (self._declared is not None and name in self._declared)

    def _two_providers(self) -> Iterator[Flaw]:
        for name, steps in self._index.providers.items():
            first = f"step {steps[0]}"
            if self._declared is not None and name in self._declared:
                others, first = steps, "an input of the graph"
            else:
                others = steps[1:]
            for step in others:
                declares = name in self._index.by_name[step].outputs
                path: Path = ("steps", step, "outputs", name) if declares else ("steps", step)
                yield Flaw(path, name, f"{first} already provides '{name}'", "another name in one of the two")

    def _of_inputs(self, spec: StepSpec) -> Iterator[Flaw]:
        for one in taken_by(spec):
            path = self._path_of(spec, one.name)
            if not self._is_provided(one.source):
                named = one.spec.source is not None or one.spec.role == "required"
                if self._declared is not None and named:
                    hint = self._problems.similar(one.source, (*self._declared, *self._index.providers))
                    problem = f"nothing provides '{one.source}', which step {spec.name} needs{hint}"
                    allowed = "an input of the graph, an output of a step, or a default"
                    yield Flaw(path, one.source, problem, allowed)
                continue
            if len(self._index.providers.get(one.source, ())) > 1:
                continue
            given, provider = self._provided_type(one.source)
            wanted: ValueType = "array" if one.spec.for_each else one.spec.type
            if not may_fit(given, wanted):
                problem = f"{provider} provides {in_words(given)}, but {in_words(wanted)} is needed"
                yield Flaw(path, one.source, problem, "matching types")

    def _provided_type(self, name: str) -> tuple[ValueType, str]:
        if self._declared is not None and name in self._declared:
            return self._declared[name].type, "the flow's input"
        step = self._index.by_name[self._index.providers[name][0]]
        if any(one.for_each for one in step.inputs.values()):
            return "array", f"step {step.name}, with for_each,"
        return step.outputs.get(name, "any"), f"step {step.name}"

    def _cycles(self) -> Iterator[Flaw]:
        providers = {name: steps[0] for name, steps in self._index.providers.items()}
        known = self._index.by_name

        def before(name: str) -> Iterator[str]:
            return (edge.step for edge in edges_of(known[name], providers) if edge.step in known)

        for cycle in ordered(self._working, before)[1]:
            allowed = "steps that do not wait for each other"
            yield Flaw(("steps", cycle[0]), cycle[0], cycle_in_words(cycle), allowed)

"""From goals to the steps they need, and no others."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from redrive.errors import InputError, PlanError
from redrive.flows.graphs.builder import Graph
from redrive.flows.graphs.cycles import cycle_in_words, ordered
from redrive.flows.graphs.edges import edges_of, taken_by
from redrive.flows.graphs.item_inputs import misfit
from redrive.flows.graphs.spec import InputSpec, Plan, StepSpec
from redrive.flows.graphs.step_index import StepIndex
from redrive.notation.place import similar

_MOST_HINTS = 10

Steps = StepIndex | Iterable[StepSpec]


def plan(
    graph: Graph | Steps,
    goals: Sequence[str] | None = None,
    provided_inputs: Collection[str] = (),
    also: Sequence[str] = (),
) -> Plan:
    """The steps that the goals need, each after those it waits for. GraphError, PlanError.

    goals, also: by default those of the graph. `also` are carried out too, and may fail.
    provided_inputs: the names of the inputs that the flow is started with. Those that a graph declares are taken as
    given, since `check_inputs` tells which of them are missing.
    """
    name = ""
    provided = set(provided_inputs)
    if isinstance(graph, Graph):
        graph.check()
        name, index = graph.name, graph.index
        # Other goals than those of the graph need not what is carried out beside these.
        also = also or (graph.also if goals is None else ())
        goals = graph.goals if goals is None else goals
        provided |= (graph.inputs or {}).keys()
    else:
        index = graph if isinstance(graph, StepIndex) else StepIndex(graph)
    return _Planner(index, provided).plan(name, tuple(dict.fromkeys(goals or ())), also)


class _Planner:
    def __init__(self, index: StepIndex, provided: Collection[str]) -> None:
        self._index = index
        self._provided = provided
        self._lines: list[str] = []
        self._missing: dict[str, None] = {}

    def plan(self, name: str, goals: tuple[str, ...], also: Sequence[str]) -> Plan:
        if not goals:
            raise PlanError(["no goal is named; name at least one step"])
        roots = [*goals, *(one for one in also if one not in goals)]
        needed = self._pulled(roots)
        providers = {
            value: steps[0]
            for spec in needed.values()
            for value, steps in ((one.source, self._index.providers.get(one.source)) for one in taken_by(spec))
            if steps and steps[0] in needed
        }

        def before(step: str) -> Iterator[str]:
            return (edge.step for edge in edges_of(needed[step], providers) if edge.step in needed)

        order, cycles = ordered((one for one in roots if one in needed), before)
        self._lines += map(cycle_in_words, cycles)
        undo = self._undoing(needed.values())
        if self._lines:
            raise PlanError(self._lines, tuple(self._missing))
        return Plan(graph=name, goals=goals, steps=tuple(needed[one] for one in order), compensations=undo)

    def _pulled(self, roots: Sequence[str]) -> dict[str, StepSpec]:
        needed: dict[str, StepSpec] = {}
        ahead = list(reversed([(root, "") for root in roots]))
        while ahead:
            name, wanted_by = ahead.pop()
            if name in needed:
                continue
            spec = self._index.by_name.get(name)
            if spec is None:
                who = f"step {wanted_by} depends on '{name}'" if wanted_by else f"goal '{name}'"
                self._lines.append(f"{who}: there is no such step{self._hint(name, self._index.by_name)}")
                continue
            if name in self._index.undoes:
                self._lines.append(f"'{name}' only undoes step {self._index.undoes[name][0]}, and cannot be a goal")
                continue
            needed[name] = spec
            ahead += reversed([(one, name) for one in (*spec.depends_on, *self._providers_for(spec))])
        return needed

    def _providers_for(self, spec: StepSpec) -> Iterator[str]:
        """The steps that give what it requires."""
        for one in taken_by(spec):
            steps = self._index.providers.get(one.source, [])
            if len(steps) + (one.source in self._provided) > 1:
                givers = [*(f"step {step}" for step in steps), *(["the input"] if one.source in self._provided else [])]
                self._lines.append(f"step {spec.name} needs '{one.source}', and {' and '.join(givers)} give it")
            elif one.spec.role == "required":
                if steps:
                    yield steps[0]
                elif one.source not in self._provided:
                    self._lines.append(self._unprovided(spec, one.source))

    def _unprovided(self, spec: StepSpec, name: str) -> str:
        self._missing[name] = None
        hint = self._hint(name, (*self._provided, *self._index.providers))
        return f"step {spec.name} needs '{name}', which neither an input nor a step gives{hint}"

    def _hint(self, name: str, known: Iterable[str]) -> str:
        # Looking for a near name takes its time, and nobody reads a hundred of them.
        return similar(name, tuple(known)) if len(self._lines) < _MOST_HINTS else ""

    def _undoing(self, steps: Iterable[StepSpec]) -> tuple[StepSpec, ...]:
        undo: dict[str, StepSpec] = {}
        for spec in steps:
            if spec.compensate is None:
                continue
            found = self._index.by_name.get(spec.compensate)
            if found is None:
                hint = self._hint(spec.compensate, self._index.by_name)
                self._lines.append(f"step {spec.name} is undone by '{spec.compensate}': there is no such step{hint}")
            elif found.depends_on or found.when or any(one.for_each for one in found.inputs.values()):
                what = "have no depends_on, no when and no for_each"
                self._lines.append(f"step {spec.name} is undone by '{found.name}', which must {what}")
            else:
                undo[found.name] = found
        return tuple(undo[name] for name in sorted(undo))


def check_inputs(
    plan: Plan, inputs: Mapping[str, Any], declared: Mapping[str, InputSpec] | None = None
) -> dict[str, Any]:
    """The inputs a flow starts with, the defaults of `declared` included. InputError for one it cannot take.

    declared: the inputs of the graph, where it names them (`graph.inputs`).
    """
    taken: dict[str, list[tuple[StepSpec, InputSpec]]] = {}
    for spec in (*plan.steps, *plan.compensations):
        for one in taken_by(spec):
            taken.setdefault(one.source, []).append((spec, one.spec))
    known = tuple(taken) if declared is None else tuple(declared)
    for name, value in inputs.items():
        if name not in known:
            hint = similar(name, known) or f"; it takes {', '.join(known) or 'no inputs'}"
            raise InputError(f"the flow does not take this{hint}", _pointer(name))
        if declared is not None:
            _check(name, value, declared[name])
        for spec, wanted in taken.get(name, ()):
            _check(name, value, wanted, f", by step {spec.name}")
    missing = [
        name
        for name, one in (declared or {}).items()
        if one.role == "required" and name not in inputs and name in taken
    ]
    if missing:
        raise InputError("it is required, and missing", _pointer(missing[0]))
    defaults = {name: one.default for name, one in (declared or {}).items() if one.role == "optional"}
    return {**defaults, **inputs}


def _check(name: str, value: Any, wanted: InputSpec, by: str = "") -> None:
    if found := misfit(wanted, value):
        raise InputError(found.problem + by, _pointer(name, *found.path))


def _pointer(*path: str | int) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)

"""Plan a flow: find the steps that its goals need."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from redrive.errors import InputError, PlanError
from redrive.flows.graphs.cycles import cycle_in_words, ordered
from redrive.flows.graphs.edges import edges_of, taken_by
from redrive.flows.graphs.graph import Graph
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
    """The steps that the goals need, each after those it waits for. Raises GraphError or PlanError.

    goals, also: by default those of the graph. Steps in `also` run too, and may fail.
    provided_inputs: the names of the inputs that the flow is started with. Inputs that the graph declares count as
    provided, since `check_inputs` reports those that are missing.
    """
    name = ""
    provided = set(provided_inputs)
    if isinstance(graph, Graph):
        graph.check()
        name, index = graph.name, graph.index
        # The graph's `also` belongs to its own goals only.
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
            raise PlanError(["no goals are given; name at least one step"])
        roots = [*goals, *(one for one in also if one not in goals)]
        needed = self._required_steps(roots)
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
        compensations = self._compensations(needed.values())
        if self._lines:
            raise PlanError(self._lines, tuple(self._missing))
        return Plan(graph=name, goals=goals, steps=tuple(needed[one] for one in order), compensations=compensations)

    def _required_steps(self, roots: Sequence[str]) -> dict[str, StepSpec]:
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
            if name in self._index.compensates:
                self._lines.append(
                    f"'{name}' only compensates step {self._index.compensates[name][0]} and cannot be a goal"
                )
                continue
            needed[name] = spec
            ahead += reversed([(one, name) for one in (*spec.depends_on, *self._providers_for(spec))])
        return needed

    def _providers_for(self, spec: StepSpec) -> Iterator[str]:
        """The steps that provide its required inputs."""
        for one in taken_by(spec):
            steps = self._index.providers.get(one.source, [])
            if len(steps) + (one.source in self._provided) > 1:
                givers = [*(f"step {step}" for step in steps), *(["the input"] if one.source in self._provided else [])]
                self._lines.append(
                    f"step {spec.name} needs '{one.source}', which {' and '.join(givers)} provide; rename one of them"
                )
            elif one.spec.role == "required":
                if steps:
                    yield steps[0]
                elif one.source not in self._provided:
                    self._lines.append(self._unprovided(spec, one.source))

    def _unprovided(self, spec: StepSpec, name: str) -> str:
        self._missing[name] = None
        hint = self._hint(name, (*self._provided, *self._index.providers))
        return f"step {spec.name} needs '{name}', which neither an input nor a step provides{hint}"

    def _hint(self, name: str, known: Iterable[str]) -> str:
        # Finding a similar name is slow, and nobody reads a hundred hints.
        return similar(name, tuple(known)) if len(self._lines) < _MOST_HINTS else ""

    def _compensations(self, steps: Iterable[StepSpec]) -> tuple[StepSpec, ...]:
        compensations: dict[str, StepSpec] = {}
        for spec in steps:
            if spec.compensate is None:
                continue
            found = self._index.by_name.get(spec.compensate)
            if found is None:
                hint = self._hint(spec.compensate, self._index.by_name)
                self._lines.append(
                    f"step {spec.name} is compensated by '{spec.compensate}': there is no such step{hint}"
                )
            elif found.depends_on or found.when or any(one.for_each for one in found.inputs.values()):
                self._lines.append(
                    f"step {spec.name} is compensated by '{found.name}', which cannot have depends_on, when or for_each"
                )
            else:
                compensations[found.name] = found
        return tuple(compensations[name] for name in sorted(compensations))


def check_inputs(
    plan: Plan, inputs: Mapping[str, Any], declared: Mapping[str, InputSpec] | None = None
) -> dict[str, Any]:
    """The inputs that a flow starts with, including the defaults of `declared`. Raises InputError.

    declared: the inputs that the graph declares (`graph.inputs`); None when it declares none.
    """
    taken: dict[str, list[tuple[StepSpec, InputSpec]]] = {}
    for spec in (*plan.steps, *plan.compensations):
        for one in taken_by(spec):
            taken.setdefault(one.source, []).append((spec, one.spec))
    known = tuple(taken) if declared is None else tuple(declared)
    for name, value in inputs.items():
        if name not in known:
            hint = similar(name, known) or f"; it takes {', '.join(known) or 'no inputs'}"
            raise InputError(f"the flow has no such input{hint}", _pointer(name))
        if declared is not None:
            _check(name, value, declared[name])
        for spec, wanted in taken.get(name, ()):
            _check(name, value, wanted, f" (step {spec.name})")
    missing = [
        name
        for name, one in (declared or {}).items()
        if one.role == "required" and name not in inputs and name in taken
    ]
    if missing:
        raise InputError("required, but missing", _pointer(missing[0]))
    defaults = {name: one.default for name, one in (declared or {}).items() if one.role == "optional"}
    return {**defaults, **inputs}


def _check(name: str, value: Any, wanted: InputSpec, by: str = "") -> None:
    if found := misfit(wanted, value):
        raise InputError(found.problem + by, _pointer(name, *found.path))


def _pointer(*path: str | int) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)

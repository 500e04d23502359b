"""A graph of steps, read from a file or built in Python."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from redrive.flows.action import Action
from redrive.flows.flow_call import FlowCall
from redrive.flows.graphs.notation.input_reading import read_flow_inputs
from redrive.flows.graphs.notation.names import read_name, read_names
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.notation.python_steps import step_from_python
from redrive.flows.graphs.spec import InputSpec, StepSpec
from redrive.flows.graphs.step_index import StepIndex
from redrive.flows.graphs.structure import Structure
from redrive.flows.registry import GRAPH, Registry
from redrive.flows.retry_policy import Retry, Timeout
from redrive.notation.place import Place

MOST_STEPS = 10_000


NO_INPUTS: Mapping[str, Any] = MappingProxyType({})


class Graph:
    """Steps, and which of them are the goals.

    Graph("order", goals=["ship"]).step("reserve", "http://127.0.0.1:9000/reserve", inputs={"order_id": "string"})
    """

    def __init__(
        self,
        name: str,
        *,
        goals: Sequence[str] | None = None,
        also: Sequence[str] = (),
        inputs: Mapping[str, Any] | None = None,
        description: str = "",
    ) -> None:
        """goals: by default all steps that do not compensate another.

        also: steps that run besides the goals, and may fail.
        inputs: the inputs of a flow, such as {"order_id": "string"}; by default whatever its steps need.
        """
        self._place = Place(f"graph {name}")
        problems = Problems()
        with problems:
            read_name(name, self._place.at("graph"))
        with problems:
            goals = None if goals is None else read_names(goals, self._place.at("goals"), MOST_STEPS)
        with problems:
            also = read_names(also, self._place.at("also"), MOST_STEPS)
        declared = None if inputs is None else read_flow_inputs(inputs, self._place.at("inputs"), problems)
        problems.raise_found()
        self._set(name, description, goals, also, declared)

    def call(
        self, inputs: Mapping[str, Any] = NO_INPUTS, *, goals: Sequence[str] | None = None
    ) -> FlowCall[dict[str, Any]]:
        """The graph with its inputs, ready to be started; the flow's result is the outputs of the goals.

        goals: by default those of the graph.
        """
        return FlowCall("graph", self, inputs, goals=goals)

    def _set(
        self,
        name: str,
        description: str,
        goals: Sequence[str] | None,
        also: Sequence[str],
        inputs: dict[str, InputSpec] | None,
    ) -> None:
        self.name = name
        self.description = description
        self.also = tuple(also)
        self.inputs = inputs
        """The inputs of a flow; None when the graph does not declare them."""
        self._goals = None if goals is None else tuple(goals)
        self._steps: dict[str, StepSpec] = {}
        self._index: StepIndex | None = None
        self._is_checked = False

    @classmethod
    def of_specs(
        cls,
        name: str,
        steps: Iterable[StepSpec],
        *,
        goals: Sequence[str] | None = None,
        also: Sequence[str] = (),
        inputs: dict[str, InputSpec] | None = None,
        description: str = "",
        place: Place | None = None,
    ) -> Self:
        """A graph of steps that have been read already. `place` is its location for error messages."""
        graph = cls.__new__(cls)
        graph._place = place or Place(f"graph {name}")
        graph._set(name, description, goals, also, inputs)
        graph._steps = {spec.name: spec for spec in steps}
        return graph

    def step(
        self,
        name: str,
        handler: Action[..., Any] | Callable[..., Any] | str,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, str] | Sequence[str] | None = None,
        depends_on: Sequence[str] = (),
        for_each: str | Sequence[str] = (),
        when: str | None = None,
        parallelism: int | None = None,
        retry: Retry | None = None,
        timeout: Timeout | None = None,
        idempotent: bool | None = None,
        dependency: str | None = None,
        compensate: str | None = None,
        **http: Any,
    ) -> Self:
        """Add a step and return the graph. Raises GraphError with all problems of the step.

        handler: an action, a function (which becomes an action), the name of an action, or an HTTP address.
        inputs: as in a file; for a function, they override what its parameters say.
        for_each: the inputs that are lists, whose elements each get a work item.
        http: `mode`, `statuses` and `conflict`, for an HTTP address.
        """
        settings = {
            "inputs": inputs,
            "outputs": outputs,
            "depends_on": list(depends_on) if isinstance(depends_on, tuple) else depends_on,
            "when": when,
            "parallelism": parallelism,
            "idempotent": idempotent,
            "dependency": dependency,
            "compensate": compensate,
            **http,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        place = self._place.at("steps", str(name))
        problems = Problems()
        with problems:
            read_name(name, place)
            if name in self._steps:
                raise place.refuse(name, "the graph already has a step of this name", "another name")
            if len(self._steps) >= MOST_STEPS:
                raise place.refuse(name, "too many steps", f"at most {MOST_STEPS}")
        spec = step_from_python(name, handler, given, for_each, retry, timeout, place, problems)
        problems.raise_found()
        self._steps[name] = spec
        self._index = None
        self._is_checked = False
        return self

    @property
    def index(self) -> StepIndex:
        if self._index is None:
            self._index = StepIndex(self._steps.values())
        return self._index

    @property
    def steps(self) -> tuple[StepSpec, ...]:
        """All steps, including compensating ones."""
        return tuple(self._steps.values())

    @property
    def goals(self) -> tuple[str, ...]:
        if self._goals is not None:
            return self._goals
        return tuple(spec.name for spec in self.index.regular_steps() if spec.name not in self.also)

    @property
    def compensations(self) -> tuple[StepSpec, ...]:
        """The steps that compensate others."""
        return tuple(spec for spec in self._steps.values() if spec.name in self.index.compensates)

    def check(self) -> Self:
        """Raise GraphError with all problems between the steps. Planning checks the graph first."""
        if not self._is_checked:
            problems = Problems()
            self.find_problems(problems)
            problems.raise_found()
        return self

    def find_problems(self, problems: Problems) -> None:
        before = problems.count
        if not self.goals:
            problems.add(self._place.at("goals").refuse(None, "the graph has no goal", "at least one step"))
        for flaw in Structure(self.index, self.inputs, problems).flaws(self.goals, self.also):
            problems.add(self._place.at(*flaw.path).refuse(flaw.value, flaw.problem, flaw.allowed))
        self._is_checked = problems.count == before

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self._steps)} steps>"


GRAPHS: Registry[Graph] = Registry(GRAPH)
graph_named = GRAPHS.named


def register_graph(graph: Graph) -> None:
    """Make the graph known by its name, in place of an older one; flows keep the one that they were started with."""
    GRAPHS.add(graph.name, graph)


def registered_graphs() -> tuple[Graph, ...]:
    return tuple(GRAPHS.by_name.values())

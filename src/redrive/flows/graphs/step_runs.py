"""The steps of a graph while it runs: how far each is, and which follow it."""

from typing import Any, NamedTuple

from redrive.flows.graphs.edges import Edge, edges_of, given_by
from redrive.flows.graphs.item_inputs import ItemInputs
from redrive.flows.graphs.moves import ItemKey, StepState
from redrive.flows.graphs.spec import Plan, StepSpec


class Cause(NamedTuple):
    """The failure that made a step or a goal impossible."""

    step: str
    item: ItemKey | None
    why: str


class StepRun:
    """The progress of one step."""

    __slots__ = (
        *("cause", "done", "edges", "followers", "inputs", "is_abandoned", "is_goal", "needed_by", "open"),
        *("resolved", "results", "spec", "started", "state", "unprovided", "waits", "why"),
    )

    def __init__(self, spec: StepSpec, is_goal: bool, edges: list[Edge]) -> None:
        self.spec = spec
        self.is_goal = is_goal
        self.edges = edges
        self.waits = len(edges)
        """How many steps it still waits for."""
        self.followers: list[tuple[StepRun, Edge]] = []
        self.needed_by = 0
        """How many unfinished steps need it."""
        self.state: StepState = "pending"
        self.why = ""
        self.unprovided = ""
        """The skipped or resolved step whose output it requires."""
        self.cause: Cause | None = None
        self.inputs: ItemInputs
        self.started = 0
        """How many of its items have started: the first ones."""
        self.open: set[int] = set()
        self.done = 0
        self.results: list[dict[str, Any]] = []
        self.resolved = False
        """Whether an item was resolved by hand, so that the step has no outputs."""
        self.is_abandoned = False

    @property
    def for_each(self) -> bool:
        return any(one.for_each for one in self.spec.inputs.values())

    def outputs(self) -> dict[str, Any]:
        if not self.for_each:
            return self.results[0]
        return {name: [one[name] for one in self.results] for name in given_by(self.spec)}


def connect(plan: Plan) -> dict[str, StepRun]:
    """Return the steps of the plan by name, each with those that follow it."""
    providers = {name: spec.name for spec in plan.steps for name in given_by(spec)}
    runs: dict[str, StepRun] = {}
    goals = set(plan.goals)
    for spec in plan.steps:
        edges = edges_of(spec, providers)
        run = StepRun(spec, spec.name in goals, edges)
        for edge in edges:
            if edge.step not in runs:
                raise ValueError(f"plan {plan.graph!r}: step {spec.name} comes before step {edge.step}, which it needs")
            runs[edge.step].followers.append((run, edge))
            runs[edge.step].needed_by += 1
        runs[spec.name] = run
    if not goals or not goals <= runs.keys():
        raise ValueError(f"plan {plan.graph!r}: its goals are not among its steps")
    return runs

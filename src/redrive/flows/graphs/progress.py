"""The progress of a graph: given the outcome of each item, it says what to do next. It is pure and deterministic.

The same outcomes in the same order give the same moves. Handling an outcome only touches the steps that it affects, so
a whole flow costs no more than the size of its graph and the number of its items.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.flows.graphs.compensation import Compensation
from redrive.flows.graphs.conditions import ConditionError, holds
from redrive.flows.graphs.edges import Edge, edges_of, given_by
from redrive.flows.graphs.item_inputs import ItemInputs, UnfitInput
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem, StepState
from redrive.flows.graphs.spec import Plan, StepSpec

_LOST: tuple[StepState, ...] = ("failed", "unreachable", "abandoned")


class UnexpectedOutcome(ValueError):
    """An outcome was reported for an item that is not open: it never started, or has ended already."""


class StepStatus(NamedTuple):
    state: StepState
    why: str


class _Cause(NamedTuple):
    """The failure that made a step or a goal impossible."""

    step: str
    item: ItemKey | None
    why: str


class _Run:
    """The progress of one step."""

    __slots__ = (
        *("cause", "done", "edges", "followers", "inputs", "is_abandoned", "is_goal", "needed_by", "open"),
        *("resolved", "results", "spec", "state", "unprovided", "waits", "why"),
    )

    def __init__(self, spec: StepSpec, is_goal: bool, edges: list[Edge]) -> None:
        self.spec = spec
        self.is_goal = is_goal
        self.edges = edges
        self.waits = len(edges)
        """How many steps it still waits for."""
        self.followers: list[tuple[_Run, Edge]] = []
        self.needed_by = 0
        """How many unfinished steps need it."""
        self.state: StepState = "pending"
        self.why = ""
        self.unprovided = ""
        """The skipped or resolved step whose output it requires."""
        self.cause: _Cause | None = None
        self.inputs: ItemInputs
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


class GraphProgress:
    def __init__(self, plan: Plan, inputs: Mapping[str, Any]) -> None:
        self._plan = plan
        self._values = dict(inputs)
        self._runs = _connect(plan)
        self._goals_left = sum(run.is_goal for run in self._runs.values())
        self._lost: _Cause | None = None
        """The failure that made a goal impossible."""
        self._over = False
        """No step starts any more: all goals are reached, or one cannot be."""
        self._rest_abandoned = False
        self._finished = False
        self._open = 0
        self._settled: deque[_Run] = deque()
        self._ready: list[_Run] = []
        self._compensation = Compensation(plan)
        self._moves: list[Move] = []

    @property
    def states(self) -> dict[str, StepStatus]:
        return {name: StepStatus(run.state, run.why) for name, run in self._runs.items()}

    def awaits(self, key: ItemKey) -> bool:
        """Whether the item's outcome still matters; if not, a failed attempt is not retried."""
        if key.compensates:
            return self._compensation.current == key
        run = self._runs.get(key.step)
        return run is not None and key.index in run.open and not run.is_abandoned and run.state == "running"

    # Outcomes

    def start(self) -> list[Move]:
        for run in self._runs.values():
            if run.waits == 0 and run.state == "pending" and not self._over:
                self._begin(run)
        return self._moved()

    def completed(self, key: ItemKey, outputs: Mapping[str, Any]) -> list[Move]:
        """`outputs` are those that `outputs_of` returns."""
        if key.compensates:
            return self._compensation_ended(key, "")
        run = self._closed(key)
        result = run.results[key.index] = dict(outputs)
        run.done += 1
        self._compensation.add(run.spec, key.index, run.inputs, result)
        self._item_ended(run)
        return self._moved()

    def failed(self, key: ItemKey, why: str) -> list[Move]:
        """The item failed for good."""
        if key.compensates:
            return self._compensation_ended(key, why or "it failed")
        awaited = self.awaits(key)
        run = self._closed(key)
        if awaited:
            self._fail(run, why, key)
        else:
            self._item_ended(run)
        return self._moved()

    def abandoned(self, key: ItemKey) -> list[Move]:
        """The item ended without an outcome, after it was abandoned."""
        if key.compensates or self.awaits(key):
            raise UnexpectedOutcome(f"{key} was not abandoned")
        self._item_ended(self._closed(key))
        return self._moved()

    def resolved(self, key: ItemKey) -> list[Move]:
        """The item was resolved by hand. It has no outputs; steps that only wait for it continue."""
        if key.compensates:
            return self._compensation_ended(key, "")
        run = self._closed(key)
        run.done += 1
        run.resolved = True
        self._item_ended(run)
        return self._moved()

    # Items

    def _closed(self, key: ItemKey) -> _Run:
        run = self._runs.get(key.step)
        if run is None or key.index not in run.open:
            raise UnexpectedOutcome(f"{key} is not open")
        run.open.remove(key.index)
        self._open -= 1
        return run

    def _item_ended(self, run: _Run) -> None:
        if run.open or run.state != "running":
            return
        if run.done < run.inputs.count:
            self._finish_step(run, "abandoned", "no longer needed")
        elif run.resolved:
            self._finish_step(run, "resolved", "resolved by hand")
        else:
            self._complete(run)

    def _complete(self, run: _Run) -> None:
        self._values.update(run.outputs())
        self._finish_step(run, "completed", "")

    def _fail(self, run: _Run, why: str, item: ItemKey | None) -> None:
        run.cause = _Cause(run.spec.name, item, why)
        self._abandon_items(run)
        self._finish_step(run, "failed", why)

    def _abandon_items(self, run: _Run) -> None:
        if not run.is_abandoned:
            run.is_abandoned = True
            self._moves += [Abandon(ItemKey(run.spec.name, index)) for index in sorted(run.open)]

    # Steps

    def _begin(self, run: _Run) -> None:
        """All steps before it have ended: start it, skip it, or fail it."""
        if run.unprovided:
            self._finish_step(run, "skipped", f"step {run.unprovided} did not provide its input")
            return
        try:
            run.inputs = ItemInputs(run.spec, self._values)
            if run.spec.when and not holds(run.spec.when, run.inputs.whole):
                self._finish_step(run, "skipped", f"when is false: {run.spec.when}")
                return
        except (UnfitInput, ConditionError) as error:
            self._fail(run, str(error), None)
            return
        run.state = "running"
        run.results = [{}] * run.inputs.count
        if run.inputs.count:
            self._ready.append(run)
        else:
            self._complete(run)

    def _finish_step(self, run: _Run, state: StepState, why: str) -> None:
        run.state, run.why = state, why
        self._moves.append(Settled(run.spec.name, state, why))
        self._settled.append(run)
        if not run.is_goal or self._over:
            return
        self._goals_left -= 1
        if state in _LOST:
            self._over = True
            self._lost = run.cause
        elif self._goals_left == 0:
            self._over = True

    def _update_followers(self, run: _Run) -> None:
        for follower, edge in run.followers:
            follower.waits -= 1
            if follower.state != "pending":
                continue
            if run.state in _LOST and edge.needed:
                follower.cause = run.cause
                self._finish_step(follower, "unreachable", f"step {run.spec.name} {_IN_WORDS[run.state]}")
                continue
            if run.state in ("skipped", "resolved") and edge.data:
                follower.unprovided = follower.unprovided or run.spec.name
            if follower.waits == 0 and not self._over:
                self._begin(follower)

    def _update_steps_before(self, run: _Run) -> None:
        for edge in run.edges:
            before = self._runs[edge.step]
            before.needed_by -= 1
            if before.needed_by == 0 and not before.is_goal:
                self._abandon_step(before)

    def _abandon_step(self, run: _Run) -> None:
        """No unfinished step needs this one any more."""
        if run.state == "pending" or (run.state == "running" and not run.open):
            self._finish_step(run, "abandoned", "no longer needed")
        elif run.state == "running":
            self._abandon_items(run)

    # Moves

    def _moved(self) -> list[Move]:
        """All moves that follow from an outcome. Items start last, so that none is abandoned as it starts."""
        self._propagate()
        if self._over and not self._rest_abandoned:
            self._rest_abandoned = True
            for run in self._runs.values():
                self._abandon_step(run)
            self._propagate()
        ready, self._ready = self._ready, []
        for run in ready:
            if run.state == "running":
                self._start_items(run)
        if self._over and not self._open and not self._finished:
            self._end()
        moves, self._moves = self._moves, []
        return moves

    def _propagate(self) -> None:
        while self._settled:
            run = self._settled.popleft()
            self._update_followers(run)
            self._update_steps_before(run)

    def _start_items(self, run: _Run) -> None:
        run.open = set(range(run.inputs.count))
        self._open += run.inputs.count
        self._moves += [
            StartItem(ItemKey(run.spec.name, index), run.spec, run.inputs.of_item(index)) for index in run.open
        ]

    def _end(self) -> None:
        if self._lost is not None:
            self._compensate_next()
            return
        outputs: dict[str, Any] = {}
        for run in self._runs.values():
            if run.is_goal and run.state == "completed":
                outputs |= run.outputs()
        self._finished = True
        self._moves.append(Finish(True, outputs, None, "", False))

    # Compensation

    def _compensation_ended(self, key: ItemKey, why: str) -> list[Move]:
        if self._compensation.current != key:
            raise UnexpectedOutcome(f"{key} is not open")
        self._compensation.end_current(why)
        self._finish_compensated_step(key.step)
        self._compensate_next()
        moves, self._moves = self._moves, []
        return moves

    def _compensate_next(self) -> None:
        while (item := self._compensation.next()) is not None:
            run = self._runs[item.key.step]
            try:
                inputs = item.inputs(self._values)
            except UnfitInput as error:
                self._compensation.end_current(f"step {item.spec.name}: {error}")
                self._finish_compensated_step(item.key.step)
                continue
            if run.state == "completed":
                run.state = "compensating"
            self._moves.append(StartItem(item.key, item.spec, inputs))
            return
        self._finished = True
        lost = self._lost or _Cause("", None, "")
        why = f"step {lost.step} failed: {lost.why}"
        self._moves.append(Finish(False, {}, lost.item, why, self._compensation.is_complete))

    def _finish_compensated_step(self, step: str) -> None:
        """Record the state of a step whose compensations have all ended."""
        run = self._runs[step]
        if self._compensation.left(step) or run.state not in ("completed", "compensating"):
            return
        why = self._compensation.failure(step)
        run.state, run.why = ("uncompensated" if why else "compensated"), why
        self._moves.append(Settled(step, run.state, run.why))


_IN_WORDS = {"failed": "failed", "unreachable": "cannot be reached", "abandoned": "was abandoned"}


def _connect(plan: Plan) -> dict[str, _Run]:
    providers = {name: spec.name for spec in plan.steps for name in given_by(spec)}
    runs: dict[str, _Run] = {}
    goals = set(plan.goals)
    for spec in plan.steps:
        edges = edges_of(spec, providers)
        run = _Run(spec, spec.name in goals, edges)
        for edge in edges:
            if edge.step not in runs:
                raise ValueError(f"plan {plan.graph!r}: step {spec.name} comes before step {edge.step}, which it needs")
            runs[edge.step].followers.append((run, edge))
            runs[edge.step].needed_by += 1
        runs[spec.name] = run
    if not goals or not goals <= runs.keys():
        raise ValueError(f"plan {plan.graph!r}: its goals are not among its steps")
    return runs

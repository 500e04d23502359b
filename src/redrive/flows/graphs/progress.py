"""How far a graph has come. Told what became of each item, it says what to do next: no I/O, no time, no chance.

The same outcomes in the same order give the same moves. An outcome costs what it touches, so a flow as a whole costs
no more than its graph and its items.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.flows.graphs.compensation import Rewind
from redrive.flows.graphs.conditions import ConditionError, holds
from redrive.flows.graphs.edges import Edge, edges_of, given_by
from redrive.flows.graphs.item_inputs import ItemInputs, UnfitInput
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem, StepState
from redrive.flows.graphs.spec import Plan, StepSpec

__all__ = [
    "Abandon",
    "Finish",
    "GraphProgress",
    "ItemKey",
    "Move",
    "Settled",
    "StartItem",
    "StepState",
    "StepStatus",
    "UnexpectedOutcome",
]

_LOST: tuple[StepState, ...] = ("failed", "unreachable", "abandoned")


class UnexpectedOutcome(ValueError):
    """The outcome of an item that is not open: it was told twice, or never started."""


class StepStatus(NamedTuple):
    state: StepState
    why: str


class _Cause(NamedTuple):
    """The failure that a step or a goal was lost to."""

    step: str
    item: ItemKey | None
    why: str


class _Run:
    """One step at work."""

    __slots__ = (
        *("cause", "done", "edges", "followers", "inputs", "is_goal", "needed_by", "open", "resolved", "results"),
        *("spec", "state", "unprovided", "unwanted", "waits", "why"),
    )

    def __init__(self, spec: StepSpec, is_goal: bool, edges: list[Edge]) -> None:
        self.spec = spec
        self.is_goal = is_goal
        self.edges = edges
        self.waits = len(edges)
        """Steps before it that are not settled."""
        self.followers: list[tuple[_Run, Edge]] = []
        self.needed_by = 0
        """Steps behind it that are not settled."""
        self.state: StepState = "pending"
        self.why = ""
        self.unprovided = ""
        """The step that was to give it something it requires, and was skipped."""
        self.cause: _Cause | None = None
        self.inputs: ItemInputs
        self.open: set[int] = set()
        self.done = 0
        self.results: list[dict[str, Any]] = []
        self.resolved = False
        """An item of it was resolved by hand, so that it has nothing to give."""
        self.unwanted = False

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
        self._runs = _wired(plan)
        self._goals_left = sum(run.is_goal for run in self._runs.values())
        self._lost: _Cause | None = None
        """What made a goal impossible."""
        self._over = False
        """Nothing starts any more: all goals are reached, or one cannot be."""
        self._rest_dropped = False
        self._finished = False
        self._open = 0
        self._settled: deque[_Run] = deque()
        self._ready: list[_Run] = []
        self._undoing = Rewind(plan)
        self._moves: list[Move] = []

    @property
    def states(self) -> dict[str, StepStatus]:
        return {name: StepStatus(run.state, run.why) for name, run in self._runs.items()}

    def awaits(self, key: ItemKey) -> bool:
        """False: an attempt of this item that fails now is not tried again."""
        if key.compensates:
            return self._undoing.current == key
        run = self._runs.get(key.step)
        return run is not None and key.index in run.open and not run.unwanted and run.state == "running"

    # What happened

    def start(self) -> list[Move]:
        for run in self._runs.values():
            if run.waits == 0 and run.state == "pending" and not self._over:
                self._begin(run)
        return self._moved()

    def completed(self, key: ItemKey, outputs: Mapping[str, Any]) -> list[Move]:
        """`outputs`: as `outputs_of` gives them."""
        if key.compensates:
            return self._undone(key, "")
        run = self._closed(key)
        result = run.results[key.index] = dict(outputs)
        run.done += 1
        self._undoing.remember(run.spec, key.index, run.inputs, result)
        self._item_ended(run)
        return self._moved()

    def failed(self, key: ItemKey, why: str) -> list[Move]:
        """It failed for good."""
        if key.compensates:
            return self._undone(key, why or "it failed")
        wanted = self.awaits(key)
        run = self._closed(key)
        if wanted:
            self._fail(run, why, key)
        else:
            self._item_ended(run)
        return self._moved()

    def abandoned(self, key: ItemKey) -> list[Move]:
        """It ended without an outcome, after it was given up."""
        if key.compensates or self.awaits(key):
            raise UnexpectedOutcome(f"{key} was not given up")
        self._item_ended(self._closed(key))
        return self._moved()

    def resolved(self, key: ItemKey) -> list[Move]:
        """Someone took care of it. It gives no outputs; whoever only waits for it goes on."""
        if key.compensates:
            return self._undone(key, "")
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
            self._settle(run, "abandoned", "no longer needed")
        elif run.resolved:
            self._settle(run, "resolved", "resolved by hand")
        else:
            self._complete(run)

    def _complete(self, run: _Run) -> None:
        self._values.update(run.outputs())
        self._settle(run, "completed", "")

    def _fail(self, run: _Run, why: str, item: ItemKey | None) -> None:
        run.cause = _Cause(run.spec.name, item, why)
        self._give_up_items(run)
        self._settle(run, "failed", why)

    def _give_up_items(self, run: _Run) -> None:
        if not run.unwanted:
            run.unwanted = True
            self._moves += [Abandon(ItemKey(run.spec.name, index)) for index in sorted(run.open)]

    # Steps

    def _begin(self, run: _Run) -> None:
        """All that it waited for is settled, and it can be told what becomes of it."""
        if run.unprovided:
            self._settle(run, "skipped", f"it needs what step {run.unprovided} did not give")
            return
        try:
            run.inputs = ItemInputs(run.spec, self._values)
            if run.spec.when and not holds(run.spec.when, run.inputs.whole):
                self._settle(run, "skipped", f"when is false: {run.spec.when}")
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

    def _settle(self, run: _Run, state: StepState, why: str) -> None:
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

    def _tell_followers(self, run: _Run) -> None:
        for follower, edge in run.followers:
            follower.waits -= 1
            if follower.state != "pending":
                continue
            if run.state in _LOST and edge.needed:
                follower.cause = run.cause
                self._settle(follower, "unreachable", f"step {run.spec.name} {_IN_WORDS[run.state]}")
                continue
            if run.state in ("skipped", "resolved") and edge.data:
                follower.unprovided = follower.unprovided or run.spec.name
            if follower.waits == 0 and not self._over:
                self._begin(follower)

    def _tell_those_before(self, run: _Run) -> None:
        for edge in run.edges:
            before = self._runs[edge.step]
            before.needed_by -= 1
            if before.needed_by == 0 and not before.is_goal:
                self._drop(before)

    def _drop(self, run: _Run) -> None:
        """Nobody needs it any more."""
        if run.state == "pending" or (run.state == "running" and not run.open):
            self._settle(run, "abandoned", "no longer needed")
        elif run.state == "running":
            self._give_up_items(run)

    # Moves

    def _moved(self) -> list[Move]:
        """Everything that follows from what happened. Items start last, so that none is given up as it starts."""
        self._spread()
        if self._over and not self._rest_dropped:
            self._rest_dropped = True
            for run in self._runs.values():
                self._drop(run)
            self._spread()
        ready, self._ready = self._ready, []
        for run in ready:
            if run.state == "running":
                self._start_items(run)
        if self._over and not self._open and not self._finished:
            self._end()
        moves, self._moves = self._moves, []
        return moves

    def _spread(self) -> None:
        while self._settled:
            run = self._settled.popleft()
            self._tell_followers(run)
            self._tell_those_before(run)

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

    def _undone(self, key: ItemKey, why: str) -> list[Move]:
        if self._undoing.current != key:
            raise UnexpectedOutcome(f"{key} is not open")
        self._undoing.ended(why)
        self._tell_undone(key.step)
        self._compensate_next()
        moves, self._moves = self._moves, []
        return moves

    def _compensate_next(self) -> None:
        while (undo := self._undoing.next()) is not None:
            run = self._runs[undo.key.step]
            try:
                inputs = undo.inputs(self._values)
            except UnfitInput as error:
                self._undoing.ended(f"step {undo.spec.name}: {error}")
                self._tell_undone(undo.key.step)
                continue
            if run.state == "completed":
                run.state = "compensating"
            self._moves.append(StartItem(undo.key, undo.spec, inputs))
            return
        self._finished = True
        lost = self._lost or _Cause("", None, "")
        why = f"step {lost.step} failed: {lost.why}"
        self._moves.append(Finish(False, {}, lost.item, why, self._undoing.all_went_well))

    def _tell_undone(self, step: str) -> None:
        """A step is compensated when all that it did is undone."""
        run = self._runs[step]
        if self._undoing.left(step) or run.state not in ("completed", "compensating"):
            return
        why = self._undoing.trouble(step)
        run.state, run.why = ("uncompensated" if why else "compensated"), why
        self._moves.append(Settled(step, run.state, run.why))


_IN_WORDS = {"failed": "failed", "unreachable": "cannot be reached", "abandoned": "was abandoned"}


def _wired(plan: Plan) -> dict[str, _Run]:
    providers = {name: spec.name for spec in plan.steps for name in given_by(spec)}
    runs: dict[str, _Run] = {}
    goals = set(plan.goals)
    for spec in plan.steps:
        edges = edges_of(spec, providers)
        run = _Run(spec, spec.name in goals, edges)
        for edge in edges:
            if edge.step not in runs:
                raise ValueError(f"plan {plan.graph!r}: step {spec.name} comes before {edge.step}, which it needs")
            runs[edge.step].followers.append((run, edge))
            runs[edge.step].needed_by += 1
        runs[spec.name] = run
    if not goals or not goals <= runs.keys():
        raise ValueError(f"plan {plan.graph!r}: its goals are not among its steps")
    return runs

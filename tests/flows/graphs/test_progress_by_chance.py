"""The rules of settling, over graphs and outcomes made by chance."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows.graphs.generated import Case, graphs

from redrive.flows.graphs.edges import edges_of, given_by
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem
from redrive.flows.graphs.plan import plan
from redrive.flows.graphs.progress import GraphProgress
from redrive.flows.graphs.spec import Plan

Outcome = tuple[str, ItemKey]


class Run:
    """A flow driven by chance. Checks at each move that it may come now."""

    def __init__(self, made: Plan, inputs: Mapping[str, Any], choose: Callable[[list[ItemKey]], Outcome]) -> None:
        self.plan = made
        self.flow = GraphProgress(made, inputs)
        self.specs = {spec.name: spec for spec in made.steps}
        providers = {name: spec.name for spec in made.steps for name in given_by(spec)}
        self.edges = {spec.name: edges_of(spec, providers) for spec in made.steps}
        self.outcomes: list[Outcome] = []
        self.moves: list[list[Move]] = []
        self.open: list[ItemKey] = []
        self.given_up: set[ItemKey] = set()
        self.completed: list[ItemKey] = []
        self.undone: list[ItemKey] = []
        self.settled: dict[str, str] = {}
        self.finish: Finish | None = None
        self._take(self.flow.start())
        while self.open:
            what, key = choose(self.open)
            if what == "failed" and not self.flow.awaits(key):
                what = "abandoned"
            self.outcomes.append((what, key))
            self.open.remove(key)
            if what == "completed" and not key.compensates:
                self.completed.append(key)
            self._take(tell(self.flow, what, key))

    def _take(self, moves: list[Move]) -> None:
        self.moves.append(moves)
        for move in moves:
            assert self.finish is None, "nothing comes after the end"
            match move:
                case StartItem(key=key):
                    self._check_start(key)
                    self.open.append(key)
                case Abandon(key=key):
                    assert key in self.open
                    assert not self.flow.awaits(key)
                    self.given_up.add(key)
                case Settled(step=name, state=state):
                    assert name not in self.settled or state in ("compensated", "uncompensated")
                    if name not in self.settled:
                        self.settled[name] = state
                case Finish():
                    assert not self.open
                    self.finish = move

    def _check_start(self, key: ItemKey) -> None:
        assert key not in self.open
        if key.compensates:
            assert self.open == [], "one after the other"
            self.undone.append(key)
            return
        assert self.lost() == [], "nothing starts when a goal is lost"
        for edge in self.edges[key.step]:
            state = self.settled[edge.step]
            assert state == "completed" or not edge.needed or (state in ("skipped", "resolved") and not edge.data)

    def lost(self) -> list[str]:
        return [goal for goal in self.plan.goals if self.settled.get(goal) in ("failed", "unreachable")]


def tell(flow: GraphProgress, what: str, key: ItemKey) -> list[Move]:
    match what:
        case "completed":
            return flow.completed(key, {f"out_{key.step}": [key.index]})
        case "failed":
            return flow.failed(key, "no")
        case "resolved":
            return flow.resolved(key)
        case _:
            return flow.abandoned(key)


def run_by_chance(data: st.DataObject, case: Case) -> tuple[Plan, dict[str, Any], Run]:
    steps, goals, provided = case
    working = sorted(spec.name for spec in steps if spec.name != "undo")
    also = data.draw(st.lists(st.sampled_from(working), unique=True, max_size=2))
    made = plan(steps, goals, provided, also)
    inputs = {"flag": data.draw(st.booleans()), "items": list(range(data.draw(st.integers(0, 3))))}
    kinds = st.sampled_from(["completed"] * 6 + ["failed", "resolved"])

    def choose(keys: list[ItemKey]) -> Outcome:
        return data.draw(kinds), data.draw(st.sampled_from(keys))

    return made, inputs, Run(made, inputs, choose)


@pytest.mark.promise("A10", "A11")
@given(st.data(), graphs())
def test_every_flow_settles_by_the_rules(data: st.DataObject, case: Case) -> None:
    made, inputs, run = run_by_chance(data, case)
    assert run.finish is not None, "every flow settles"
    assert set(run.settled) == {spec.name for spec in made.steps}, "and every step of it, once"
    assert run.finish.completed == (not run.lost()), "it fails when a goal is lost, and only then"
    to_undo = [ItemKey(key.step, key.index, True) for key in run.completed if run.specs[key.step].compensate]
    assert run.undone == ([] if run.finish.completed else to_undo[::-1]), "newest first, and what completed only"
    if run.finish.completed:
        for goal in made.goals:
            if run.settled[goal] == "completed":
                _check_result(run, goal, inputs)


def _check_result(run: Run, goal: str, inputs: Mapping[str, Any]) -> None:
    """In the order of its input, whatever the order of the outcomes."""
    assert run.finish is not None
    result = run.finish.outputs[f"out_{goal}"]
    if any(one.for_each for one in run.specs[goal].inputs.values()):
        assert result == [[index] for index in range(len(result))]
    else:
        assert result == [0]


@pytest.mark.promise("A10")
@given(st.data(), graphs())
def test_the_same_outcomes_in_the_same_order_give_the_same_moves(data: st.DataObject, case: Case) -> None:
    made, inputs, run = run_by_chance(data, case)
    again = GraphProgress(made, inputs)
    assert [again.start(), *(tell(again, what, key) for what, key in run.outcomes)] == run.moves

"""How a graph settles, rule by rule."""

from typing import Any

import pytest
from tests.flows.graphs.steps import step

from redrive.flows.graphs.item_inputs import MOST_ITEMS
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem, UnexpectedOutcome
from redrive.flows.graphs.plan import plan
from redrive.flows.graphs.progress import GraphProgress
from redrive.flows.graphs.spec import StepSpec


def progress(*steps: StepSpec, goals: list[str], also: tuple[str, ...] = (), **inputs: Any) -> GraphProgress:
    return GraphProgress(plan(steps, goals, inputs, also), inputs)


def started(moves: list[Move]) -> list[ItemKey]:
    return [move.key for move in moves if isinstance(move, StartItem)]


def given_up(moves: list[Move]) -> list[ItemKey]:
    return [move.key for move in moves if isinstance(move, Abandon)]


def settled(moves: list[Move]) -> dict[str, str]:
    return {move.step: move.state for move in moves if isinstance(move, Settled)}


def finish(moves: list[Move]) -> Finish:
    last = moves[-1]
    assert isinstance(last, Finish)
    return last


def item(name: str, index: int = 0) -> ItemKey:
    return ItemKey(name, index)


def undo(name: str, index: int = 0) -> ItemKey:
    return ItemKey(name, index, compensates=True)


EACH = step("each", inputs={"n": {"type": "integer", "for_each": True, "from": "ns"}}, outputs=["double"])


def test_values_flow_by_name() -> None:
    flow = progress(
        step("first", inputs={"id": "string"}, outputs=["total"]),
        step("second", inputs={"amount": {"from": "total"}, "how": {"value": "card"}, "tip": {"default": 1}}),
        goals=["second"],
        id="x",
    )
    (begun,) = flow.start()
    assert isinstance(begun, StartItem)
    assert (begun.key, begun.inputs) == (item("first"), {"id": "x"})
    begun = flow.completed(item("first"), {"total": 7})[-1]
    assert isinstance(begun, StartItem)
    assert begun.inputs == {"amount": 7, "how": "card", "tip": 1}
    assert finish(flow.completed(item("second"), {"second": "paid"})).outputs == {"second": "paid"}


@pytest.mark.promise("A10")
def test_a_step_completes_when_all_its_items_have_and_gives_a_list_in_input_order() -> None:
    flow = progress(EACH, step("sum", inputs={"double": "array"}), goals=["sum"], ns=[1, 2, 3])
    assert started(flow.start()) == [item("each", 0), item("each", 1), item("each", 2)]
    assert flow.completed(item("each", 2), {"double": 6}) == []
    assert flow.completed(item("each", 0), {"double": 2}) == []
    begun = flow.completed(item("each", 1), {"double": 4})[-1]
    assert isinstance(begun, StartItem)
    assert begun.inputs == {"double": [2, 4, 6]}


@pytest.mark.promise("A10")
def test_one_failed_item_fails_its_step_and_the_others_are_given_up() -> None:
    flow = progress(EACH, step("sum", inputs={"double": "array"}), goals=["sum"], ns=[1, 2, 3])
    flow.start()
    flow.completed(item("each", 0), {"double": 2})
    moves = flow.failed(item("each", 1), "no")
    assert settled(moves) == {"each": "failed", "sum": "unreachable"}
    assert given_up(moves) == [item("each", 2)]
    assert not flow.awaits(item("each", 2))
    ended = finish(flow.abandoned(item("each", 2)))
    assert (ended.completed, ended.failed, ended.why) == (False, item("each", 1), "step each failed: no")


def test_an_empty_list_has_no_items_and_completes() -> None:
    flow = progress(EACH, goals=["each"], ns=[])
    moves = flow.start()
    assert settled(moves) == {"each": "completed"}
    assert finish(moves).outputs == {"double": []}


def test_several_lists_are_multiplied_and_the_first_varies_slowest() -> None:
    pairs = step("pairs", inputs={"a": {"for_each": True}, "b": {"for_each": True}})
    moves = progress(pairs, goals=["pairs"], a=[1, 2], b=["x", "y", "z"]).start()
    inputs = [move.inputs for move in moves if isinstance(move, StartItem)]
    assert inputs == [{"a": a, "b": b} for a in (1, 2) for b in ("x", "y", "z")]


@pytest.mark.promise("A11")
def test_when_a_goal_cannot_be_reached_nothing_starts_any_more_and_the_flow_fails_once_nothing_runs() -> None:
    flow = progress(
        step("a"),
        step("b"),
        step("after_b", inputs={"b": "any"}),
        step("goal", inputs={"a": "any"}),
        goals=["goal", "after_b"],
    )
    assert started(flow.start()) == [item("a"), item("b")]
    moves = flow.failed(item("a"), "no")
    assert settled(moves) == {"a": "failed", "goal": "unreachable", "after_b": "abandoned"}
    assert given_up(moves) == [item("b")]
    moves = flow.completed(item("b"), {"b": 1})
    assert settled(moves) == {"b": "completed"}
    assert not finish(moves).completed


@pytest.mark.promise("A11")
def test_a_failed_step_beside_reached_goals_does_not_fail_the_flow() -> None:
    flow = progress(
        step("discount"),
        step("more", depends_on=["discount"]),
        step("price", inputs={"discount": {"default": 0}}),
        goals=["price"],
        also=("more",),
    )
    flow.start()
    moves = flow.failed(item("discount"), "no")
    assert settled(moves) == {"discount": "failed", "more": "unreachable"}
    begun = moves[-1]
    assert isinstance(begun, StartItem)
    assert begun.inputs == {"discount": 0}
    assert finish(flow.completed(item("price"), {"price": 3})) == Finish(True, {"price": 3}, None, "", False)


def test_when_all_goals_are_reached_the_rest_is_given_up() -> None:
    flow = progress(step("goal"), step("slow"), step("later", depends_on=["slow"]), goals=["goal"], also=("later",))
    flow.start()
    moves = flow.completed(item("goal"), {"goal": 1})
    assert given_up(moves) == [item("slow")]
    assert settled(moves) == {"goal": "completed", "later": "abandoned"}
    assert not any(isinstance(move, Finish) for move in moves)
    assert finish(flow.abandoned(item("slow"))).completed
    assert flow.states["slow"].state == "abandoned"


def test_a_step_that_only_a_lost_step_needed_is_given_up() -> None:
    flow = progress(
        step("a"), step("b"), step("both", depends_on=["a", "b"]), step("goal"), goals=["goal"], also=("both",)
    )
    flow.start()
    moves = flow.failed(item("a"), "no")
    assert given_up(moves) == [item("b")]
    assert settled(moves) == {"a": "failed", "both": "unreachable"}
    assert settled(flow.failed(item("b"), "no")) == {"b": "abandoned"}
    assert finish(flow.completed(item("goal"), {"goal": 1})).completed


def test_a_skipped_step_satisfies_who_waits_for_it_and_skips_who_needs_its_data() -> None:
    flow = progress(
        step("a", inputs={"go": "boolean"}, when="go"),
        step("waits", depends_on=["a"]),
        step("needs", inputs={"a": "any"}),
        step("may", inputs={"a": {"default": "none"}}),
        goals=["waits", "needs", "may"],
        go=False,
    )
    moves = flow.start()
    assert settled(moves) == {"a": "skipped", "needs": "skipped"}
    assert started(moves) == [item("waits"), item("may")]
    flow.completed(item("waits"), {"waits": 1})
    assert finish(flow.completed(item("may"), {"may": 2})).outputs == {"waits": 1, "may": 2}


def test_an_item_resolved_by_hand_satisfies_who_waits_for_it_and_gives_nothing() -> None:
    flow = progress(
        step("a"), step("waits", depends_on=["a"]), step("needs", inputs={"a": "any"}), goals=["waits", "needs"]
    )
    flow.start()
    moves = flow.resolved(item("a"))
    assert settled(moves) == {"a": "resolved", "needs": "skipped"}
    assert started(moves) == [item("waits")]


@pytest.mark.parametrize(
    ("spec", "inputs", "why"),
    [
        (EACH, {"ns": 3}, "a whole number where for_each needs a list"),
        (EACH, {"ns": [1, "2"]}, "input 'n'[1]: a string where a whole number is needed"),
        (step("each", inputs={"n": "integer"}), {"n": "secret"}, "input 'n': a string where a whole number is needed"),
        (step("each", inputs={"n": "any"}, when="n > 3"), {"n": "secret"}, "when 'n > 3'"),
        (
            step("each", inputs={"a": {"for_each": True}, "b": {"for_each": True}}),
            {"a": [0] * 1000, "b": [0] * 1000},
            f"1000000 work items; at most {MOST_ITEMS}",
        ),
    ],
)
def test_a_step_whose_inputs_do_not_fit_fails_before_anything_runs(
    spec: StepSpec, inputs: dict[str, Any], why: str
) -> None:
    flow = GraphProgress(plan([spec], ["each"], inputs), inputs)
    moves = flow.start()
    assert settled(moves) == {"each": "failed"}
    ended = finish(moves)
    assert ended.failed is None
    assert why in ended.why
    assert "secret" not in ended.why


def test_what_starts_with_a_failure_starts_nothing_that_it_would_give_up() -> None:
    flow = progress(step("fine"), step("bad", inputs={"n": "integer"}), goals=["fine", "bad"], n="x")
    moves = flow.start()
    assert started(moves) == given_up(moves) == []
    assert finish(moves).why.startswith("step bad failed")


RESERVE = step(
    "reserve",
    inputs={"line": {"for_each": True, "from": "lines"}, "order": "string"},
    outputs=["reservation"],
    compensate="release",
)
RELEASE = step(
    "release", inputs={"reservation": "string", "line": "string", "order": "string", "reason": {"value": "x"}}
)


def failed_order() -> GraphProgress:
    """Everything but the charge went well; it is the last that happens."""
    flow = progress(
        RESERVE,
        RELEASE,
        step("book", depends_on=["reserve"], compensate="unbook"),
        step("unbook", inputs={"book": "string"}),
        step("charge", depends_on=["book"]),
        goals=["charge"],
        lines=["a", "b"],
        order="o",
    )
    flow.start()
    flow.completed(item("reserve", 1), {"reservation": "rb"})
    flow.completed(item("reserve", 0), {"reservation": "ra"})
    flow.completed(item("book"), {"book": "B"})
    return flow


def test_a_failed_flow_undoes_the_newest_completion_first_one_after_the_other() -> None:
    flow = failed_order()
    begun = flow.failed(item("charge"), "no")[-1]
    assert isinstance(begun, StartItem)
    assert (begun.key, begun.spec.name, begun.inputs) == (undo("book"), "unbook", {"book": "B"})
    assert flow.awaits(undo("book"))
    moves = flow.completed(undo("book"), {})
    assert settled(moves) == {"book": "compensated"}
    begun = moves[-1]
    assert isinstance(begun, StartItem)
    assert begun.key == undo("reserve", 0)
    assert begun.inputs == {"reservation": "ra", "line": "a", "order": "o", "reason": "x"}
    (begun,) = flow.completed(undo("reserve", 0), {})
    assert isinstance(begun, StartItem)
    assert begun.inputs["reservation"] == "rb"
    ended = finish(flow.completed(undo("reserve", 1), {}))
    assert (ended.completed, ended.failed, ended.compensated) == (False, item("charge"), True)


def test_a_compensation_that_fails_does_not_stop_the_others() -> None:
    flow = failed_order()
    flow.failed(item("charge"), "no")
    moves = flow.failed(undo("book"), "cannot")
    assert settled(moves) == {"book": "uncompensated"}
    assert started(moves) == [undo("reserve", 0)]
    flow.completed(undo("reserve", 0), {})
    assert not finish(flow.completed(undo("reserve", 1), {})).compensated


def test_a_compensation_without_its_inputs_fails_and_the_others_go_on() -> None:
    flow = progress(
        step("a", compensate="undo_a"),
        step("undo_a", inputs={"gone": "string"}),
        step("b", depends_on=["a"], compensate="undo_b"),
        step("undo_b"),
        step("c", depends_on=["b"]),
        goals=["c"],
    )
    flow.start()
    flow.completed(item("a"), {"a": 1})
    flow.completed(item("b"), {"b": 1})
    flow.failed(item("c"), "no")
    moves = flow.completed(undo("b"), {})
    assert settled(moves) == {"b": "compensated", "a": "uncompensated"}
    assert "nothing provides 'gone'" in flow.states["a"].why
    assert not finish(moves).compensated


def test_an_outcome_that_nobody_waits_for_is_refused() -> None:
    flow = progress(step("a"), goals=["a"])
    flow.start()
    with pytest.raises(UnexpectedOutcome):
        flow.abandoned(item("a"))
    flow.completed(item("a"), {"a": 1})
    for late in (flow.resolved, flow.abandoned, lambda key: flow.failed(key, ""), lambda key: flow.completed(key, {})):
        for key in (item("a"), item("b"), undo("a")):
            with pytest.raises(UnexpectedOutcome):
                late(key)


def test_a_flow_costs_what_its_graph_and_its_items_have() -> None:
    """Moves, and edges looked at, grow with the size and no faster."""
    costs = []
    for size in (10, 100, 1_000):
        layers = [step("s0")]
        layers += [step(f"s{at}", depends_on=[f"s{one}" for one in range(max(0, at - 3), at)]) for at in range(1, size)]
        flow = GraphProgress(plan(layers, [f"s{size - 1}"], []), {})
        looked_at = _count_looks(flow)
        moves = flow.start()
        told = len(moves)
        while (keys := started(moves)) != []:
            moves = flow.completed(keys[0], {keys[0].step: 1})
            told += len(moves)
        assert finish(moves).completed
        assert told == 2 * size + 1
        costs.append((looked_at[0] / size, size))
    assert all(cost <= 7 for cost, _ in costs), costs


def _count_looks(flow: GraphProgress) -> list[int]:
    """Counts each edge that is followed, in either direction."""
    looked_at = [0]

    class Counted(list[Any]):
        def __iter__(self) -> Any:
            for one in list.__iter__(self):
                looked_at[0] += 1
                yield one

    for run in flow._runs.values():
        run.followers = Counted(run.followers)
        run.edges = Counted(run.edges)
    return looked_at

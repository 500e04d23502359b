"""From goals to the steps they need."""

import pytest
from hypothesis import given
from tests.flows.graphs.generated import graphs
from tests.flows.graphs.steps import step

from redrive.errors import InputError, PlanError
from redrive.flows.graphs.edges import taken_by
from redrive.flows.graphs.graph import Graph
from redrive.flows.graphs.plan import check_inputs, plan
from redrive.flows.graphs.spec import StepSpec
from redrive.flows.graphs.step_index import StepIndex

ORDER = [
    step("check", inputs={"order_id": "string"}, outputs={"total": "number"}),
    step("reserve", inputs={"order_id": "string", "total": "number"}, outputs=["reservation"], compensate="release"),
    step("release", inputs={"reservation": "any"}),
    step("ship", inputs={"reservation": "any", "gift": {"default": False}}, depends_on=["check"]),
    step("wrap", outputs=["gift"]),
    step("invoice", inputs={"total": "number"}),
]


def names(steps: tuple[StepSpec, ...]) -> list[str]:
    return [one.name for one in steps]


def test_a_goal_pulls_in_what_it_requires_and_nothing_else() -> None:
    made = plan(ORDER, ["ship"], ["order_id"])
    assert names(made.steps) == ["check", "reserve", "ship"]
    assert names(made.compensations) == ["release"]
    assert names(plan(ORDER, ["invoice"], ["order_id"]).steps) == ["check", "invoice"]
    assert plan(ORDER, ["invoice"], ["order_id"]).compensations == ()


def test_an_optional_input_pulls_nothing_in_and_waits_for_what_is_there() -> None:
    assert names(plan(ORDER, ["ship", "wrap"], ["order_id"]).steps) == ["check", "reserve", "wrap", "ship"]


def test_what_is_carried_out_beside_the_goals_is_no_goal() -> None:
    made = plan(ORDER, ["ship"], ["order_id"], also=["wrap"])
    assert names(made.steps) == ["check", "reserve", "wrap", "ship"]
    assert made.goals == ("ship",)


def test_a_step_that_undoes_gives_nothing_to_the_others() -> None:
    release = step("release", inputs={"reservation": "any"}, outputs=["total"])
    steps = [release if one.name == "release" else one for one in ORDER]
    assert names(plan(steps, ["invoice"], ["order_id"]).steps) == ["check", "invoice"]


@pytest.mark.parametrize(
    ("steps", "goals", "provided", "says"),
    [
        (ORDER, ["shp"], ["order_id"], "goal 'shp': there is no such step; did you mean 'ship'?"),
        (ORDER, [], [], "no goals are given"),
        (ORDER, ["release"], [], "'release' only compensates step reserve"),
        (
            ORDER,
            ["ship"],
            ["orderid"],
            "step check needs 'order_id', which neither an input nor a step provides; did you",
        ),
        (
            ORDER,
            ["invoice"],
            ["order_id", "total"],
            "step invoice needs 'total', which step check and the input provide",
        ),
        (
            [step("a", outputs=["x"]), step("b", outputs=["x"]), step("c", inputs={"x": "any"})],
            ["c"],
            [],
            "a and step b",
        ),
        ([step("a", depends_on=["b"]), step("b", depends_on=["a"])], ["a"], [], "a cycle: a needs b needs a"),
        ([step("a", depends_on=["gone"])], ["a"], [], "step a depends on 'gone'"),
        ([step("a", compensate="gone")], ["a"], [], "step a is compensated by 'gone'"),
        ([step("a", compensate="b"), step("b", depends_on=["a"])], ["a"], [], "cannot have depends_on"),
    ],
)
def test_goals_that_cannot_be_reached_say_why(
    steps: list[StepSpec], goals: list[str], provided: list[str], says: str
) -> None:
    with pytest.raises(PlanError) as refused:
        plan(steps, goals, provided)
    assert says in str(refused.value)


def test_all_that_is_missing_is_told_at_once() -> None:
    steps = [step("a", inputs={"x": "any", "y": "any"}, depends_on=["b"]), step("b", inputs={"z": "any"})]
    with pytest.raises(PlanError) as refused:
        plan(steps, ["a"], [])
    assert set(refused.value.missing) == {"x", "y", "z"}
    assert len(refused.value.lines) == 3


@given(graphs())
def test_a_plan_is_minimal_complete_and_in_order(case: tuple[list[StepSpec], list[str], list[str]]) -> None:
    steps, goals, provided = case
    made = plan(steps, goals, provided)
    index = StepIndex(made.steps)
    place = {name: at for at, name in enumerate(index.by_name)}
    for spec in made.steps:
        for before in spec.depends_on:
            assert place[before] < place[spec.name]
        for one in taken_by(spec):
            giver = index.providers.get(one.source)
            if giver is not None:
                assert place[giver[0]] < place[spec.name]
            else:
                assert one.source in provided or one.spec.role == "optional"
    for left_out in made.steps:
        with pytest.raises(PlanError):
            plan([one for one in steps if one.name != left_out.name], goals, provided)


class Counting(dict[str, StepSpec]):
    """Counts what is looked up."""

    looked_up = 0

    def __getitem__(self, name: str) -> StepSpec:
        self.looked_up += 1
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> StepSpec | None:  # type: ignore[override]  # counts, and no more
        self.looked_up += 1
        return super().get(name)


def test_planning_costs_what_the_plan_has_whatever_the_catalogue_has() -> None:
    """Every size counts the same number of look-ups for each step of the plan."""
    costs = []
    for size in (10, 100, 1_000):
        chain = [step("s0")] + [step(f"s{at}", inputs={f"s{at - 1}": "any"}) for at in range(1, size)]
        index = StepIndex([*chain, *(step(f"other{at}") for at in range(50))])
        index.by_name = counting = Counting(index.by_name)
        assert len(plan(index, [f"s{size - 1}"], []).steps) == size
        costs.append(counting.looked_up / size)
    assert max(costs) == min(costs) == 1


INPUTS = [
    step("a", inputs={"n": "integer", "name": {"type": "string", "default": "x"}}),
    step("b", inputs={"line": {"type": "object", "for_each": True, "from": "lines"}}),
]


@pytest.mark.parametrize(
    ("inputs", "pointer", "says"),
    [
        ({"n": "1", "lines": []}, "/n", "a string where a whole number is needed (step a)"),
        ({"n": 1, "lines": {}}, "/lines", "an object where for_each needs a list"),
        ({"n": 1, "lines": [{}, 3]}, "/lines/1", "a whole number where an object is needed"),
        ({"n": True, "lines": []}, "/n", "a boolean where"),
        ({"n": 1, "lines": [], "nam": "y"}, "/nam", "did you mean 'name'?"),
        ({"n": 1, "lines": [], "a/b~c": "y"}, "/a~1b~0c", "it takes n, name, lines"),
        ({"n": 1, "lines": [], "name": None}, "/name", "null where a string"),
    ],
)
def test_inputs_that_no_step_can_take_are_pointed_at(inputs: dict[str, object], pointer: str, says: str) -> None:
    made = plan(INPUTS, ["a", "b"], ["n", "lines"])
    with pytest.raises(InputError) as refused:
        check_inputs(made, inputs)
    assert refused.value.pointer == pointer
    assert says in str(refused.value)


def test_the_inputs_a_graph_declares_have_their_defaults_and_are_required() -> None:
    graph = Graph("g", inputs={"n": "integer", "m": {"type": "integer", "default": 3}, "unused": "string"})
    graph.step("a", "http://h/a", inputs={"n": "integer", "m": "integer"})
    made = plan(graph)
    assert check_inputs(made, {"n": 1, "unused": "x"}, graph.inputs) == {"n": 1, "m": 3, "unused": "x"}
    with pytest.raises(InputError, match=r"inputs/n: required, but missing"):
        check_inputs(made, {}, graph.inputs)
    with pytest.raises(InputError, match="did you mean 'unused'"):
        check_inputs(made, {"n": 1, "unusd": ""}, graph.inputs)
    with pytest.raises(InputError, match="a boolean where a string is needed"):
        check_inputs(made, {"n": 1, "unused": True}, graph.inputs)

"""Graphs built in Python: the same checks, and the signatures of functions."""

import math
from datetime import date, timedelta
from enum import Enum
from typing import Any

import msgspec
import pytest

from redrive import RetryPolicy
from redrive.errors import GraphError
from redrive.flows.action import action
from redrive.flows.graphs.graph import Graph
from redrive.flows.graphs.notation.graph_reading import read_graph
from redrive.flows.graphs.plan import plan
from redrive.flows.graphs.spec import ActionHandler, HttpHandler, InputSpec
from redrive.flows.stored_policy import read_stored_policy
from redrive.testing import run_flow


class Line(msgspec.Struct):
    sku: str


@action(name="tests.builder.reserve", retry=RetryPolicy(attempts=9), timeout="7s")
async def reserve(
    order_id: str,
    line: Line,
    count: int | None,
    ratio: float = 0.5,
    wait: timedelta = timedelta(seconds=3),
    flags: tuple[str, ...] = (),
    marker: Any = object(),  # noqa: B008 - JSON cannot hold it
    *rest: int,
    fast: bool = False,
    **more: int,
) -> str:
    return "r"


def test_the_inputs_of_an_action_are_its_parameters() -> None:
    (spec,) = Graph("g").step("reserve", reserve).steps
    assert spec.handler == ActionHandler(action="tests.builder.reserve")
    assert spec.inputs == {
        "order_id": InputSpec(type="string"),
        "line": InputSpec(type="object"),
        "count": InputSpec(),
        "ratio": InputSpec(type="number", role="optional", default=0.5),
        "wait": InputSpec(role="optional", default="PT3S"),
        "flags": InputSpec(type="array", role="optional", default=[]),
        "fast": InputSpec(type="boolean", role="optional", default=False),
    }


class Colour(Enum):
    RED = "r"


DAY = date(2020, 1, 2)


@action(name="tests.builder.own_defaults")
async def own_defaults(
    limit: float = math.inf,
    most: float | None = math.inf,
    comma: Any = b",",
    pair: Any = (1, 2),
    day: Any = DAY,
    colour: Any = Colour.RED,
) -> str:
    return repr([limit, most, comma, pair, day, colour])


@action(name="tests.builder.kept_defaults")
async def kept_defaults(tax: float = 0, comma: bytes = b",", day: date = DAY, colour: Colour = Colour.RED) -> str:
    return repr([tax, comma, day, colour])


def test_a_function_gets_its_defaults_as_it_has_them() -> None:
    graph = Graph("g").step("own", own_defaults).step("kept", kept_defaults)
    assert run_flow(graph.call()).result == {
        "own": repr([math.inf, math.inf, b",", (1, 2), DAY, Colour.RED]),
        "kept": repr([0.0, b",", DAY, Colour.RED]),
    }
    own, kept = graph.steps
    assert own.inputs == {}
    assert kept.inputs["tax"] == InputSpec(type="number", role="optional", default=0)


def test_what_has_a_default_that_is_left_to_the_function_may_still_be_given() -> None:
    graph = Graph("g").step("own", own_defaults, inputs={"limit": {"value": 3}, "pair": {"value": [4, 5]}})
    assert "[3.0, inf, b',', [4, 5]," in run_flow(graph.call()).result["own"]


def test_what_is_written_is_laid_over_the_parameters() -> None:
    graph = Graph("g").step(
        "reserve",
        reserve,
        for_each="line",
        inputs={"line": {"from": "lines"}, "count": {"value": 1}, "ratio": "number"},
    )
    inputs = graph.steps[0].inputs
    assert inputs["line"] == InputSpec(type="object", for_each=True, source="lines")
    assert inputs["count"] == InputSpec(role="constant", value=1)
    assert inputs["ratio"] == InputSpec(type="number")
    assert inputs["fast"].role == "optional"


def test_the_policy_of_an_action_is_that_of_its_step_unless_it_has_its_own() -> None:
    graph = Graph("g").step("a", reserve).step("b", reserve, retry=RetryPolicy(attempts=3), timeout=3, idempotent=False)
    first, second = (read_stored_policy(spec.policy) for spec in graph.steps)
    assert (first.attempts, first.attempt_timeout) == (9, 7)
    assert (second.attempts, second.attempt_timeout, second.idempotent) == (3, 3, False)


def test_a_file_that_names_an_action_takes_its_inputs_and_its_policy() -> None:
    (read,) = read_graph({"graph": "g", "steps": {"a": {"action": reserve.name}}}).steps
    (built,) = Graph("g").step("a", reserve).steps
    assert read == built


def test_a_plain_function_becomes_an_action_under_its_full_name() -> None:
    (spec,) = Graph("g").step("a", plain).steps
    assert spec.handler == ActionHandler(action=f"{__name__}.plain")
    assert Graph("g").step("again", plain).steps[0].handler == spec.handler


def plain(n: int) -> int:
    return n


def test_it_is_the_graph_a_file_would_give() -> None:
    built = (
        Graph("order", goals=["ship"], inputs={"order_id": "string", "lines": "array"})
        .step(
            "reserve",
            "http://h/reserve",
            inputs={"order_id": "string", "line": {"from": "lines"}},
            outputs=["reservation"],
            for_each=["line"],
            when="order_id != ''",
            parallelism=3,
            mode="async",
            statuses={404: "transient"},
            compensate="release",
        )
        .step("release", "http://h/release", inputs={"reservation": "any"})
        .step("ship", "shop.ship", inputs={"reservation": "array"}, depends_on=("reserve",), dependency="post")
    )
    read = read_graph("""
graph: order
goals: [ship]
inputs: {order_id: string, lines: array}
steps:
  reserve:
    endpoint: http://h/reserve
    mode: async
    statuses: {404: transient}
    inputs: {order_id: string, line: {from: lines, for_each: true}}
    outputs: [reservation]
    when: order_id != ''
    parallelism: 3
    compensate: release
  release: {endpoint: http://h/release, inputs: {reservation: any}}
  ship: {action: shop.ship, inputs: {reservation: array}, depends_on: [reserve], dependency: post}
""")
    assert built.steps == read.steps
    assert plan(built) == plan(read)
    assert isinstance(built.steps[0].handler, HttpHandler)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"inputs": {"x": "strin"}},
            "graph g: key 'steps.a.inputs.x', value \"strin\": not a type; did you mean 'string'",
        ),
        ({"when": "y > 1", "inputs": {"x": "any"}}, "'y' is not an input of the step"),
        ({"depends_on": "b"}, "key 'steps.a.depends_on', value \"b\": not a list"),
        ({"retry": "[retry: x"}, "key 'steps.a.retry'"),
        ({"timeout": "soon"}, "key 'steps.a.timeout'"),
        ({"parallelism": 0}, "key 'steps.a.parallelism'"),
        ({"mod": "async"}, "did you mean 'mode'"),
        ({"for_each": "x", "inputs": {"x": {"value": 3}}}, "a constant has no list to iterate over"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(GraphError) as refused:
        Graph("g").step("a", "http://h/", **settings)
    assert says in str(refused.value)


def test_what_is_no_handler_and_what_is_there_already_are_refused() -> None:
    with pytest.raises(GraphError, match="is not a function"):
        Graph("g").step("a", 3)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(GraphError, match="the graph already has a step of this name"):
        Graph("g").step("a", "http://h/").step("a", "http://h/")
    with pytest.raises(GraphError, match="not a name"):
        Graph("a graph")


def test_what_does_not_fit_together_is_told_when_it_is_planned() -> None:
    graph = Graph("g", goals=["b"]).step("a", "http://h/", depends_on=["c"])
    with pytest.raises(GraphError) as refused:
        plan(graph)
    assert str(refused.value).count("there is no such step") == 2
    assert plan(graph.step("b", "http://h/").step("c", "http://h/")).goals == ("b",)
    assert "3 steps" in repr(graph)

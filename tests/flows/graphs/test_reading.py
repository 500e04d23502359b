"""Graphs as people write them: what they mean, and what each mistake is told."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows.graphs.order import ORDER

from redrive.errors import GraphError
from redrive.flows.action import action_named
from redrive.flows.graphs.notation.graph_reading import LARGEST_GRAPH, read_graph
from redrive.flows.graphs.notation.problems import MOST_SHOWN
from redrive.flows.graphs.notation.step_reading import read_step
from redrive.flows.graphs.notation.step_writing import step_as_data
from redrive.flows.graphs.spec import ActionHandler, HttpHandler, InputSpec, StepSpec
from redrive.flows.stored_policy import DURABLE_DEFAULT, read_stored_policy, write_stored_policy
from redrive.notation.source import load_document
from redrive.policies.backoff import Backoff
from redrive.policies.policy import Policy


def policy_of(spec: StepSpec) -> Policy:
    return read_stored_policy(spec.policy)


def by_name(text: str = ORDER, **options: Any) -> dict[str, StepSpec]:
    return {spec.name: spec for spec in read_graph(text, "order.yaml", **options).steps}


@pytest.mark.promise("A7", "T3")
def test_everything_that_is_written_takes_effect() -> None:
    graph = read_graph(ORDER, "order.yaml")
    assert (graph.name, graph.goals, graph.description) == ("order", ("ship",), "an order, until it is shipped")
    assert graph.inputs == {
        "order_id": InputSpec(type="string"),
        "lines": InputSpec(type="array"),
        "warehouse": InputSpec(type="string", role="optional", default="north"),
    }
    assert [one.name for one in graph.compensations] == ["release"]
    steps = by_name()
    reserve = steps["reserve"]
    assert reserve.handler == HttpHandler(
        endpoint="http://127.0.0.1:9000/reserve", mode="async", statuses={"404": "transient"}, conflict_is_lock=True
    )
    assert reserve.inputs["line"] == InputSpec(type="object", for_each=True, source="lines")
    assert reserve.inputs["channel"] == InputSpec(role="constant", value="web")
    assert reserve.outputs == {"reservation": "string"}
    assert (reserve.depends_on, reserve.when, reserve.parallelism) == (("check",), "total > 0", 5)
    assert (reserve.dependency, reserve.compensate) == ("warehouse-api", "release")
    policy = policy_of(reserve)
    assert (policy.attempts, policy.backoff, policy.max_wait) == (4, Backoff("linear", 1.0), 60)
    assert (policy.attempt_timeout, policy.idempotent) == (30, True)
    policy = policy_of(steps["ship"])
    assert (policy.attempts, policy.backoff, policy.max_wait) == (5, Backoff("constant", 0.01), 0.02)
    assert steps["ship"].handler == ActionHandler(action="shop.ship")
    assert policy_of(steps["check"]) == DURABLE_DEFAULT


def test_json_and_plain_data_are_read_as_yaml_is() -> None:
    data = load_document(ORDER).data
    for other in (read_graph(json.dumps(data)), read_graph(data)):
        assert other.steps == read_graph(ORDER).steps


def test_template_is_another_word_for_graph_and_goals_are_all_that_do_not_only_undo() -> None:
    text = ORDER.replace("graph: order", "template: order").replace("goals: [ship]\n", "")
    assert read_graph(text).goals == ("check", "reserve", "ship")


def test_an_environment_is_laid_over_the_rest() -> None:
    steps = by_name(environment="production")
    assert policy_of(steps["reserve"]).attempts == 10
    assert policy_of(steps["reserve"]).backoff == Backoff("exponential", 1.0), "retry takes the place of work_config"
    assert policy_of(steps["ship"]).attempts == 7
    assert policy_of(steps["ship"]).backoff == Backoff("constant", 0.01), "and is merged with what is there"
    with pytest.raises(GraphError, match="no such environment; did you mean 'production'"):
        by_name(environment="producton")


def test_in_an_environment_a_function_may_stand_in_for_an_endpoint() -> None:
    text = f"{ORDER}  test:\n    steps:\n      reserve: {{action: fake.reserve}}\n"
    assert by_name(text, environment="test")["reserve"].handler == ActionHandler(action="fake.reserve")


@pytest.mark.parametrize("here", [{"value": 3}, {"default": [4]}, {"from": "m"}, {"for_each": True}])
def test_in_an_environment_an_input_may_come_from_elsewhere(here: dict[str, Any]) -> None:
    for before in ({"value": 3}, {"default": [5], "from": "m", "for_each": True}):
        step = {"endpoint": "http://h/", "inputs": {"n": before}}
        test = {"steps": {"a": {"inputs": {"n": here}}}}
        found = read_graph({"graph": "g", "steps": {"a": step}, "environments": {"test": test}}, environment="test")
        meant = {**before, **here} if ("value" in before) == ("value" in here) else here
        assert found.steps == (read_step({**step, "name": "a", "inputs": {"n": meant}}),)


def change(old: str, new: str) -> str:
    assert old in ORDER
    return ORDER.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        (change("goals: [ship]", "goals: [shp]"), "goals[0]", "no such step; did you mean 'ship'?"),
        (change("goals: [ship]", "goals: [release]"), "goals[0]", "this step only compensates reserve"),
        (change("goals: [ship]", "goals: []"), "goals", "the graph has no goal"),
        (change("[check]", "[check, check]"), "steps.reserve.depends_on[1]", "named twice"),
        (change("[check]", "[chek]"), "steps.reserve.depends_on[0]", "did you mean 'check'?"),
        (change("[check]", "check"), "steps.reserve.depends_on", "not a list"),
        (change("[check]", "[ship]"), "steps.reserve", "a cycle: reserve needs ship needs reserve"),
        (change("compensate: release", "compensate: relase"), "steps.reserve.compensate", "did you mean 'release'?"),
        (change("from: lines", "from: line_s"), "steps.reserve.inputs.line.from", "nothing provides 'line_s', which"),
        (change("inputs: {order_id: string}\n", "inputs: {orderid: string}\n"), "steps.check.inputs.orderid", "did"),
        (change("total > 0", "totl > 0"), "steps.reserve.when", "did you mean 'total'?"),
        (change('"total > 0"', '"total >"'), "steps.reserve.when", "not a condition"),
        (change('"total > 0"', "true"), "steps.reserve.when", "not allowed"),
        (change("{total: number}", "{total: number, lines: array}"), "steps.check.outputs.lines", "input of the graph"),
        (change("{total: number}", "{total: number, reservation: any}"), "steps.reserve.outputs.reservation", "check"),
        (change("{total: number}", "{total: string}"), "steps.reserve.inputs.total", "provides a string, but a number"),
        (change("{reservation: array}", "{reservation: string}"), "steps.ship.inputs.reservation", "with for_each"),
        (change("inputs: {order_id: string}", "inputs: {order_id: str}"), "steps.check.inputs.order_id", "'string'?"),
        (change("{value: web}", "{value: web, for_each: true}"), "steps.reserve.inputs.channel.for_each", "no list"),
        (change("{value: web}", "{value: web, from: x}"), "steps.reserve.inputs.channel.from", "a constant has its"),
        (change("{value: web}", "{value: }"), "steps.reserve.inputs.channel.value", "a constant needs a value"),
        (change("{value: web}", "{type: integer, value: web}"), "steps.reserve.inputs.channel.value", "match its type"),
        (change("default: north", "default: 3"), "inputs.warehouse.default", "a whole number where a string is needed"),
        (change("mode: async", "mode: later"), "steps.reserve.mode", "not allowed"),
        (change("mode: async", "modes: async"), "steps.reserve.modes", "unknown; did you mean 'mode'?"),
        (change("parallelism: 5", "parallelism: 0"), "steps.reserve.parallelism", "not allowed"),
        (change("timeout: 30s", "timeout: soon"), "steps.reserve.timeout", "a duration such as"),
        (change("404: transient", "404: maybe"), "steps.reserve.statuses.404", "transient, permanent, unknown"),
        (change("404: transient", "99: transient"), "steps.reserve.statuses.99", "from 200 to 599"),
        (change("404: transient", "409: transient"), "steps.reserve.conflict", "statuses already define 409"),
        (change("conflict: reread", "conflict: yes"), "steps.reserve.conflict", "allowed: reread"),
        (change("http://127.0.0.1:9000/check", "ftp://x/check"), "steps.check.endpoint", "not an http or https"),
        (change("http://127.0.0.1:9000/check", "http://"), "steps.check.endpoint", "not an http or https"),
        (change("http://127.0.0.1:9000/check", "http://h:x/c"), "steps.check.endpoint", "not an address"),
        (change("    action: shop.ship", "    action: a\n    endpoint: http://h/"), "steps.ship.action", "are given"),
        (change("    action: shop.ship", "    timeout: 3s"), "steps.ship.endpoint", "missing: the step has no handler"),
        (change("    action: shop.ship", "    action: a\n    mode: sync"), "steps.ship.mode", "only with an endpoint"),
        (change("    action: shop.ship", "    handler: 'a:b'"), "steps.ship.handler", "own files; allowed: action:"),
        (change("retry: {max_attempts: 5, ", "policy: '[retry: 3'\n    #"), "steps.ship.policy", "',' or ']'"),
        (change("    retry: {", "    policy: {}\n    retry: {"), "steps.ship.policy", "retry and policy are given"),
        (change("graph: order", "graph: 1order"), "graph", "not a name"),
        (change("graph: order\n", ""), "graph", "missing"),
        (change("description:", "descripton:"), "descripton", "did you mean 'description'?"),
        (change("string, order_id", "string, x"), "steps.release.inputs.x", "neither step reserve, which it compen"),
        (change("max_attempts: 10", "max_attempt: 10"), "steps.reserve.retry.max_attempt", "unknown; did you mean"),
        (change("  production:", "  production:\n    step: {}"), "environments.production.step", "unknown"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_its_key_and_what_to_write(text: str, key: str, says: str) -> None:
    with pytest.raises(GraphError) as refused:
        read_graph(text, "order.yaml")
    told = [one for one in refused.value.problems if one.key == key]
    assert told, str(refused.value)
    names = [one for one in told[0].path if isinstance(one, str)]
    assert told[0].line is not None
    assert names[-1] in text.splitlines()[told[0].line - 1] or says.startswith("missing"), str(refused.value)
    assert told[0].source == "order.yaml"
    assert says in str(told[0])
    assert told[0].allowed
    assert len(refused.value.problems) == 1 or key.endswith("compensate"), f"one mistake, one line:\n{refused.value}"


@pytest.mark.parametrize("keys", ["for_each", "depends_on", "when", "compensate"])
def test_a_step_that_undoes_only_undoes(keys: str) -> None:
    more = {
        "for_each": ", x: {for_each: true, default: []}}",
        "depends_on": "}\n    depends_on: [check]",
        "when": '}\n    when: "1 == 1"',
        "compensate": "}\n    compensate: check2",
    }[keys]
    text = change("{reservation: string, order_id: string}", "{reservation: string, order_id: string" + more)
    text = text.replace("  ship:\n    action", "  check2: {endpoint: http://h/c}\n  ship:\n    action", 1)
    with pytest.raises(GraphError, match=f"steps.release.*{keys}.*the compensation of reserve"):
        read_graph(text)


@pytest.mark.promise("T6", "T7", "T9", "A7")
@pytest.mark.parametrize(
    ("policy", "key", "says"),
    [
        ("retry: {max_attempts: 0}", "steps.a.retry.max_attempts", "write 1 for one attempt"),
        ("retry: {retry_limit: 3}", "steps.a.retry.retry_limit", "no longer a key; write 'max_attempts'"),
        ("retry_limit: 3", "steps.a.retry_limit", "no longer a key; write 'retry: {max_attempts: ...}'"),
        ("work_config: {max_retries: -2}", "steps.a.work_config.max_retries", "a whole number from 0"),
        ("work_config: {backoff_type: sinus}", "steps.a.work_config.backoff_type", "fixed, linear, exponential"),
        ("work_config: {retries: 3}", "steps.a.work_config.retries", "unknown"),
        ("policy: {attempts: 0}", "steps.a.policy.attempts", "write 1 for one attempt"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_by_its_key(policy: str, key: str, says: str) -> None:
    with pytest.raises(GraphError) as refused:
        read_graph(f"graph: g\nsteps:\n  a:\n    endpoint: http://h/\n    {policy}\n", "g.yaml")
    (told,) = refused.value.problems
    assert (told.key, told.line) == (key, 5)
    assert says in str(told)


@pytest.mark.promise("T7", "T3")
def test_what_is_not_retryable_has_one_attempt() -> None:
    spec = read_step({"name": "a", "endpoint": "http://h/", "retry": {"retryable": False, "max_attempts": 3}})
    assert policy_of(spec).attempts == 1


def test_all_mistakes_are_told_at_once_in_the_order_of_the_lines() -> None:
    text = ORDER.replace("[ship]", "[shp]").replace("max_retries", "max_retrys").replace("mode: async", "mode: x")
    with pytest.raises(GraphError) as refused:
        read_graph(text, "order.yaml")
    assert [one.line for one in refused.value.problems] == [3, 15, 25]
    assert str(refused.value).count("\n") == 2


def test_of_very_many_mistakes_the_first_are_told_and_the_rest_is_counted() -> None:
    steps = {f"s{at}": {"endpoint": "http://h/", "depends_on": [f"x{at}"]} for at in range(300)}
    with pytest.raises(GraphError, match=f"and {300 - MOST_SHOWN} more problems"):
        read_graph({"graph": "g", "steps": steps})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a graph"),
        ("[1, 2]", "not a graph"),
        ("graph: g\nsteps: {}\n", "the graph has no steps"),
        ("graph: g\n", "key 'steps'"),
        ("graph: g\nsteps: &a {}\nalso: *a\n", "anchor"),
        ("graph: !!python/object:os.system g\n", "tag"),
        ("graph: g\ngraph: h\n", "duplicate key"),
        ("graph: g\nsteps: [\n", "a graph in YAML or JSON"),
        ("graph: g\nsteps: {a: 3}\n", "not a step"),
        ("graph: g\nsteps: {a: {endpoint: http://h/, inputs: 3}}\n", "not a mapping of inputs"),
        ("#" + "x" * LARGEST_GRAPH, "too long for a graph"),
        ("graph: g\nsteps: {a: {endpoint: 'http://user:hunter2@h/'}}\n", "would appear in events and logs"),
        ("graph: g\nsteps: {a: {endpoint: 'http://h/?api_key=hunter2'}}\n", "would appear in events and logs"),
        ("graph: g\nsteps: {a: {endpoint: 'http://h/?a=1&Key=hunter2'}}\n", "would appear in events and logs"),
        ("graph: g\nsteps: {a: {endpoint: 'http://h/?access%5Ftoken=hunter2'}}\n", "would appear in events and logs"),
        ("graph: g\nsteps: {a: {endpoint: 'http://h/?x=sk_live_4eC39HqLyjhunter2'}}\n", "would appear in events"),
        ("graph: g\nsteps: {a: {endpoint: http://h/, inputs: {x: {default: .nan}}}}\n", "JSON values"),
        ("graph: g\nsteps: {a: {endpoint: http://h/, inputs: {a: any}}}\n", "a needs its own output"),
        ("graph: g\nenvironments: 3\nsteps: {a: {endpoint: http://h/}}\n", "not a mapping of environments"),
    ],
)
def test_what_is_no_graph_at_all_is_told(text: str, says: str) -> None:
    with pytest.raises(GraphError) as refused:
        read_graph(text, "g.yaml")
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert all(line.startswith("g.yaml") for line in str(refused.value).splitlines())


def test_a_large_graph_is_read_and_one_step_too_many_is_refused() -> None:
    def chain(size: int) -> dict[str, Any]:
        steps: dict[str, Any] = {"s0": {"endpoint": "http://h/0"}}
        steps |= {f"s{at}": {"endpoint": "http://h/", "inputs": {f"s{at - 1}": "any"}} for at in range(1, size)}
        return {"graph": "g", "steps": steps}

    assert len(read_graph(chain(3_000)).steps) == 3_000
    with pytest.raises(GraphError, match="at most 10000"):
        read_graph({"graph": "g", "steps": {f"s{at}": {} for at in range(10_001)}})


def test_long_texts_are_read_as_short_ones_are() -> None:
    """They go through another reader of YAML."""
    filled = ORDER + "".join(f"# {'x' * 90}\n" for _ in range(4_000))
    assert read_graph(filled).steps == read_graph(ORDER).steps
    with pytest.raises(GraphError, match=r"order.yaml:3: key 'goals\[0\]'"):
        read_graph(filled.replace("[ship]", "[shp]"), "order.yaml")


def test_a_handler_is_imported_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_steps.py").write_text(
        "def price(amount: int, tax: float = 0.2) -> float:\n    return amount * tax\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "graph: g\nsteps:\n  price: {handler: 'shop_steps:price'}\n"
    (spec,) = read_graph(text, imports=True).steps
    assert spec.handler == ActionHandler(action="shop_steps.price")
    assert action_named("shop_steps.price").executor == "thread"
    assert spec.inputs == {
        "amount": InputSpec(type="integer"),
        "tax": InputSpec(type="number", role="optional", default=0.2),
    }
    for wrong in ("shop_steps:prize", "shop_step:price", "shop_steps"):
        with pytest.raises(GraphError, match=r"steps\.price\.handler.*package\.module:function"):
            read_graph(text.replace("shop_steps:price", wrong), imports=True)
    sys.modules.pop("shop_steps", None)


def test_the_inputs_of_a_known_function_are_checked_against_its_parameters() -> None:
    from redrive.flows.action import action

    @action(name="tests.graphs.known")
    def known(amount: int, tax: float = 0.2) -> float:
        return amount * tax

    step: dict[str, Any] = {"name": "s", "action": known.name}
    assert list(read_step(step).inputs) == ["amount", "tax"]
    with pytest.raises(GraphError, match=r"inputs\.amuont.*did you mean 'amount'"):
        read_step(step | {"inputs": {"amount": "integer", "amuont": "integer"}})
    with pytest.raises(
        GraphError, match=r"inputs\.amount.*missing, but the function requires it; allowed: amount: integer"
    ):
        read_step(step | {"inputs": {}})


# One step, and back

_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)
_inputs = st.one_of(
    st.builds(InputSpec, type=st.sampled_from(["any", "string", "object"]), source=st.none() | _names.map("x".__add__)),
    st.builds(InputSpec, for_each=st.booleans(), type=st.sampled_from(["any", "integer"])),
    st.builds(InputSpec, role=st.just("optional"), default=_values),
    st.builds(InputSpec, role=st.just("constant"), value=_values.filter(lambda value: value is not None)),
)
_handlers = st.one_of(
    st.builds(ActionHandler, action=_names.map("tests.nobody.".__add__)),
    st.builds(
        HttpHandler,
        endpoint=st.sampled_from(["http://127.0.0.1:9000/a", "https://host/b?c=d"]),
        mode=st.sampled_from(["sync", "async"]),
        statuses=st.dictionaries(st.sampled_from(["404", "500"]), st.sampled_from(["transient", "unknown"])),
        conflict_is_lock=st.booleans(),
    ),
)
_policies = st.builds(
    Policy,
    attempts=st.none() | st.integers(1, 9),
    attempt_timeout=st.none() | st.integers(1, 99).map(float),
    idempotent=st.none() | st.booleans(),
).map(write_stored_policy)
_steps = st.builds(
    StepSpec,
    name=_names.map("s".__add__),
    handler=_handlers,
    policy=_policies,
    inputs=st.dictionaries(_names.map("i".__add__), _inputs, max_size=3),
    outputs=st.dictionaries(_names.map("o".__add__), st.sampled_from(["any", "array"]), max_size=2),
    depends_on=st.lists(_names.map("d".__add__), max_size=2).map(tuple),
    when=st.sampled_from(["", "1 > 2"]),
    parallelism=st.none() | st.integers(1, 100),
    dependency=st.none() | _names,
    compensate=st.none() | _names.map("c".__add__),
)


@given(_steps)
def test_a_step_that_is_written_down_is_read_back(spec: StepSpec) -> None:
    written = json.loads(json.dumps(step_as_data(spec)))
    assert read_step(written) == spec


@pytest.mark.parametrize("name", ["check", "reserve", "release", "ship"])
def test_the_steps_of_a_graph_can_be_registered_one_by_one(name: str) -> None:
    spec = by_name()[name]
    assert read_step(step_as_data(spec)) == spec


@pytest.mark.parametrize(
    ("data", "key", "says"),
    [
        ([], "", "not a step"),
        ({"endpoint": "http://h/"}, "name", "missing"),
        ({"name": "a b", "endpoint": "http://h/"}, "name", "not a name"),
        ({"name": "a", "endpoint": "http://h/", "depends_on": ["a"]}, "depends_on[0]", "cannot wait for itself"),
        ({"name": "a", "endpoint": "http://h/", "compensate": "a"}, "compensate", "cannot compensate itself"),
        ({"name": "a", "endpoint": "http://h/", "inputs": {"a": "any"}}, "inputs.a", "the step provides 'a' itself"),
        ({"name": "a"}, "endpoint", "the step has no handler"),
        ({"name": "a", "action": "x", "endpoint": "http://h/"}, "action", "endpoint and action are given"),
        ({"name": "a", "handler": "os:system"}, "handler", "only imported for"),
        ({"name": "a", "endpoint": "http://h/", "inputs": {"x": {"defualt": 3}}}, "inputs.x.defualt", "'default'?"),
        ({"name": "a", "endpoint": "http://h/", "dependency": ""}, "dependency", "the name of a dependency"),
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_registered_says_why(data: Any, key: str, says: str) -> None:
    with pytest.raises(GraphError) as refused:
        read_step(data)
    (told,) = refused.value.problems
    assert told.key == key
    assert says in str(told)


@pytest.mark.parametrize(
    "says",
    [
        {"type": "integer", "value": "hunter2"},
        {"type": "integer", "default": "hunter2"},
        {"for_each": True, "default": "hunter2"},
        {"vaule": "hunter2"},
        {"value": 3, "default": "hunter2"},
    ],
)
def test_the_value_of_an_input_is_not_shown(says: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as refused:
        read_step({"name": "a", "endpoint": "http://h/", "inputs": {"password": says}})
    assert "hunter2" not in str(refused.value)
    assert "inputs.password" in str(refused.value)

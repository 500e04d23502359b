"""The policies of durable work that names none, or a RetryPolicy: they last for a night, and spread what they retry."""

import ast
import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import redrive
from redrive import Graph, Policy, RetryAfter, RetryPolicy, Script, Workflow, action, current_attempt, workflow
from redrive.cli import main
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import seeded_dice
from redrive.errors import PolicyError
from redrive.flows.retry_policy import as_policy
from redrive.flows.stored_policy import DURABLE_DEFAULT, read_stored_policy, write_stored_policy
from redrive.notation import write_policy
from redrive.policies.decide import decide
from redrive.policies.decision import GiveUp, RetryAt
from redrive.policies.history import Granted, History
from redrive.policies.jitter import Jitter
from redrive.testing import FlowOutcome, ScriptedDice, flow_app, run_flow

HOUR = 3600.0
ROOT = Path(__file__).parents[2]

down_until = [0.0]


@action(name="night.charge")
async def charge(cents: int = 100) -> str:
    if current_clock().wall() < down_until[0]:
        raise ConnectionRefusedError("the bank is down")
    return f"paid {cents}"


@workflow(name="night.Billing")
class Billing(Workflow):
    async def run(self) -> str:
        return await charge(100)


@workflow(name="night.Limited")
class Limited(Workflow):
    async def run(self) -> str:
        return await self.run_action(charge(100), timeout="30s")


GRAPH = Graph("night").step("charge", charge, inputs={"cents": "integer"}, outputs=["receipt"])
SCRIPT = Script("night", "fn main():\n    return @night.charge(cents=100)\n")
STARTED = {
    "action": (Billing.call, "paid 100"),
    "action with a timeout": (Limited.call, "paid 100"),
    "job": (lambda: charge(100), "paid 100"),
    "step": (lambda: GRAPH.call({"cents": 100}), {"receipt": "paid 100"}),
    "script": (SCRIPT.call, "paid 100"),
}


def outlast(what: Any, outage: float, seed: int) -> FlowOutcome:
    async def story() -> FlowOutcome:
        async with flow_app(dice=seeded_dice(seed)) as app:
            down_until[0] = app.clock.wall() + outage
            return await app.outcome(await app.start(what))

    return asyncio.run(story())


@pytest.mark.promise("L1")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("which", STARTED)
def test_a_dependency_that_is_down_for_a_night_costs_no_flow(which: str, seed: int) -> None:
    call, result = STARTED[which]
    outcome = outlast(call(), 9 * HOUR, seed)
    assert outcome.result == result
    assert 9 * HOUR <= outcome.duration <= 9 * HOUR + 600
    expected = [min(2.0**n, 600.0) for n in range(len(outcome.waits))]
    assert all(d / 2 <= wait <= d for d, wait in zip(expected, outcome.waits, strict=True))
    assert len(set(outcome.waits)) == len(outcome.waits)


@pytest.mark.promise("L1")
def test_what_fails_for_a_whole_day_is_given_up() -> None:
    outcome = outlast(Billing.call(), 48 * HOUR, 1)
    assert isinstance(outcome.error, ConnectionRefusedError)
    assert "gave up: deadline" in str(outcome)
    assert 24 * HOUR - 600 <= outcome.duration <= 24 * HOUR


@pytest.mark.promise("L1")
def test_failures_that_do_not_pass_are_given_up_at_once() -> None:
    @action(name="night.broken")
    async def broken() -> None:
        raise KeyError("user")

    assert run_flow(broken()).attempts == {1: 1}


def asks_for(seconds: float, retry: Any = None) -> FlowOutcome:
    @action(name="night.busy", retry=retry)
    async def busy() -> str:
        if current_attempt().number == 1:
            raise RetryAfter(seconds)
        return "done"

    return run_flow(busy())


NAMED = RetryPolicy(attempts=3, exception_types=["ConnectionError"], backoff_seconds=1)


@pytest.mark.promise("L1")
@pytest.mark.parametrize("retry", [None, NAMED, [NAMED, NAMED]], ids=["default", "policy", "list"])
def test_a_retry_after_of_up_to_an_hour_is_waited_out(retry: Any) -> None:
    for seconds in (300, 3600):
        outcome = asks_for(seconds, retry)
        assert (outcome.result, outcome.attempts) == ("done", {1: 2})
        assert seconds <= outcome.duration <= 1.1 * seconds
    assert asks_for(3601, retry).attempts == {1: 1}
    assert "gave up" in str(asks_for(3601, retry))


# RetryPolicy

bases = st.floats(0.1, 1e6)
longest = st.none() | st.floats(0.1, 1e7)


def decide_about(policy: Policy, n: int, draw: float) -> RetryAt:
    history = History(0.0, 1, 0, (Granted("retry_on", n, policy.backoff.base),) if n else ())
    failure = redrive.failures.Failure(category="transient", reason="a test says so")
    decision = decide(policy, history, failure, 0.0, lambda: draw)
    assert not isinstance(decision, GiveUp)
    return decision


@pytest.mark.promise("L1")
@given(base=bases, cap=longest, jitter=st.floats(0, 1), n=st.integers(0, 60), draw=st.floats(0, 1))
def test_a_wait_is_never_shorter_than_said_and_little_longer(
    base: float, cap: float | None, jitter: float, n: int, draw: float
) -> None:
    settings: dict[str, Any] = {} if cap is None else {"max_backoff_seconds": cap}
    policy = as_policy(RetryPolicy(attempts=None, backoff_seconds=base, jitter=jitter, **settings))
    wait = decide_about(policy, n, draw).because.wait
    most = max(base, HOUR) if cap is None else cap
    said = min(base * 2.0**n, most)
    assert said <= wait <= min(said * (1 + jitter) * (1 + 1e-9), most)


@pytest.mark.promise("L1")
def test_waits_of_a_retry_policy_are_spread_by_a_tenth_and_capped() -> None:
    @action(name="night.spread", retry=RetryPolicy(attempts=6, backoff_seconds=600))
    async def spread() -> None:
        raise ConnectionError

    async def story() -> FlowOutcome:
        async with flow_app(dice=ScriptedDice(0.0, 0.5, 1.0, 0.5, 0.5)) as app:
            return await app.outcome(await app.start(spread()))

    assert asyncio.run(story()).waits == pytest.approx([600, 1260, 2640, 3600, 3600])


def test_only_a_limit_that_was_set_shortens_the_first_wait() -> None:
    assert as_policy(RetryPolicy(backoff_seconds=86_400)).max_wait == 86_400
    assert as_policy(RetryPolicy(backoff_seconds=60)).max_wait == HOUR
    assert as_policy(RetryPolicy(backoff_seconds=60, max_backoff_seconds=timedelta(seconds=30))).max_wait == 30


def test_jitter_of_zero_is_none_and_the_policy_is_stored_as_it_is() -> None:
    assert as_policy(RetryPolicy(jitter=0)).jitter == Jitter("none")
    for retry in (DURABLE_DEFAULT, RetryPolicy(backoff_seconds=60), RetryPolicy(jitter=0.07, max_backoff_seconds=5)):
        policy = as_policy(retry)
        assert read_stored_policy(msgspec.Raw(bytes(write_stored_policy(policy)))) == policy


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"jitter": -0.1}, "jitter: -0.1 is not allowed; use a fraction of the wait from 0 to 1: 0.1 adds up to 10 %"),
        ({"jitter": 1.5}, "jitter: 1.5 is not allowed; use a fraction"),
        ({"jitter": True}, "jitter: True is not allowed; use a fraction"),
        ({"jitter": "10%"}, "jitter: '10%' is not allowed; use a fraction"),
        ({"jitter": float("nan")}, "jitter: nan is not allowed; use a fraction"),
        ({"jitter": None}, "jitter: None is not allowed; use a fraction"),
        ({"max_backoff_seconds": 0}, "max_backoff_seconds: 0 is not allowed; use a duration above 0"),
        ({"max_backoff_seconds": -5}, "max_backoff_seconds: -5 is not allowed; "),
        ({"max_backoff_seconds": "soon"}, "max_backoff_seconds: 'soon' is not allowed; "),
        ({"max_backoff_seconds": None}, "max_backoff_seconds: None is not allowed; "),
        ({"max_backoff_seconds": 1e12}, "max_backoff_seconds: 1000000000000.0 is not allowed; "),
    ],
)
def test_a_bad_value_is_refused_in_one_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=f"^{re.escape(says)}") as refused:
        RetryPolicy(**settings)
    assert len(str(refused.value).splitlines()) == 1


# What the documentation shows


def shown_policies() -> list[Any]:
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for match in re.finditer(r"\bRetryPolicy\((?:[^()]|\([^()]*\))*\)", page.read_text(encoding="utf-8")):
            call = ast.parse(match[0], mode="eval").body
            assert isinstance(call, ast.Call)
            if not {one.arg for one in call.keywords} <= {*RetryPolicy.__struct_fields__}:
                continue  # Temporal has a class of that name
            if any(isinstance(one, ast.Name) for one in call.args):
                continue  # what a variable holds is shown elsewhere
            given = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
            policy = RetryPolicy(*map(ast.literal_eval, call.args), **given)
            found.append(pytest.param(policy, id=f"{page.name} {match[0]}"))
    return found


@pytest.mark.promise("L1")
@pytest.mark.parametrize("retry", [DURABLE_DEFAULT, *shown_policies()])
def test_our_own_linter_has_nothing_against_what_the_documentation_shows(
    retry: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["policy", "lint", "--text", write_policy(as_policy(retry))])
    said = capsys.readouterr().out
    assert code == 0, said
    assert not re.search(r"RD\d+ (warning|error)", said), said

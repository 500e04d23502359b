"""The policy of work that names none is that of its worker, and `explain` says where a policy comes from."""

import asyncio
import re
from typing import Any

import pytest

import redrive
from redrive import Graph, Policy, RetryPolicy, Rule, Script, Workflow, action, constant, workflow
from redrive.errors import PolicyError
from redrive.explain.explanation import explain_text
from redrive.explain.parts import ItemEntry
from redrive.flows.retry_policy import as_policy
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.notation.formats.native import as_data
from redrive.policies.jitter import Jitter
from redrive.testing import flow_app
from redrive.worker.settings import WorkerSettings

OWN = RetryPolicy(attempts=2, backoff_seconds=7, jitter=0)
FLEET = Policy(attempts=4, backoff=constant(5), jitter=Jitter("none"), deadline=None, attempt_timeout=60.0)


@action(name="defaults.plain")
async def plain() -> str:
    raise ConnectionError("away")


@action(name="defaults.limited", timeout="30s")
async def limited() -> str:
    raise ConnectionError("away")


@action(name="defaults.own", retry=OWN)
async def own() -> str:
    raise ConnectionError("away")


@workflow(name="defaults.Calls")
class Calls(Workflow):
    async def run(self, which: str) -> None:
        call = {"plain": plain, "own": own, "limited": limited}[which.partition(" ")[0]]()
        if which.endswith(" overridden"):
            await self.run_action(call, retry=RetryPolicy(attempts=3, backoff_seconds=9, jitter=0))
        else:
            await call


def graph(call: Any, **settings: Any) -> Any:
    return Graph("defaults").step("ask", call, outputs=["answer"], **settings).call({})


def script(line: str) -> Any:
    return Script("defaults", f"fn main():\n    return {line}\n").call()


CASES: dict[str, tuple[Any, list[float], str]] = {
    "action": (lambda: Calls.call("plain"), [5, 5, 5], "default"),
    "job": (plain, [5, 5, 5], "default"),
    "step": (lambda: graph(plain), [5, 5, 5], "default"),
    "script": (lambda: script("@defaults.plain()"), [5, 5, 5], "default"),
    "limited action": (lambda: Calls.call("limited"), [5, 5, 5], "default"),
    "limited step": (lambda: graph(plain, timeout="30s"), [5, 5, 5], "default"),
    "own action": (lambda: Calls.call("own"), [7], "action"),
    "own job": (own, [7], "action"),
    "own step": (lambda: graph(own), [7], "action"),
    "own script": (lambda: script("@defaults.own()"), [7], "action"),
    "call": (lambda: Calls.call("own overridden"), [9, 18], "call"),
    "step's": (lambda: graph(own, retry=RetryPolicy(attempts=2, backoff_seconds=3, jitter=0)), [3], "step"),
    "brackets": (lambda: script("@defaults.own() [retry: 1, backoff: 4s]"), [4], "call"),
}


@pytest.mark.promise("L1")
@pytest.mark.parametrize("which", CASES)
def test_work_that_names_no_policy_has_that_of_its_worker(which: str) -> None:
    call, waits, source = CASES[which]

    async def story() -> None:
        async with flow_app(default_policy=FLEET) as app:
            handle = await app.start(call())
            assert (await app.outcome(handle)).waits == waits
            explanation = await app.explain(handle.id)
            (item,) = (entry for entry in explanation.timeline if isinstance(entry, ItemEntry))
            assert item.policy_from == source
            if source == "default":
                limit = 30.0 if which.startswith("limited") else 60.0
                assert item.policy == as_data(FLEET.replace(attempt_timeout=limit))
            text = explain_text(explanation)
            (line,) = (line.strip() for line in text.splitlines() if re.search(r" policy.*: (attempts|\[)", line))
            assert line.startswith("default policy: " if source == "default" else f"policy of the {source}: ")

    asyncio.run(story())


def test_the_policy_and_its_origin_are_shown_in_one_line() -> None:
    async def story(call: Any) -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(call)
                await app.settled(handle)
                return explain_text(await app.explain(handle.id))

    assert (
        "  default policy: attempts unlimited, backoff exponential 1s, jitter equal, max_wait 10m, deadline 1d\n"
        in asyncio.run(story(plain()))
    )
    brackets = "[ConnectionError -> retry: 1] [KeyError -> retry: 2]"
    assert f"  policy of the call: {brackets}\n" in asyncio.run(story(script(f"@defaults.own() {brackets}")))


def test_rules_of_any_notation_are_shown_with_what_applies_to_them() -> None:
    rule = Rule(match=(ConnectionError, KeyError), retries=2, backoff=constant(3))
    policy = Policy(attempts=9, jitter=Jitter("none"), rules=(rule,))

    async def story() -> str:
        async with flow_app(default_policy=policy) as app:
            handle = await app.start(plain())
            await app.outcome(handle)
            return explain_text(await app.explain(handle.id))

    assert (
        "  default policy: [(ConnectionError, KeyError) -> retry: 2, backoff: 3s, constant, max_backoff: 30s] "
        "[transient -> backoff: 500ms, max_backoff: 30s] [attempts: 9, deadline: 1m]\n"
    ) in asyncio.run(story())


def test_what_was_begun_keeps_the_policy_of_the_worker_that_began_it() -> None:
    """Another worker may have another default: the log has the policy."""

    async def story() -> list[float]:
        async with flow_app(default_policy=FLEET) as app:
            with app.clock.frozen():
                handle = await app.start(plain())
                await app.settled(handle)
                await app.kill()
                app.settings = WorkerSettings(default_policy=OWN)
                app.revive()
            later = await app.outcome(await app.start(Calls.call("plain")))
            assert later.waits == [7]
            return (await app.outcome(handle)).waits

    assert asyncio.run(story()) == [5, 5, 5]


BY_QUEUE = Policy(attempts=3, backoff=constant(6), jitter=Jitter("none"), deadline=None)
BY_DEFINITION = Policy(attempts=2, backoff=constant(8), jitter=Jitter("none"), deadline=None)


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("call", "queue", "waits", "source", "words"),
    [
        (lambda: plain(), "default", [5, 5, 5], "default", "default policy"),
        (lambda: plain(), "mail", [6, 6], "queue", "default policy of the queue"),
        (lambda: Calls.call("plain"), "default", [8], "definition", "default policy of the definition"),
        (lambda: Calls.call("plain"), "mail", [8], "definition", "default policy of the definition"),
        (lambda: Calls.call("own"), "mail", [7], "action", "policy of the action"),
        (lambda: graph(plain), "mail", [6, 6], "queue", "default policy of the queue"),
        (lambda: script("@defaults.plain()"), "other", [8], "definition", "default policy of the definition"),
    ],
)
def test_queues_and_definitions_may_have_defaults_of_their_own(
    call: Any, queue: str, waits: list[float], source: str, words: str
) -> None:
    async def story() -> None:
        async with flow_app(
            default_policy=FLEET,
            queue_policies={"mail": BY_QUEUE},
            definition_policies={"defaults.Calls": BY_DEFINITION, "script:defaults": BY_DEFINITION},
        ) as app:
            handle = await app.start(call(), queue=queue)
            assert (await app.outcome(handle)).waits == waits
            explanation = await app.explain(handle.id)
            (item,) = (entry for entry in explanation.timeline if isinstance(entry, ItemEntry))
            assert item.policy_from == source
            assert f"  {words}: attempts" in explain_text(explanation)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"queue_policies": OWN}, "queue_policies: RetryPolicy.* is not allowed; use a mapping"),
        ({"queue_policies": {"": OWN}}, "queue_policies: '' is not allowed"),
        ({"definition_policies": {"Billing": 5}}, "retry: 5 is not allowed"),
        ({"queue_policies": {"mail": Policy(retry_on=lambda error: True)}}, "cannot hold Python code"),
    ],
)
def test_defaults_of_queues_and_definitions_that_cannot_be_used_are_refused(
    settings: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        redrive.open("memory://", **settings)


@pytest.mark.parametrize(
    ("value", "error"),
    [(5, "retry: 5 is not allowed"), (Policy(retry_on=lambda error: True), "cannot hold Python code")],
)
def test_a_default_that_cannot_be_used_is_refused_when_the_app_is_opened(value: Any, error: str) -> None:
    with pytest.raises(PolicyError, match=error):
        redrive.open("memory://", default_policy=value)


def test_without_one_the_durable_default_is_used() -> None:
    assert redrive.open("memory://").settings.default is None
    text = "[ConnectionError -> retry: 3, backoff: 1s]"
    assert redrive.open("memory://", default_policy=text).settings.default == as_policy(text)
    assert DURABLE_DEFAULT.attempts is None

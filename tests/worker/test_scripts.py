"""Scripts at work: the waits, counts and handlers are what their text says, through crashes too."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows.scripts.driving import drive, stored
from tests.flows.scripts.programs import programs
from tests.postgres_server import shared_server

from redrive import action, current_attempt
from redrive.client.flow_inputs import FlowInput
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemStarted
from redrive.flows.registry import SCRIPT
from redrive.flows.scripts.script import Script, register_script, script_named
from redrive.stores.memory.store import MemoryStore
from redrive.testing import FlowApp, FlowOutcome, flow_app

Side = Literal["before", "after"]

PLAN: dict[str, list[BaseException | None]] = {}
"""What the next attempts of an action fail with; with None one succeeds, and so do all after the last."""


class NetworkError(Exception):
    pass


class SlowNetwork(NetworkError):
    pass


class RateLimitError(Exception):
    pass


def next_of(name: str) -> str:
    error = PLAN[name].pop(0) if PLAN.get(name) else None
    if error is not None:
        raise error
    return f"{name} done"


@action
async def risky_action() -> str:
    return next_of("risky_action")


@action
async def network_call() -> str:
    return next_of("network_call")


@action
def api_call() -> str:
    return next_of("api_call")


@action
async def slow_action() -> None:
    await asyncio.Event().wait()


@action(name="sc.tell")
async def tell(what: str) -> str:
    return what


@pytest.fixture(autouse=True)
def fresh() -> None:
    PLAN.clear()


async def run_in(app: FlowApp, text: str, **inputs: Any) -> FlowOutcome:
    """Also of texts that are not started any more, as the checker knows that they fail: older flows have them."""
    register_script(Script("order", text))
    return await app.outcome(await app._start(FlowInput(SCRIPT + "order", stored(text, inputs))))


def run(text: str, **inputs: Any) -> FlowOutcome:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            return await run_in(app, text, **inputs)

    return asyncio.run(story())


def failing(name: str, *errors: BaseException | None) -> None:
    PLAN[name] = list(errors)


# The examples of the document

RISKY = """
# Catch all exceptions, retry up to 3 times with 60s exponential backoff
result = @risky_action() [retry: 3, backoff: 60]
return result
"""
NETWORK = """
# Catch specific exception type
result = @network_call() [NetworkError -> retry: 5, backoff: 2m]
return result
"""
SEVERAL_TYPES = """
# Multiple exception types
result = @api_call() [(ValueError, KeyError) -> retry: 3, backoff: 30s]
return result
"""
SEVERAL_POLICIES = """
# Multiple policies for different exceptions
result = @api_call() [RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]
return result
"""
TIMEOUT = """
# Timeout in separate bracket
try:
    result = @slow_action() [retry: 3, backoff: 60] [timeout: 2m]
except TimeoutError as error:
    result = [error.type, error.attempts]
return result
"""


@pytest.mark.promise("R1", "R2", "R9")
def test_retry_says_how_many_retries_and_backoff_really_waits() -> None:
    failing("risky_action", *[KeyError("x"), ValueError("y"), OSError("z")])
    outcome = run(RISKY)
    assert (outcome.result, outcome.waits) == ("risky_action done", [60, 120, 240])
    failing("risky_action", *[ValueError(f"try {number}") for number in range(4)])
    outcome = run(RISKY)
    assert isinstance(outcome.error, ValueError)
    assert str(outcome.error) == "try 3"
    assert outcome.error.__notes__[-1] == "script order, line 3"
    assert (outcome.waits, outcome.attempts) == ([60, 120, 240], {1: 4})


@pytest.mark.promise("R1", "R3", "R10")
def test_a_policy_for_one_type_answers_its_subclasses_and_nothing_else() -> None:
    failing("network_call", *[SlowNetwork("late") for _ in range(5)])
    outcome = run(NETWORK)
    assert (outcome.result, outcome.waits) == ("network_call done", [120, 240, 480, 960, 1920])
    failing("network_call", ValueError("no policy is about it"))
    outcome = run(NETWORK)
    assert isinstance(outcome.error, ValueError)
    assert (outcome.waits, outcome.attempts) == ([], {1: 1})


@pytest.mark.promise("R1", "R3")
def test_several_types_share_a_bracket_and_its_counter() -> None:
    failing("api_call", *[ValueError("a"), KeyError("b"), ValueError("c"), KeyError("d")])
    outcome = run(SEVERAL_TYPES)
    assert isinstance(outcome.error, KeyError)
    assert (outcome.waits, outcome.attempts) == ([30, 60, 120], {1: 4})


@pytest.mark.promise("R1", "R3")
def test_several_brackets_count_each_for_itself() -> None:
    mixed = [RateLimitError(), NetworkError(), SlowNetwork(), RateLimitError(), NetworkError()]
    failing("api_call", *mixed)
    outcome = run(SEVERAL_POLICIES)
    assert (outcome.result, outcome.waits) == ("api_call done", [60, 30, 60, 120, 120])
    failing("api_call", *mixed, NetworkError("once too often"))
    assert isinstance(run(SEVERAL_POLICIES).error, NetworkError)


@pytest.mark.promise("R1", "R4", "R9")
def test_a_timeout_is_per_attempt_and_retried_like_any_failure() -> None:
    outcome = run(TIMEOUT)
    assert outcome.result == ["AttemptTimeoutError", 4]
    # 2 minutes, and half as long again for each attempt after the first timeout.
    assert outcome.duration == pytest.approx(120 + 3 * 180 + 60 + 120 + 240)


ROUNDS = """
fn main():
    tried = []
    for round in range(3):
        try:
            found = @network_call() [NetworkError -> retry: 1, backoff: 10s]
        except (RateLimitError, KeyError) as error:
            tried += [error.type + " after " + str(error.attempts)]
        except NetworkError as error:
            tried += [error.message + " after " + str(error.attempts)]
            sleep 1h
        else:
            tried += [found]
        finally:
            @sc.tell(what="round " + str(round))
    return tried
"""


@pytest.mark.promise("R9", "R10")
def test_what_is_left_of_a_failure_goes_to_the_handlers() -> None:
    failing("network_call", RateLimitError(), SlowNetwork("first"), SlowNetwork("second"))
    outcome = run(ROUNDS)
    assert outcome.result == ["RateLimitError after 1", "second after 2", "network_call done"]
    assert (outcome.waits, outcome.sleeps) == ([10], [3600])
    assert outcome.steps.count("sc.tell") == 3


ORDER = """
# Orders, as operations writes them.
fn main(order, lines=[]):
    receipt = @sc.charge(order=order) [NetworkError -> retry: 5, backoff: 2m] [timeout: 30s]
    total = 0
    for line in lines:
        if line["price"] <= 0:
            continue
        total = total + line["price"]
    boxes = spread lines:line -> @sc.pack(line=line) [retry: 3, backoff: 60]
    parallel:
        label = @sc.label(order=order)
        @sc.tell(what=order)
    try:
        @sc.gift(order=order)
    except (NotFound, ValueError) as error:
        note = "no gift: " + str(error)
    else:
        note = "gift"
    finally:
        sleep 5m
    return {"receipt": receipt, "boxes": boxes, "total": total, "note": note, "label": label}
"""


class Receipt(msgspec.Struct):
    order: str
    cents: int = 5


@action(name="sc.charge")
async def charge(order: str) -> Receipt:
    next_of("charge")
    return Receipt(order)


@action(name="sc.pack")
async def pack(line: dict[str, Any]) -> str:
    return f"box with {line['name']}"


@action(name="sc.label")
async def label(order: str) -> str:
    return f"label {order}"


@action(name="sc.gift")
async def gift(order: str) -> None:
    raise ValueError("none left")


LINES = [{"name": "pen", "price": 3}, {"name": "free", "price": 0}, {"name": "ink", "price": 4}]

ORDERED = {
    # A class that an action gives is plain data in a script.
    "receipt": {"order": "o-1", "cents": 5},
    "boxes": ["box with pen", "box with free", "box with ink"],
    "total": 7,
    "note": "no gift: none left",
    "label": "label o-1",
}


def test_a_whole_script() -> None:
    failing("charge", NetworkError(), NetworkError())
    outcome = run(ORDER, order="o-1", lines=LINES)
    assert outcome.result == ORDERED
    assert (outcome.waits, outcome.sleeps) == ([120, 240], [300])


@pytest.mark.promise("R1", "R2", "R3", "R4", "R9", "R10")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_all_of_it_on_databases(kind: str, tmp_path: Path) -> None:
    """Every example of the document, the handlers and a whole script."""
    address = shared_server().fresh_database() if kind == "postgres" else f"sqlite:///{tmp_path}/app.db"
    failing("risky_action", KeyError("x"), ValueError("y"), OSError("z"))
    failing("network_call", *[SlowNetwork("late")] * 5, None, RateLimitError(), *[SlowNetwork("late")] * 2)
    failing("api_call", ValueError(), KeyError(), ValueError(), KeyError(), RateLimitError(), NetworkError())
    failing("charge", NetworkError())

    async def story() -> None:
        async with flow_app(address, poll=0.02) as app:
            risky = await run_in(app, RISKY)
            assert (risky.result, risky.waits) == ("risky_action done", [60, 120, 240])
            network = await run_in(app, NETWORK)
            assert (network.result, network.waits) == ("network_call done", [120, 240, 480, 960, 1920])
            several = await run_in(app, SEVERAL_TYPES)
            assert (type(several.error), several.waits) == (KeyError, [30, 60, 120])
            policies = await run_in(app, SEVERAL_POLICIES)
            assert (policies.result, policies.waits) == ("api_call done", [60, 30])
            assert (await run_in(app, TIMEOUT)).result == ["AttemptTimeoutError", 4]
            rounds = await run_in(app, ROUNDS)
            assert rounds.result == ["RateLimitError after 1", "late after 2", "network_call done"]
            assert (await run_in(app, ORDER, order="o-1", lines=LINES)).result == ORDERED

    asyncio.run(story())


# Crashes


@action(name="sc.refuse")
async def refuse(order: str) -> None:
    raise NetworkError(f"refused {order}")


@action(name="sc.flaky")
async def flaky(times: int) -> int:
    """Fails that often, counted by heartbeats: an attempt that is lost leaves no trace."""
    before = int(current_attempt().last_details or 0)
    if before < times:
        current_attempt().heartbeat(before + 1)
        raise NetworkError(f"time {before + 1}")
    return times


HANDLED = """
fn main(order):
    try:
        @sc.refuse(order=order)
    except NetworkError as error:
        why = error.message + " after " + str(error.attempts)
    sleep 1h
    parallel:
        a = @sc.flaky(times=1) [NetworkError -> retry: 5, backoff: 30s]
        b = @sc.tell(what=why)
    return [a, b, uuid()]
"""


async def crashed(text: str, crash: tuple[int, Side] | None, **inputs: Any) -> FlowOutcome:
    async with flow_app(MemoryStore(), same_ids=True) as app:
        if crash is not None:
            app.crash_at(*crash)
        return await run_in(app, text, **inputs)


@pytest.mark.promise("R9", "A14")
def test_a_handled_failure_is_not_run_again_whenever_the_worker_dies() -> None:
    in_peace = asyncio.run(crashed(HANDLED, None, order="o-1"))
    assert in_peace.result[:2] == [1, "refused o-1 after 1"]
    died = 0
    for commit in range(1, 12):
        for side in ("before", "after"):
            outcome = asyncio.run(crashed(HANDLED, (commit, side), order="o-1"))
            assert (outcome.result[0], outcome.result[2]) == (1, in_peace.result[2]), (commit, side, outcome)
            begun = Counter(
                line.event.item for line in outcome.lines if isinstance(line.event, ItemStarted | AttemptStarted)
            )
            lost = Counter(
                line.event.item
                for line in outcome.lines
                if isinstance(line.event, AttemptFailed) and line.event.failure.kind == "lost"
            )
            died += sum(lost.values())
            assert begun[1] == 1 + lost[1], (commit, side, outcome)
            assert sum(one.step == "sc.refuse" for one in outcome.executed) <= 1 + lost[1]
    assert died > 0


@given(programs(spread="give"), st.integers(1, 8), st.sampled_from(["before", "after"]))
def test_a_script_ends_alike_with_and_without_a_crash(text: str, commit: int, side: Side) -> None:
    expected = drive(text, inputs={"n": 3}).end
    outcome = asyncio.run(crashed(text, (commit, side), n=3))
    if expected.error is None:
        assert (outcome.status, outcome.result) == ("completed", msgspec.json.decode(expected.result)), outcome
    else:
        assert outcome.status == "failed", outcome
        assert (type(outcome.error), str(outcome.error)) == (type(expected.error), str(expected.error)), outcome


# From outside


def test_a_running_flow_keeps_the_text_it_started_with() -> None:
    async def story() -> list[Any]:
        async with flow_app() as app:
            with app.clock.frozen():
                register_script(Script("kept", "sleep 1h\nreturn @sc.tell(what='old')\n"))
                old = await app.start(script_named("kept").call())
                await app.settled(old)
                register_script(Script("kept", "return @sc.tell(what='new')\n"))
                new = await app.start(script_named("kept").call())
                await app.kill()
                app.revive()
            return [(await app.outcome(one)).result for one in (old, new)]

    assert asyncio.run(story()) == ["old", "new"]


def test_cancelling_reaches_a_script_that_sleeps_and_its_finally() -> None:
    text = "try:\n    sleep 10d\nexcept:\n    @sc.tell(what='never')\nfinally:\n    @sc.tell(what='bye')\n"

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Script("sleeper", text).call({}))
                await app.settled(handle)
                await handle.cancel()
                return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert (outcome.status, outcome.steps, outcome.duration) == ("cancelled", ["sc.tell"], 0)


def test_a_flow_waits_for_an_action_that_nobody_has() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(Script("typo", "return @sc.tel_late(what='x')\n").call())
            with pytest.raises(AssertionError, match=r"not registered here: sc\.tel_late"):
                await app.outcome(handle)

            @action(name="sc.tel_late")
            async def tel_late(what: str) -> str:
                return what

            return await app.outcome(handle)

    assert asyncio.run(story()).result == "x"


def test_wrong_arguments_of_an_action_fail_at_their_line() -> None:
    for call, said in (
        ("@sc.tell(waht='x')", "action sc.tell: no argument is named 'waht'; did you mean 'what'?"),
        ("@sc.tell()", "action sc.tell: the call lacks what"),
        ("@sc.tell(what=1)", "action sc.tell: the call does not fit: Expected `str`, got `int` - at `$.what`"),
    ):
        error = run(f"x = 1\n{call}\n").error
        assert isinstance(error, TypeError)
        assert str(error) == said
        assert error.__notes__[-1] == "script order, line 2"


@action(name="sc.has_a_policy", retry="[NetworkError -> retry: 2, backoff: 7s]")
async def has_a_policy() -> str:
    return next_of("has_a_policy")


def test_brackets_of_settings_alone_keep_the_rest_of_the_actions_own_policy() -> None:
    failing("has_a_policy", NetworkError(), NetworkError())
    assert run("return @sc.has_a_policy() [timeout: 2m]\n").waits == [7, 14]
    failing("has_a_policy", NetworkError())
    assert isinstance(run("return @sc.has_a_policy() [retry: 0]\n").error, NetworkError)


def test_explain_shows_the_inputs_and_the_line_that_failed() -> None:
    async def story() -> Any:
        async with flow_app() as app:
            handle = await app.start(Script("order", "fn main(n):\n    return 1 / n\n").call({"n": 0}))
            await app.outcome(handle)
            (letter,) = await app.dead_letters()
            assert letter.payload == '{"n":0}'
            return await app.explain(handle.id)

    explanation = asyncio.run(story())
    assert "n=0" in str(explanation.input)
    assert "fn main" not in str(explanation.input)
    assert "ZeroDivisionError: division by zero (script order, line 2)" in str(explanation.timeline[-1])
    advice = [(one.text, one.command) for one in explanation.next_steps]
    assert advice[0] == (
        "it keeps the text it was started with, and would fail there again: correct the file, and start another flow",
        "redrive start order.rd --input JSON",
    )
    assert [command for _, command in advice[1:]] == [f"redrive dead discard {explanation.flow_id} --why WHY"]

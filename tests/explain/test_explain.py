"""`explain`: what happened to a flow, why, what it waits for, and what to do; from the log alone."""

import asyncio
import json
import logging
import re
import signal
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import redrive
from redrive import Permanent, RetryAfter, RetryPolicy, Snooze, Workflow, action, current_attempt, workflow
from redrive.client.app import App
from redrive.client.flow_inputs import FlowInput
from redrive.errors import AttemptTimeoutError
from redrive.explain.explain_flow import explain_flow
from redrive.explain.explanation import Explanation, explain_text
from redrive.explain.parts import ItemEntry, Note
from redrive.flows.events import Line
from redrive.formatting.times import format_duration
from redrive.runners.process_pool import ProcessDied
from redrive.stores.records import DeadQuery, FlowRecord, FlowStatus
from redrive.testing import FlowApp, ScriptedDice, flow_app

ID = "00000000-0000-7000-8000-000000000001"
JITTERED = "attempts: 3\nbackoff: exponential 10s\njitter: full\nmax_wait: 15s\ndeadline: 10m\nretry_on: any"

is_down = True
code = "old"


@pytest.fixture(autouse=True)
def down() -> None:
    global is_down, code
    is_down, code = True, "old"


@action(name="explained ask bank", retry=JITTERED)
async def ask_bank(cents: int, api_key: str = "") -> str:
    if is_down:
        raise ConnectionError(f"no answer, Authorization: Bearer {'x' * 30}")
    return "paid"


@action(name="explained greet")
async def greet(whom: str) -> str:
    return f"hello {whom}"


@action(name="explained poll")
async def poll() -> str:
    if current_attempt().last_details is None:
        current_attempt().heartbeat("asked once")
        raise Snooze("1h", "the report is not there yet")
    return "there"


@action(name="explained crash")
async def crash() -> None:
    raise ProcessDied("explained crash", -signal.SIGSEGV)  # as that of an action with `process=True`


@action(name="explained hang", timeout="5s", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def hang() -> None:
    await asyncio.sleep(3600)


@action(name="explained wait long")
async def wait_long() -> None:
    await asyncio.sleep(3600)


@action(name="explained come back", retry="[retry: 3, backoff: 2s]")
async def come_back(after: str) -> str:
    if current_attempt().number == 1:
        raise RetryAfter(after)
    return "back"


@action(name="explained refuse")
async def refuse_it(why: str) -> None:
    raise Permanent(why)


@workflow(name="Explained order")
class Order(Workflow):
    async def run(self, cents: int, password: str = "") -> str:
        await greet(whom="ann")
        paid = await ask_bank(cents=cents, api_key="sk-live-0123456789")
        await asyncio.sleep(3600)
        return paid


@workflow(name="Explained apology")
class Apology(Workflow):
    """Handles a failure by another step, then fails all the same."""

    async def run(self) -> str:
        try:
            paid = await ask_bank(cents=1)
        except ConnectionError:
            await greet(whom="sorry")
            raise
        return await greet(whom=paid)


@workflow(name="Explained changing")
class Changing(Workflow):
    async def run(self) -> None:
        await greet(whom=code)
        await asyncio.sleep(3600)


@workflow(name="Explained many")
class Many(Workflow):
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await greet(whom=str(number))
        return steps


@workflow(name="Explained careless")
class Careless(Workflow):
    async def run(self) -> None:
        raise ValueError("token=abcdef0123456789 is wrong")


@workflow(name="Explained endless")
class Endless(Workflow):
    async def run(self) -> None:
        if workflow.patched("waits"):
            await asyncio.Event().wait()


async def eventually(condition: Callable[[], Coroutine[Any, Any, object]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - the condition is in a store
            await asyncio.sleep(0.001)


async def becomes(app: FlowApp, flow_id: str, status: FlowStatus) -> None:
    async def is_so() -> bool:
        return (await app.find(flow_id)).status == status

    await eventually(is_so)


async def killed(app: FlowApp) -> None:
    """The worker is gone, and the store knows it."""

    async def nobody_left() -> bool:
        return not await app.store.list_workers()

    await app.kill()
    await eventually(nobody_left)


def told(scenario: Callable[[FlowApp], Coroutine[Any, Any, Any]], *draws: float, **settings: Any) -> Any:
    async def tell() -> Any:
        dice = ScriptedDice(*draws) if draws else None
        async with flow_app(dice=dice, **settings) as app:
            return await scenario(app)

    return asyncio.run(tell())


def failed_order(app: FlowApp) -> Coroutine[Any, Any, Explanation]:
    async def scenario() -> Explanation:
        await app.outcome(await app.start(Order.call(cents=3), key="order-17"))
        return await app.explain(ID)

    return scenario()


FAILED_TEXT = f"""\
Explained order: failed for good: explained ask bank gave up after 3 attempts (exhausted): \
ConnectionError: no answer, Authorization: ***

  flow     {ID} (workflow:Explained order), failed
  input    cents=3
  queue    default, key order-17
  created  2030-01-01 00:00:00 UTC
  began    2030-01-01 00:00:00 UTC, 0s later
  ended    2030-01-01 00:00:16 UTC, after 16.25s

Timeline (UTC, and since it began)
  2030-01-01
  00:00:00.000  +0s       1. explained greet(whom="ann") completed in 0s: "hello ann"
  00:00:00.000  +0s       2. explained ask bank(cents=3, api_key=***)
                               policy of the action: attempts 3, backoff exponential 10s, jitter full, \
max_wait 15s, deadline 10m
  00:00:00.000  +0s          attempt 1 of 3 failed after 0s: ConnectionError: no answer, Authorization: ***
                               transient: the connection failed; a retry may get through
                               retry in 5s, at 00:00:05.000: retry_on matches any failure; backoff 10s, full jitter \
drew 5s from 0s to 10s; 10m left until the deadline
  00:00:05.000  +5s          attempt 2 of 3 failed after 0s: ConnectionError: no answer, Authorization: ***
                               transient: the connection failed; a retry may get through
                               retry in 11.25s, at 00:00:16.250: retry_on matches any failure; backoff 20s, capped at \
15s, full jitter drew 11.25s from 0s to 15s; 9m55s left until the deadline
  00:00:16.250  +16.25s      attempt 3 of 3 failed after 0s: ConnectionError: no answer, Authorization: ***
                               transient: the connection failed; a retry may get through
                               gave up (exhausted): attempt 3 of 3 failed; retry_on matches any failure; 9m44s left \
until the deadline
  00:00:16.250  +16.25s   failed for good (exhausted): ConnectionError: no answer, Authorization: ***

What to do
  check the other side; if such outages are normal, allow more attempts or queue the work for later
  then redrive it: explained ask bank is tried again under the policy it began with, its limits counted anew:
      redrive dead redrive {ID} --why WHY --store sqlite:///app.db
  or discard it: the flow stays failed:
      redrive dead discard {ID} --why WHY --store sqlite:///app.db"""


@pytest.mark.promise("A13")
def test_a_dead_flow_is_told_from_the_headline_to_the_command_that_puts_it_back() -> None:
    explanation = told(failed_order, 0.5, 0.75)
    assert explain_text(explanation, options=" --store sqlite:///app.db") == FAILED_TEXT


@pytest.mark.promise("A13")
def test_print_shows_the_text_and_a_representation_nothing_of_the_data() -> None:
    explanation = told(failed_order, 0.5, 0.75)
    assert str(explanation) == f"{explanation}" == FAILED_TEXT.replace(" --store sqlite:///app.db", "")
    # The error's message, the input and the key stay out of logs.
    assert repr(explanation) == f"Explanation(flow_id='{ID}', definition='workflow:Explained order', status='failed')"


@pytest.mark.promise("A13")
def test_the_same_is_there_as_data() -> None:
    data = json.loads(json.dumps(msgspec.to_builtins(told(failed_order, 0.5, 0.75))))
    greeted, asked, ended = data["timeline"]
    assert (greeted["type"], greeted["step"], greeted["result"]) == ("item", "explained greet", '"hello ann"')
    first, second, third = asked["attempts"]
    assert second["began"] == {"at": "2030-01-01T00:00:05Z", "after": 5.0}
    assert first["decision"]["next"] == {"at": "2030-01-01T00:00:05Z", "after": 5.0}
    assert first["decision"]["because"]["raw"] == 10.0
    assert (third["outcome"], third["category"]) == ("failed", "transient")
    assert (third["decision"]["answer"], third["decision"]["kind"]) == ("give up", "exhausted")
    assert asked["policy"]["backoff"] == "exponential 10s"
    assert (ended["type"], ended["what"]) == ("note", "flow_failed")
    assert data["next_steps"][1]["command"] == f"redrive dead redrive {ID} --why WHY"


def test_a_wide_text_is_folded_but_never_its_commands() -> None:
    text = explain_text(told(failed_order, 0.5, 0.75), width=80)
    assert all(len(line) <= 80 or "redrive dead" in line for line in text.splitlines())
    assert f"      redrive dead discard {ID} --why WHY" in text.splitlines()
    first = next(line for line in text.splitlines() if "retry in 5s" in line)
    following = text.splitlines()[text.splitlines().index(first) + 1]
    assert len(following) - len(following.lstrip()) == len(first) - len(first.lstrip()) + 2


def test_the_timeline_stays_indented_however_narrow_the_terminal_is() -> None:
    for width in (20, 30, 40, 50):
        lines = explain_text(told(failed_order, 0.5, 0.75), width=width).splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("  2030"))
        assert all(line.startswith("  ") for line in lines[first : lines.index("What to do") - 1])


def test_no_secret_shows_in_text_or_data() -> None:
    async def scenario(app: FlowApp) -> list[Explanation]:
        await app.outcome(
            await app.start(Order.call(cents=3, password="hunter2-and-more"), key="token=0123456789abcdef")
        )
        await app.redrive(ID, by="ann", why="password=hunter2-and-more was wrong")
        await app.outcome(ID)
        await app.outcome(await app.start(Careless.call()))
        await app.outcome(await app.start(refuse_it(why="password=hunter2-and-more")))
        return [await app.explain(flow.id) for flow in await app.flows()]

    for explanation in told(scenario):
        shown = explain_text(explanation) + msgspec.json.encode(explanation).decode()
        for secret in ("hunter2", "0123456789", "xxxxx"):
            assert secret not in shown


def test_a_flow_that_waits_says_for_what_and_until_when() -> None:
    async def scenario(app: FlowApp) -> list[Explanation]:
        global is_down
        with app.clock.frozen():
            handle = await app.start(Order.call(cents=3))
            await app.settled(handle)
            retry = await app.explain(handle.id)
            is_down = False
            app.clock.advance(5.0)
            await becomes(app, handle.id, "waiting")
            return [retry, await app.explain(handle.id)]

    retry, timer = told(scenario, 0.5)
    assert (
        "it waits for attempt 2 of 3 of explained ask bank (item 2) at 2030-01-01 00:00:05 UTC, in 5s" in retry.headline
    )
    assert retry.waits_for[0].until is not None
    assert retry.waits_for[0].until.at == datetime(2030, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert timer.headline == "waiting for timer 1 at 2030-01-01 01:00:05 UTC, in 1h"
    assert [step.text for step in timer.next_steps] == ["nothing: it continues by itself", "to stop it"]
    text = explain_text(timer)
    assert "timer 1: 1h, until 01:00:05.000; has not fired" in text
    assert 'attempt 2 completed after 0s: "paid"' in text


def test_a_timer_that_its_code_may_have_cancelled_is_not_named_as_what_it_waits_for() -> None:
    @workflow(name="Explained timeouts")
    class Timeouts(Workflow):
        async def run(self, seconds: float) -> None:
            async with asyncio.timeout(2.5):
                await greet(whom="ann")
            await asyncio.sleep(seconds)

    @workflow(name="Explained nap")
    class Nap(Workflow):
        async def run(self) -> None:
            await asyncio.sleep(4)

    async def scenario(app: FlowApp) -> list[Explanation]:
        with app.clock.frozen():
            flows = [
                await app.start(Timeouts.call(4)),
                await app.start(Timeouts.call(3600)),
                await app.start(Nap.call()),
            ]
            for flow in flows:
                await app.settled(flow)
            return [await app.explain(flow.id) for flow in flows]

    in_memory, given_back, nap = told(scenario)
    assert in_memory.headline.endswith(": it waits for one of its timers")
    perhaps = ", unless its code has cancelled it"
    assert [wait.what for wait in in_memory.waits_for] == [f"timer 1{perhaps}", f"timer 2{perhaps}"]
    assert given_back.headline.startswith("waiting for timer 2 at ")
    assert [wait.what for wait in given_back.waits_for] == ["timer 2"]
    assert ": it waits for timer 1 at " in nap.headline


def test_a_flow_that_nobody_can_run_says_why_and_how_to_start_a_worker() -> None:
    async def scenario(app: FlowApp) -> list[str]:
        headlines = []
        with app.clock.frozen():
            await eventually(app.store.list_workers)
            elsewhere = await app.start(Changing.call(), queue="elsewhere")
            headlines.append((await app.explain(elsewhere.id)).headline)
            await killed(app)
            alone = await app.start(Changing.call())
            explanation = await app.explain(alone.id)
            headlines.append(explanation.headline)
            headlines.append(explanation.next_steps[0].command)
            headlines.append((await app.explain(elsewhere.id)).next_steps[0].command)
            unknown = msgspec.structs.replace(await app.find(alone.id), definition="workflow:Unheard of")
            app.revive()
            await eventually(app.store.list_workers)
            workers = await app.store.list_workers()
            headlines.append(explain_flow(unknown, [], None, workers, [], app.clock.wall()).headline)
        return headlines

    assert told(scenario, queues=("here",)) == [
        "stuck: no live worker that knows workflow:Explained changing takes queue elsewhere",
        "stuck: no worker is alive",
        "redrive worker MODULE",
        "redrive worker MODULE --queue elsewhere",
        "stuck: none of the 1 live worker knows workflow:Unheard of",
    ]


def test_a_queue_at_its_limit_is_named() -> None:
    async def scenario(app: FlowApp) -> str:
        await app.limit_queue("narrow", 1)
        with app.clock.frozen():
            first = await app.start(Order.call(cents=1), queue="narrow")
            await app.settled(first)
            second = await app.start(Order.call(cents=2), queue="narrow")
            return (await app.explain(second.id)).headline

    assert told(scenario) == "ready, but queue narrow is at its limit: 1 of at most 1 flows run"


def test_a_delayed_flow_waits_for_its_start() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        with app.clock.frozen():
            return await app.explain((await app.start(Order.call(cents=1), delay="2h")).id)

    explanation = told(scenario)
    assert explanation.headline == "waiting for its start at 2030-01-01 02:00:00 UTC, in 2h"
    assert "Timeline" not in explain_text(explanation)


def test_code_that_awaits_what_nobody_sets_is_found() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(Endless.call()))
        return await app.explain(ID)

    explanation = told(scenario)
    assert explanation.headline.startswith("parked: run waits for something that will never happen")
    assert [step.command for step in explanation.next_steps] == [
        f"redrive flows resume {ID} --why WHY",
        f"redrive flows cancel {ID} --why WHY",
    ]
    assert 'patched("waits"): it runs the changed code' in explain_text(explanation)


def test_pausing_resuming_and_cancelling_show_who_and_why() -> None:
    async def scenario(app: FlowApp) -> list[Explanation]:
        with app.clock.frozen():
            handle = await app.start(Changing.call())
            await app.settled(handle)
            await handle.pause(by="bob", why="an audit")
            await becomes(app, handle.id, "paused")
            paused = await app.explain(handle.id)
            await handle.resume(by="bob", why="it is over")
            await becomes(app, handle.id, "waiting")
            await handle.cancel(by="bob", why="nobody wants it")
            await becomes(app, handle.id, "cancelled")
            return [paused, await app.explain(handle.id)]

    paused, cancelled = told(scenario)
    assert paused.headline == "paused by bob (an audit); no attempt begins until it is resumed"
    assert paused.next_steps[0].command == f"redrive flows resume {ID} --why WHY"
    assert cancelled.headline == "cancelled by bob (nobody wants it)"
    assert [(note.what, note.by) for note in cancelled.timeline if isinstance(note, Note)] == [
        ("paused", "bob"),
        ("resumed", "bob"),
        ("cancel_requested", "bob"),
        ("flow_cancelled", ""),
    ]


def test_a_paused_flow_whose_attempt_goes_on_says_so_and_what_it_has_read(address: str) -> None:
    goes_on = asyncio.Event()

    @action(name="explain.lasts")
    async def lasts() -> None:
        await goes_on.wait()

    async def reads_its_mail(app: App, flow_id: str) -> Explanation:
        async with asyncio.timeout(10):
            while await app.store.count_unread(flow_id):  # noqa: ASYNC110 - in a store
                await asyncio.sleep(0.001)
        return await app.explain(flow_id)

    async def scenario() -> None:
        async with redrive.open(address) as app:
            handle = await app.start(lasts())
            async with asyncio.timeout(10):
                while not (await app.explain(handle.id)).timeline:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.001)
            await handle.pause(by="bob", why="an audit")
            paused = await reads_its_mail(app, handle.id)
            text = (
                r"paused by bob \(an audit\); no attempt begins until it is resumed; on \S+ attempt 1 of explain.lasts "
            )
            assert re.fullmatch(text + r"\(item 1\) has run for \S+", paused.headline)
            assert paused.next_steps[0].command == f"redrive flows resume {handle.id} --why WHY"
            await handle.resume(by="bob", why="it is over")
            resumed = await reads_its_mail(app, handle.id)
            assert resumed.headline.startswith("running on ")
            for explanation in (paused, resumed):
                assert [wait.what for wait in explanation.waits_for] == [
                    "the end of attempt 1 of explain.lasts (item 1)"
                ]
            goes_on.set()
            await handle.result(timeout=10)

    asyncio.run(scenario())


def test_a_parked_flow_says_what_changed_and_how_to_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(app: FlowApp) -> Explanation:
        global code
        with app.clock.frozen():
            handle = await app.start(Changing.call())
            await app.settled(handle)
            await killed(app)
        code = "new"
        app.revive()
        await app.outcome(handle)
        await handle.resume(by="bob", why="I mended it")
        await app.until(lambda: sum("parked" in record.getMessage() for record in caplog.records) == 2)
        return await app.explain(handle.id)

    with caplog.at_level(logging.WARNING, logger="redrive"):
        explanation = told(scenario)
    assert (
        caplog.records[0]
        .getMessage()
        .startswith(f"flow {ID}: workflow:Explained changing is parked: line 1 of the log says")
    )
    notes = [(note.what, note.by, note.why) for note in explanation.timeline if isinstance(note, Note)]
    assert notes == [("flow_parked", "", ""), ("resumed", "bob", "I mended it"), ("flow_parked", "", "")]
    assert explanation.headline.startswith("parked: line 1 of the log says: ")
    assert 'whom":"new"' in explanation.headline
    assert explanation.next_steps[0].command == f"redrive flows resume {ID} --why WHY"


@pytest.mark.promise("A13")
def test_a_redriven_flow_keeps_its_story_and_says_what_no_longer_counts() -> None:
    async def scenario(app: FlowApp) -> tuple[Explanation, Explanation]:
        global is_down
        await app.outcome(await app.start(Apology.call()))
        with app.clock.frozen():
            await killed(app)
            await app.redrive(ID, by="ann", why="the bank is back")
            between = await app.explain(ID)
        is_down = False
        app.revive()
        await app.outcome(ID)
        return between, await app.explain(ID)

    between, after = told(scenario, 0.5, 0.5)
    assert between.headline == "redriven by ann (the bank is back), and stuck: no worker is alive"
    assert after.headline.startswith("completed in ")
    text = explain_text(after)
    assert "redriven by ann (the bank is back): explained ask bank (item 1) is tried again" in text
    assert 'attempt 4, redriven, completed after 0s: "paid"' in text
    assert "Timeline (UTC, and since it began; by step, each with all its attempts, those after a redrive too)" in text
    assert 'explained greet(whom="sorry") completed in 0s: "hello sorry" (rewound by a redrive)' in text
    undone = [entry.arguments for entry in after.timeline if isinstance(entry, ItemEntry) and entry.rewound]
    assert undone == ['whom="sorry"']


def test_a_discarded_flow_says_who_and_why_and_asks_for_nothing() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(refuse_it(why="no such card")))
        await app.discard(ID, by="ann", why="ordered twice")
        return await app.explain(ID)

    explanation = told(scenario)
    assert explanation.headline == (
        "failed for good: explained refuse gave up after 1 attempt (permanent), and discarded by ann (ordered twice): "
        "Permanent: no such card"
    )
    assert explanation.next_steps == []


def test_a_lost_attempt_and_one_left_behind_are_told() -> None:
    async def scenario(app: FlowApp) -> tuple[Explanation, Explanation]:
        async def begun() -> object:
            return app.witness.executed

        with app.clock.frozen():
            handle = await app.start(hang())
            await eventually(begun)
            await killed(app)
            left = await app.explain(handle.id)
        app.revive()
        await app.outcome(handle)
        return left, await app.explain(handle.id)

    left, after = told(scenario)
    assert left.waits_for[0].what == "a worker to take over explained hang (item 1), whose attempt 1 was left behind"
    text = explain_text(after)
    assert "attempt 1 of 2 was lost with its worker, which was noticed 0s after it began" in text
    assert "a lost worker is not the work's failure; backoff 0s, lifted to the floor of 100ms" in text
    assert f"timed out after 5s: {AttemptTimeoutError.__name__}: the attempt took longer than its 5 s" in text


def test_an_attempt_whose_process_died_is_told_with_what_it_died_of() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        handle = await app.start(crash(), retry=RetryPolicy(attempts=1))
        await app.outcome(handle)
        return await app.explain(handle.id)

    text = explain_text(told(scenario))
    died = "ProcessDied: the process of action explained crash died with signal 11 (SIGSEGV)"
    assert f"attempt 1 of 1 was lost 0s after it began: {died}" in text
    assert "with its worker" not in text


def test_attempts_that_did_not_count_are_not_told_as_more_than_one() -> None:
    async def scenario(app: FlowApp) -> str:
        handle = await app.start(poll())
        await app.outcome(handle)
        return (await app.explain(handle.id)).headline

    assert told(scenario) == 'completed in 1h: "there"'


def test_snoozing_retry_after_and_rules_are_told() -> None:
    async def scenario(app: FlowApp) -> list[str]:
        texts = []
        for call in (poll(), come_back(after="7s"), come_back(after="0.5ms"), come_back(after="2m")):
            handle = await app.start(call)
            await app.outcome(handle)
            texts.append(explain_text(await app.explain(handle.id)))
        return texts

    snoozed, later, at_once, too_late = told(scenario)
    assert "attempt 1 returned after 0s, not counted" in snoozed
    assert "the report is not there yet; again at 01:00:00.000" in snoozed
    assert "rules[0] matches any failure; retry 1 of 3 that it grants; Retry-After asked for 7s" in later
    assert "Retry-After asked for 0s, lifted to the floor of 100ms" in at_once
    assert "gave up (retry_after): asked to wait 120 s, above the 60 s accepted" in too_late
    assert "call again after the time the other side asked for" in too_late


def test_failures_of_the_code_itself_say_so() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(Careless.call()))
        return await app.explain(ID)

    explanation = told(scenario)
    assert explanation.headline == "failed for good in its own code: ValueError: token=*** is wrong"
    assert [step.text for step in explanation.next_steps][:1] == ["fix the workflow's code"]


def test_of_a_long_flow_what_went_well_is_counted_and_shown_on_request() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(Many.call(steps=100)))
        return await app.explain(ID)

    explanation = told(scenario)
    short, whole = explain_text(explanation), explain_text(explanation, everything=True)
    assert "… 80 that succeeded; --all shows them …" in short
    assert short.count("explained greet(") == 20
    assert whole.count("explained greet(") == 100


def test_of_many_steps_those_that_were_retried_are_counted_too_and_each_that_failed_is_shown() -> None:
    @action(name="explained load", retry=RetryPolicy(attempts=2, exception_types=["ConnectionError"]))
    async def load(number: int) -> None:
        if number % 40 == 0:
            raise Permanent(f"{number} is broken")
        if number % 10 == 1 and current_attempt().number == 1:
            raise ConnectionError("flaky")

    @workflow(name="Explained load")
    class Load(Workflow):
        async def run(self) -> None:
            await asyncio.gather(*(load(number=number) for number in range(1000)), return_exceptions=True)

    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(Load.call()))
        return await app.explain(ID)

    explanation = told(scenario)
    short, whole = explain_text(explanation), explain_text(explanation, everything=True)
    lines = short.splitlines()
    assert len([line for line in lines if "is broken" in line]) == 25
    assert len([line for line in lines if "failed after" in line and "flaky" in line]) == 20
    assert len([line for line in lines if "explained load(" in line]) == 25 + 20 + 20
    gaps = [line.strip(" …") for line in lines if "; --all shows them" in line]
    left_out = [part for gap in gaps for part in gap.removesuffix("; --all shows them").split(", ")]
    assert sum(int(part.removesuffix(" that succeeded")) for part in left_out if "succeeded" in part) == 875 - 20
    again = [part.removesuffix(" that took more than one attempt") for part in left_out if "attempt" in part]
    assert sum(map(int, again)) == 80
    assert whole.count("explained load(") == 1000
    assert len(explanation.timeline) == 1000 + 1


def test_a_timer_of_a_flow_that_ended_is_not_told_as_one_still_to_come() -> None:
    @workflow(name="Explained in time")
    class InTime(Workflow):
        async def run(self) -> str:
            async with asyncio.timeout(20 * 86400):
                return await greet(whom="ann")

    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(InTime.call()))
        return await app.explain(ID)

    text = explain_text(told(scenario))
    assert "timer 1: 20d, until 2030-01-21 00:00:00.000; cancelled" in text


Stories = list[tuple[FlowRecord, list[Line]]]
STATUSES: tuple[FlowStatus, ...] = (
    "ready", "waiting", "running", "paused", "parked", "completed", "failed", "cancelled",
)  # fmt: skip


@pytest.fixture(scope="module")
def stories() -> Stories:
    """Logs with most of what can be in one."""

    async def scenario(app: FlowApp) -> Stories:
        global is_down
        is_down = True
        for handle in (
            await app.start(Apology.call()),
            await app.start(Many.call(steps=2)),
            await app.start(Changing.call()),
        ):
            await app.outcome(handle)
        for job in (poll(), hang(), come_back(after="7s"), refuse_it(why="no")):
            await app.outcome(await app.start(job))
        is_down = False
        dead = [letter.flow_id for letter in await app.dead_letters(DeadQuery())]
        await app.redrive(dead, by="ann", why="")
        for flow_id in dead:
            await app.outcome(flow_id)
        flows = await app.flows()
        return [(flow, await app.read_lines(flow.id)) for flow in flows]

    answer: Stories = told(scenario)
    return answer


@given(data=st.data())
def test_a_log_can_be_explained_at_every_point(
    data: st.DataObject, stories: list[tuple[FlowRecord, list[Line]]]
) -> None:
    """A row may be read before or after the lines that belong to it: whatever the two say, there is an answer."""
    record, lines = data.draw(st.sampled_from(stories))
    known = lines[: data.draw(st.integers(0, len(lines)))]
    wake_at = data.draw(st.none() | st.floats(record.created_at - 10, record.created_at + 10_000))
    status = data.draw(st.sampled_from(STATUSES))
    seen = msgspec.structs.replace(record, status=status, wake_at=wake_at)
    explanation = explain_flow(seen, known, None, [], [], record.created_at + data.draw(st.floats(0, 10_000)))
    json.dumps(msgspec.to_builtins(explanation))
    assert explanation.headline in explain_text(explanation)


@given(data=st.data(), most=st.integers(2, 12))
@pytest.mark.promise("V6")
def test_a_shortened_explanation_is_the_whole_one_without_its_middle(
    data: st.DataObject, most: int, stories: list[tuple[FlowRecord, list[Line]]]
) -> None:
    record, lines = data.draw(st.sampled_from(stories))
    known = lines[: data.draw(st.integers(0, len(lines)))]
    now = record.created_at + data.draw(st.floats(0, 10_000))
    whole = explain_flow(record, known, None, [], [], now, ahead=True)
    short = explain_flow(record, known, None, [], [], now, ahead=True, most=most)

    def ends(found: list[Any]) -> list[Any]:
        return found if len(found) <= most else found[: most // 2] + found[-(most - most // 2) :]

    timeline = ends(whole.timeline)
    for entry in timeline:
        if isinstance(entry, ItemEntry):
            entry.elided = max(0, len(entry.attempts) - most)
            entry.elided_held_back = max(0, len(entry.held_back) - most)
            entry.attempts, entry.held_back = ends(entry.attempts), ends(entry.held_back)
    assert short == msgspec.structs.replace(
        whole,
        timeline=timeline,
        events=ends(whole.events),
        waits_for=whole.waits_for[:most],
        elided=max(0, len(whole.timeline) - most),
        elided_events=max(0, len(whole.events) - most),
    )


@given(st.floats(0, 1e9))
def test_spans_are_short_and_close(seconds: float) -> None:
    text = format_duration(seconds)
    assert len(text) <= 9
    assert sum(character.isalpha() for character in text) <= 4


def test_a_result_that_the_code_can_no_longer_read_is_not_blamed_on_the_input() -> None:
    # In a thread: a result that was made in the loop need not be read again.
    @action(name="explained tally")
    def tally() -> str:
        # As when a process with other code carries it out.
        @action(name="explained tally")
        async def tally() -> int:
            return 7

        return "many"

    @workflow(name="Explained tally")
    class Tally(Workflow):
        async def run(self) -> None:
            await tally()

    async def scenario() -> Explanation:
        async with flow_app() as app:
            handle = await app.start(Tally.call())
            assert (await app.outcome(handle)).status == "failed"
            return await app.explain(handle.id)

    told = asyncio.run(scenario())
    assert told.headline.startswith("failed for good: a value that it has stored cannot be read: ")
    assert "action explained tally: its result cannot be read" in told.headline
    assert told.next_steps[0].text == "fix the code that reads it"


def test_an_input_that_cannot_be_read_is_named_as_what_the_flow_was_started_with() -> None:
    @workflow(name="Explained input")
    class Input(Workflow):
        async def run(self, cents: int) -> None: ...

    async def scenario() -> Explanation:
        async with flow_app() as app:
            handle = await app._start(FlowInput("workflow:Explained input", '{"cents":"many"}'))
            assert (await app.outcome(handle)).status == "failed"
            return await app.explain(handle.id)

    told = asyncio.run(scenario())
    assert told.headline.startswith("failed for good: its input cannot be read: ")
    assert told.next_steps[0].text == "fix its input, or the code that reads it"


@pytest.mark.promise("A13")
def test_what_a_workflow_did_because_of_its_failure_is_named_before_a_redrive_is_proposed() -> None:
    async def scenario(app: FlowApp) -> Explanation:
        await app.outcome(await app.start(Apology.call()))
        return await app.explain(ID)

    said = [one.text for one in told(scenario, 0.5, 0.75).next_steps]
    assert said[1] == (
        "what its code did because of the failure (explained greet) stays done, and a redrive goes on as if it had not "
        "happened: if that compensated earlier steps, start another flow instead"
    )
    assert said[2].startswith("then redrive it: explained ask bank is tried again")


@pytest.mark.parametrize(
    ("call", "until"), [(hang, "00:00:05.000"), (wait_long, "2030-01-02 00:00:00.000")], ids=["today", "tomorrow"]
)
def test_the_limit_of_a_running_attempt_has_its_date_if_that_is_another_day(call: Any, until: str) -> None:
    async def scenario(app: FlowApp) -> str:
        with app.clock.frozen():
            handle = await app.start(call())
            await eventually(lambda: app.log(handle.id))
            return explain_text(await app.explain(handle.id))

    assert f"attempt 1 is running, until {until} at the latest\n" in told(scenario)

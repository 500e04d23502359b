"""The policy of work that is under way is changed: its waits are decided anew, and the log says who and why."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import redrive
from redrive import Graph, Permanent, RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.errors import FlowFinishedError, InvalidStateError, NotationError
from redrive.explain.explanation import explain_text
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemGaveUp
from redrive.flows.policy_events import PolicyChanged
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app

HOUR = 3600.0
WORKS_FROM: list[int] = [99]
"""The attempt that succeeds."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    WORKS_FROM[0] = 99


@action(name="changed.call", retry=RetryPolicy(attempts=3, backoff_seconds=HOUR, jitter=0))
async def call(name: str = "") -> str:
    if current_attempt().number < WORKS_FROM[0]:
        raise ConnectionError("no answer")
    return f"{name} at {current_attempt().number}"


@action(name="changed.other", retry=RetryPolicy(attempts=3, backoff_seconds=HOUR, jitter=0))
async def other() -> str:
    if current_attempt().number < WORKS_FROM[0]:
        raise ConnectionError("no answer")
    return "done"


@action(name="changed.nap", retry=RetryPolicy(attempts=3, backoff_seconds=HOUR, jitter=0))
async def nap() -> str:
    if current_attempt().details is None:
        current_attempt().heartbeat(1)
        raise redrive.Snooze(HOUR, "not yet")
    raise Permanent("no")


@workflow(name="changed.Both")
class Both(Workflow):
    async def run(self) -> list[str]:
        return list(await asyncio.gather(call("a"), other()))


Story = Callable[[FlowApp], Awaitable[Any]]


def played(story: Story, address: str = "memory://") -> Any:
    async def play() -> Any:
        async with flow_app(address) as app:
            with app.clock.frozen():
                return await story(app)

    return asyncio.run(play())


async def changed(app: FlowApp, flow_id: str, times: int = 1) -> None:
    """Wait until the worker has taken the request."""

    async def taken() -> bool:
        lines = await app.read_lines(flow_id)
        return sum(isinstance(line.event, PolicyChanged) for line in lines) >= times

    for _ in range(5000):
        if await taken():
            await app.settled(flow_id)
            return
        await asyncio.to_thread(lambda: None)
    raise AssertionError("the request was not taken")


@pytest.mark.promise("E9")
def test_a_running_wait_is_decided_anew_from_its_failure(address: str) -> None:
    async def story(app: FlowApp) -> None:
        handle = await app.start(call("x"))
        await app.settled(handle)
        failed = (await app.read_lines(handle.id))[-1]
        app.clock.advance(60)
        await handle.change_policy(
            "{attempts: 10, backoff: constant 10m, jitter: none}", by="ann", why="it is down all day"
        )
        await changed(app, handle.id)
        (line,) = [one for one in await app.read_lines(handle.id) if isinstance(one.event, PolicyChanged)]
        assert isinstance(line.event, PolicyChanged)
        assert (line.event.items, line.event.by, line.event.why) == ((1,), "ann", "it is down all day")
        [row] = await app.retries()
        # From the failure, not from the change.
        assert row.scheduled_at == pytest.approx(failed.at + 600)
        assert (row.max_retries, row.backoff_base_delay_ms) == (9, 600_000)
        explanation = await app.explain(handle.id)
        text = explain_text(explanation)
        assert "policy changed by ann (it is down all day): changed.call: now attempts 10, backoff constant 10m" in text
        assert "attempt 2 of 10" in text
        assert "policy set by hand: attempts 10" in text
        WORKS_FROM[0] = 4
        app.clock.advance(HOUR)
        await app.settled(handle)
        app.clock.advance(HOUR)
        await app.settled(handle)
        app.clock.advance(HOUR)
        outcome = await app.outcome(handle)
        assert outcome.result == "x at 4"
        failures = [one.event for one in outcome.lines if isinstance(one.event, AttemptFailed)]
        assert [one.decision.because.attempts for one in failures] == [3, 10, 10]
        assert [one.decision.because.wait for one in failures[1:]] == [600, 600]

    played(story, address)


@pytest.mark.promise("E9")
def test_work_that_the_new_policy_does_not_retry_gives_up(address: str) -> None:
    async def story(app: FlowApp) -> FlowOutcome:
        handle = await app.start(call("x"))
        await app.settled(handle)
        await handle.change_policy("attempts: 1", by="ann", why="give up")
        return await app.outcome(handle)

    outcome = played(story, address)
    assert outcome.status == "failed"
    kinds = [type(line.event).__name__ for line in outcome.lines]
    assert kinds[-3:] == ["PolicyChanged", "ItemGaveUp", "FlowFailed"]
    assert isinstance(outcome.lines[-2].event, ItemGaveUp)
    assert outcome.lines[-2].event.decision.kind == "exhausted"


@pytest.mark.promise("E9")
def test_names_of_exceptions_decide_after_a_restart_too() -> None:
    async def story(app: FlowApp) -> tuple[Any, Any]:
        kept, given_up = await app.start(call("kept")), await app.start(call("given up"))
        await app.settled(kept)
        await app.settled(given_up)
        await app.kill()
        app.revive()
        await kept.change_policy("[OSError -> retry: 5, backoff: 5m]", why="by a base class")
        await given_up.change_policy("[ValueError -> retry: 5]", why="not by another class")
        await changed(app, kept.id)
        return await app.retries(), await app.outcome(given_up)

    rows, given_up = played(story)
    assert [row.max_retries for row in rows] == [5]
    assert given_up.status == "failed"


@pytest.mark.promise("E9")
def test_only_the_named_step_is_changed_and_a_redrive_keeps_the_change() -> None:
    async def story(app: FlowApp) -> None:
        handle = await app.start(Both.call())
        await app.settled(handle)
        await handle.change_policy("{attempts: 2, backoff: constant 2h}", step="changed.other", why="slower")
        await changed(app, handle.id)
        assert {row.step: row.max_retries for row in await app.retries()} == {"changed.call": 2, "changed.other": 1}
        with pytest.raises(InvalidStateError, match="no work of step 'nobody' under way"):
            await handle.change_policy("attempts: 2", step="nobody", why="?")
        with pytest.raises(NotationError, match="attemps"):
            await handle.change_policy("attemps: 2", why="?")

    played(story)


@pytest.mark.promise("E9")
def test_a_snooze_keeps_its_time_and_the_next_decision_follows_the_new_policy() -> None:
    async def story(app: FlowApp) -> tuple[float, float, FlowOutcome]:
        handle = await app.start(nap())
        await app.settled(handle)
        [before] = await app.retries()
        await handle.change_policy("{attempts: 7, backoff: constant 1s}", why="longer")
        await changed(app, handle.id)
        [after] = await app.retries()
        assert after.max_retries == 6
        app.clock.advance(2 * HOUR)
        return before.scheduled_at, after.scheduled_at, await app.outcome(handle)

    before, after, outcome = played(story)
    assert before == after
    [failed] = [line.event for line in outcome.lines if isinstance(line.event, AttemptFailed)]
    assert failed.decision.because.attempts == 7


@pytest.mark.promise("E9")
def test_what_has_ended_is_refused() -> None:
    async def story(app: FlowApp) -> None:
        WORKS_FROM[0] = 1
        handle = await app.start(call("x"))
        await app.outcome(handle)
        with pytest.raises(FlowFinishedError):
            await handle.change_policy("attempts: 2", why="late")

    played(story)


@pytest.mark.promise("E9")
def test_a_crash_at_any_commit_changes_nothing() -> None:
    runs = crash_everywhere(crashing)
    assert any(run.crashed for run in runs)


async def crashing(app: FlowApp) -> Any:
    WORKS_FROM[0] = 5
    with app.clock.frozen():
        handle = await app.start(call("x"))
        await app.settled(handle)
        await handle.change_policy("{attempts: 9, backoff: constant 2h, jitter: none}", by="ann", why="longer")
        await changed(app, handle.id)
    outcome = await app.outcome(handle)
    changes = [line.event for line in outcome.lines if isinstance(line.event, PolicyChanged)]
    waits = {round(wait) for wait in outcome.waits[1:] if wait > 1}
    return outcome.status, len(changes), waits, changes[0].by


@pytest.mark.promise("E9")
def test_steps_of_a_graph_follow_it() -> None:
    graph = Graph("changed.graph")
    graph.step("one", call)
    graph.step("two", other)

    async def story(app: FlowApp) -> FlowOutcome:
        handle = await app.start(graph.call())
        await app.settled(handle)
        await handle.change_policy("attempts: 1", step="one", why="give up")
        await changed(app, handle.id)
        return await app.outcome(handle)

    assert played(story).status == "failed"


@pytest.mark.promise("E9")
def test_attempts_count_on() -> None:
    async def story(app: FlowApp) -> FlowOutcome:
        handle = await app.start(call("x"))
        await app.settled(handle)
        await handle.change_policy("{attempts: 2, backoff: constant 1m, jitter: none}", why="fewer")
        await changed(app, handle.id)
        app.clock.advance(HOUR)
        return await app.outcome(handle)

    outcome = played(story)
    assert outcome.status == "failed"
    started = [line.event.attempt for line in outcome.lines if isinstance(line.event, AttemptStarted)]
    assert started == [2]

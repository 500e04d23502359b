"""Retry now: the waits are skipped, whoever owns the flow, and nothing else changes: attempts, circuits, pauses."""

import asyncio
import time
from typing import Any

import pytest
from tests.end_to_end import payments_outage as outage
from tests.worker.quick_app import eventually, opened

import redrive
from redrive import RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.determinism.clock import current_clock
from redrive.errors import FlowFinishedError, InvalidStateError
from redrive.explain.explanation import explain_text
from redrive.explain.parts import Note
from redrive.flows.events import AttemptStarted, ItemDeferred, ItemStarted, RetriedNow
from redrive.flows.messages import RetryNow, write_message
from redrive.policies.jitter import NO_JITTER
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app

HOUR = 3600.0
WORKS_FROM: list[int] = [2]
"""The attempt that succeeds."""
PATIENT = RetryPolicy(attempts=5, backoff_seconds=HOUR, jitter=0)


@pytest.fixture(autouse=True)
def fresh() -> None:
    WORKS_FROM[0] = 2


@action(name="now.call", retry=PATIENT)
async def call(name: str = "") -> str:
    if current_attempt().number < WORKS_FROM[0]:
        raise ConnectionError("no answer")
    return f"{name} at {current_attempt().number}"


@action(name="now.snooze", retry=PATIENT)
async def snooze(until: float) -> str:
    if current_clock().wall() < until and current_attempt().details is None:
        current_attempt().heartbeat(1)
        raise redrive.Snooze(HOUR, "not yet")
    return "awake"


@workflow(name="now.Both")
class Both(Workflow):
    async def run(self) -> list[str]:
        return list(await asyncio.gather(call("a"), call("b")))


@workflow(name="now.Nap")
class Nap(Workflow):
    async def run(self) -> str:
        await asyncio.sleep(HOUR)
        return "rested"


async def logged(app: FlowApp, flow_id: str) -> None:
    """Wait until the worker has taken the request."""
    limit = time.monotonic() + 20
    while not any(isinstance(line.event, RetriedNow) for line in await app.log(flow_id)):
        assert time.monotonic() < limit
        await asyncio.to_thread(time.sleep, 0.001)


def test_a_flow_in_backoff_begins_its_next_attempt_at_once() -> None:
    async def story() -> tuple[FlowOutcome, Any]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(call("x"))
                assert await app.settled(handle) == "waiting"
                await handle.retry_now(by="anna", why="the bank is back")
                # Within this second: the clock stands still.
                return await app.outcome(handle), await app.explain(handle.id)

    outcome, explanation = asyncio.run(story())
    assert outcome.result == "x at 2"
    [line] = [line for line in outcome.lines if isinstance(line.event, RetriedNow)]
    assert line.event == RetriedNow(by="anna", why="the bank is back")
    [note] = [one for one in explanation.timeline if isinstance(one, Note) and one.what == "retried_now"]
    assert (note.text, note.by, note.why) == ("retried now", "anna", "the bank is back")
    assert "retried now by anna (the bank is back)" in explain_text(explanation)


def test_all_items_that_wait_are_retried_and_attempts_are_counted_as_ever() -> None:
    WORKS_FROM[0] = 4

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Both.call())
                for _ in range(3):
                    assert await app.settled(handle) == "waiting"
                    rows = await app.retries()
                    assert [row.scheduled_at > app.clock.wall() for row in rows] == [True, True]
                    await handle.retry_now(why="again")
                    await app.until(lambda: app.witness.executed)
                return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == ["a at 4", "b at 4"]
    starts = [line.event for line in outcome.lines if isinstance(line.event, AttemptStarted)]
    assert sorted((one.item, one.attempt) for one in starts) == [(item, n) for item in (1, 2) for n in (2, 3, 4)]


def test_the_allowance_of_attempts_is_not_renewed() -> None:
    WORKS_FROM[0] = 99

    async def story() -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(call("x"))
                for _ in range(4):
                    assert await app.settled(handle) == "waiting"
                    await handle.retry_now(why="again")
            return (await app.outcome(handle)).status

    assert asyncio.run(story()) == "failed"


def test_a_snooze_ends_as_well() -> None:
    async def story() -> Any:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(snooze(app.clock.wall() + 2 * HOUR))
                assert await app.settled(handle) == "waiting"
                await handle.retry_now(why="awake now")
                return (await app.outcome(handle)).result

    assert asyncio.run(story()) == "awake"


@pytest.mark.parametrize("parallelism", [None, 1])
def test_under_an_open_circuit_the_items_join_as_the_circuit_allows(parallelism: int | None) -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await outage.start_in_outage(app, outage.orders(parallelism))
                await app.settled(handle)
                called = len(outage.CALLED)
                await handle.retry_now(by="anna", why="they say it is back")
                await logged(app, handle.id)
                await app.settled(handle)
                # Nothing was let through, and the log says for each item that it is held back still.
                assert len(outage.CALLED) == called
                log = await app.log(handle.id)
                asked = next(line.seq for line in log if isinstance(line.event, RetriedNow))
                again = [line.event for line in log if line.seq > asked and isinstance(line.event, ItemDeferred)]
                assert sorted(one.item for one in again) == list(range(1, outage.ITEMS + 1))
                assert "the circuit of payments is open" in explain_text(await app.explain(handle.id))
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert (outcome.status, outcome.result) == (
        "completed",
        {"paid": [order * 10 for order in range(outage.ITEMS)]},
    )
    made = [line.event for line in outcome.lines if isinstance(line.event, ItemStarted | AttemptStarted)]
    assert len(made) == len(outage.CALLED)


@pytest.mark.parametrize("what", ["a timer", "nothing yet", "paused", "ended"])
def test_where_nothing_waits_for_an_attempt_it_is_refused(what: str) -> None:
    async def story() -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                if what == "nothing yet":
                    handle: Any = await app.start(call("x"), delay=60)
                elif what == "a timer":
                    handle = await app.start(Nap.call())
                else:
                    WORKS_FROM[0] = 1 if what == "ended" else 9
                    handle = await app.start(call("x"))
                await app.settled(handle)
                if what == "paused":
                    await handle.pause(why="a test")
                    await app.settled(handle)
                before = await app.log(handle.id)
                with pytest.raises(RuntimeError) as refused:
                    await handle.retry_now(why="a test")
                assert await app.log(handle.id) == before
                return str(refused.value)

    said = asyncio.run(story())
    expected = {
        "a timer": "does not wait for a next attempt, so there is nothing to retry now",
        "nothing yet": "does not wait for a next attempt, so there is nothing to retry now",
        "paused": "is paused: resume it",
        "ended": "completed",
    }
    assert expected[what] in said


def test_a_request_that_comes_when_nothing_waits_any_more_changes_nothing() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Nap.call())
                await app.settled(handle)
                # As if the item had begun since it was looked at.
                await app.store.send(handle.id, write_message(RetryNow(why="late")), app.now())
                await app.settled(handle)
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == "rested"
    assert not [line for line in outcome.lines if isinstance(line.event, RetriedNow)]


APP: list[FlowApp] = []
# A lost attempt is made again soon: only the backoff is long.
PATIENT_UNLESS_LOST = redrive.Policy(
    attempts=9,
    backoff=redrive.constant(HOUR),
    jitter=NO_JITTER,
    max_wait=None,
    deadline=None,
    rules=(redrive.Rule(match="AttemptLostError", backoff=redrive.constant(1.0)),),
)


async def was_pressed() -> bool:
    log = await APP[0].log(current_attempt().flow_id)
    return any(isinstance(line.event, RetriedNow) for line in log)


@action(name="now.until_pressed", retry=PATIENT_UNLESS_LOST)
async def until_pressed(name: str) -> str:
    if not await was_pressed():
        raise ConnectionError("no answer")
    return name


@action(name="now.press", retry=RetryPolicy(attempts=50, exception_types=["InvalidStateError"], backoff_seconds=1))
async def press() -> None:
    """An operator, who presses the button as soon as something waits."""
    if not await was_pressed():
        await APP[0].handle(current_attempt().flow_id).retry_now(by="anna", why="now")
        raise InvalidStateError("look whether it has been done")


@workflow(name="now.Pressed")
class Pressed(Workflow):
    async def run(self) -> list[str]:
        first, second, _ = await asyncio.gather(until_pressed("a"), until_pressed("b"), press())
        return [first, second]


def test_a_worker_that_dies_at_any_moment_of_it_changes_nothing() -> None:
    async def story(app: FlowApp) -> Any:
        APP[:] = [app]
        began = app.clock.wall()
        outcome = await app.outcome(await app.start(Pressed.call()))
        assert [line for line in outcome.lines if isinstance(line.event, RetriedNow)]
        # Not after an hour; a takeover takes its time.
        assert outcome.lines[-1].at - began < HOUR
        return outcome.status, outcome.result

    runs = crash_everywhere(story)
    assert len(runs) > 8


def test_on_every_store_whoever_asks(address: str) -> None:
    async def story() -> None:
        async with opened(address) as app, redrive.open(address, worker=False) as other:
            began = time.monotonic()
            handle = await app.start(call("x"))

            async def waits() -> bool:
                return bool([row for row in await app.retries() if row.status == "waiting"])

            await eventually(waits)
            # A flow that waits for long has left the worker's memory.
            asking = app if address.startswith("memory") else other
            await asking.handle(handle.id).retry_now(by="anna", why="now")
            assert await handle.result(timeout=20) == "x at 2"
            assert time.monotonic() - began < 60
            assert not await app.retries()
            with pytest.raises(FlowFinishedError):
                await handle.retry_now(why="again")

    asyncio.run(story())


def test_without_an_event_loop_it_is_the_same(tmp_path: Any) -> None:
    with redrive.open_sync(f"sqlite:///{tmp_path}/app.db") as app:
        handle = app.start(call("x"))
        limit = time.monotonic() + 20
        while not any(row.status == "waiting" for row in app.retries()):
            assert time.monotonic() < limit
        handle.retry_now(by="anna", why="now")
        assert handle.result(timeout=20) == "x at 2"

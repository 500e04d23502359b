"""What the log says of flows that fail, are redriven, and are parked."""

import asyncio
import gc
import logging
import re
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.flows.events import AttemptFailed
from redrive.flows.graphs.graph import Graph
from redrive.stores.records import FlowRecord
from redrive.telemetry import events
from redrive.telemetry.events import Event
from redrive.testing import flow_app, run_flow
from redrive.testing.crash_points import Side
from redrive.worker.flow.flow_telemetry import report_flow_parked


@action(name="telling.refuse", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def refuse() -> None:
    raise ConnectionError("no answer")


@workflow(name="telling.Order")
class Order(Workflow):
    async def run(self) -> None:
        await refuse()


def test_after_a_redrive_attempts_and_what_is_allowed_of_them_count_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with flow_app() as app:
            handle = await app.start(Order.call())
            await app.outcome(handle)
            await app.redrive(handle.id, by="ann", why="the bank is back")
            await app.until(lambda: len(app.witness.executed) == 4)
            await app.outcome(handle)

    with caplog.at_level(logging.INFO, logger="redrive"):
        asyncio.run(story())
    told = [one.getMessage().partition(" failed")[0] for one in caplog.records if "attempt" in one.getMessage()]
    where = "flow 00000000-0000-7000-8000-000000000001 step telling.refuse attempt"
    assert told[:4] == [f"{where} {n}:" for n in ("1/2", "2/2", "3/4", "4/4")]


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_failed_attempt_is_told_of_as_the_log_has_it_and_once(side: Side) -> None:
    """Whoever dies before it was durable has not told of it: the next owner finds that the attempt was lost."""
    told: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, events.AttemptFailed):
            told.append(event.failure.type)

    async def story() -> list[str]:
        async with flow_app() as app:
            app.crash_at(2, side)
            outcome = await app.outcome(await app.start(Order.call()))
            return [line.event.failure.type for line in outcome.lines if isinstance(line.event, AttemptFailed)]

    stop = redrive.listen(hear)
    try:
        logged = asyncio.run(story())
    finally:
        stop()
    # The attempt that was lost with its worker does not count.
    assert len(logged) == (3 if side == "before" else 2)
    # Who dies right after that has no time left to tell of it.
    assert told == (logged if side == "before" else logged[1:])


def test_an_item_that_is_given_up_while_it_waits_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Its deadline may pass while nobody works, or while what it talks to is away."""

    @action(name="telling.late", retry=redrive.Policy(attempts=3, backoff=redrive.constant(5), deadline=60))
    async def late() -> None:
        raise ConnectionError("no answer")

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(late())
                await app.until(lambda: app.witness.executed)
                await app.settled(handle)
                await app.kill()
                app.clock.advance(61)
                app.revive()
            await app.outcome(handle)

    with caplog.at_level(logging.INFO, logger="redrive"):
        asyncio.run(story())
    told = [one.getMessage() for one in caplog.records if " step telling.late attempt " in one.getMessage()]
    assert [line.partition("; ")[2].partition(" in ")[0] for line in told] == [
        "next attempt",
        "giving up (deadline): the 60 s for all attempts were over when the next one could begin",
    ]


def test_a_failed_attempt_of_a_step_is_told_of_with_what_the_step_talks_to(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="redrive"):
        run_flow(Graph("telling-graph").step("refuse", refuse, dependency="bank").call({}))
    told = [one for one in caplog.records if " step refuse attempt " in one.getMessage()]
    assert [getattr(one, "dependency", None) for one in told] == ["bank", "bank"]


def test_a_parked_flow_is_a_warning_with_its_problem_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    fields: dict[str, Any] = dict.fromkeys(FlowRecord.__struct_fields__)
    record = FlowRecord(**fields | {"id": "f1", "definition": "workflow:Order"})
    with caplog.at_level(logging.WARNING, logger="redrive"):
        report_flow_parked(record, "line 3 of the log says: pay(password=hunter2); the code now says: nothing")
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert told.getMessage().startswith("flow f1: workflow:Order is parked: line 3 of the log says: pay(password=***")
    assert told.getMessage().endswith("; then: redrive flows resume f1 --why WHY")


@workflow(name="TellingForgotten")
class Forgotten(Workflow):
    """Lets go of a task that failed, and makes so many others that the loop lets go of it too."""

    async def run(self, secret: str) -> None:
        asyncio.ensure_future(self.fail(secret))  # noqa: RUF006 - that is the point
        for _ in range(1000):
            await asyncio.ensure_future(asyncio.sleep(0))

    async def fail(self, secret: str) -> None:
        raise ValueError(f"no way to postgresql://ann:{secret}@host/app")


@pytest.mark.promise("P11")
def test_a_task_that_nobody_waits_for_is_told_with_its_flow_and_without_its_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran = run_flow(Forgotten.call("hunter2"))
    gc.collect()
    assert ran.status == "completed"
    assert re.search("flow [0-9a-f-]{36}: FlowTask exception was never retrieved\nTraceback", caplog.text)
    assert "ValueError: no way to postgresql://***@host/app" in caplog.text
    assert "hunter2" not in caplog.text

"""What the log says of flows that fail, are redriven, and are parked."""

import asyncio
import logging
from typing import Any

import pytest

from redrive import RetryPolicy, Workflow, action, workflow
from redrive.engine.telling import tell_flow_parked
from redrive.stores.records import FlowRecord
from redrive.testing import flow_app


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
            handle = await app.start(Order)
            await app.outcome(handle)
            await app.redrive(handle.id, by="ann", why="the bank is back")
            await app.until(lambda: len(app.witness.executed) == 4)
            await app.outcome(handle)

    with caplog.at_level(logging.INFO, logger="redrive"):
        asyncio.run(story())
    told = [one.getMessage().partition(" failed")[0] for one in caplog.records if "attempt" in one.getMessage()]
    assert told[:4] == [f"telling.refuse: attempt {n}" for n in ("1/2", "2/2", "3/4", "4/4")]


def test_a_parked_flow_is_a_warning_with_its_problem_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    fields: dict[str, Any] = dict.fromkeys(FlowRecord.__struct_fields__)
    record = FlowRecord(**fields | {"id": "f1", "definition": "workflow:Order"})
    with caplog.at_level(logging.WARNING, logger="redrive"):
        tell_flow_parked(record, "line 3 of the log says: pay(password=hunter2); the code now says: nothing")
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert told.getMessage().startswith("workflow:Order f1: parked: line 3 of the log says: pay(password=***")
    assert told.getMessage().endswith("; then: redrive flows resume f1 --why WHY")

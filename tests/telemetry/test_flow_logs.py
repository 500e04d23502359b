"""Log lines about durable work name the flow, the step and the attempt in their text."""

import asyncio
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.assembly import open as open_app
from redrive.integrations.logging import FlowContext
from redrive.testing import flow_app

mine = logging.getLogger("shop")


@action(name="logged.charge", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def charge() -> None:
    mine.warning("asking the bank, %s%% sure", 90)
    raise ConnectionError("no answer")


@action(name="logged.pack")
def pack() -> None:
    mine.warning("packing")


@action(name="logged.weigh", process=True)
def weigh() -> str:
    handler = logging.Handler()
    handler.addFilter(FlowContext())
    record = logging.LogRecord("shop", logging.WARNING, __file__, 1, "weighing", None, None)
    handler.filter(record)
    return record.getMessage()


@workflow(name="logged.Order")
class Order(Workflow):
    async def run(self) -> None:
        mine.warning("a new order")
        await pack()
        await charge()


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """What is logged, through two handlers, as many programs have."""
    seen: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            self.format(record)
            seen.append(record)

    handlers = [Keep(), logging.NullHandler()]
    for handler in handlers:
        handler.addFilter(FlowContext())
        logging.getLogger().addHandler(handler)
    before = logging.getLogger("redrive").level
    logging.getLogger("redrive").setLevel(logging.INFO)
    yield seen
    logging.getLogger("redrive").setLevel(before)
    for handler in handlers:
        logging.getLogger().removeHandler(handler)


@pytest.mark.promise("L7")
def test_lines_of_the_engine_and_of_the_users_own_code_name_flow_step_and_attempt(
    lines: list[logging.LogRecord],
) -> None:
    async def story() -> str:
        async with flow_app() as app:
            handle = await app.start(Order.call())
            await app.outcome(handle)
            return handle.id

    flow = asyncio.run(story())
    told = [re.sub(r"next attempt in [0-9.]+ s", "next attempt soon", one.getMessage()) for one in lines]
    charged = f"flow {flow} step logged.charge"
    failed = "failed (transient): ConnectionError: no answer;"
    assert told == [
        f"flow {flow}: a new order",
        f"flow {flow} step logged.pack attempt 1: packing",
        f"{charged} attempt 1: asking the bank, 90% sure",
        f"{charged} attempt 1/2: {failed} next attempt soon",
        f"{charged} attempt 2: asking the bank, 90% sure",
        f"{charged} attempt 2/2: {failed} giving up (exhausted): attempt 2 of 2 failed",
        f"{charged}: workflow:logged.Order failed for good (exhausted): ConnectionError: no answer; "
        f"see redrive explain {flow}",
    ]
    assert {_field(one, "flow_id") for one in lines} == {flow}
    assert [_field(one, "step") for one in lines] == [None, "logged.pack", *["logged.charge"] * 5]
    assert [_field(one, "attempt") for one in lines] == [None, 1, 1, 1, 2, 2, None]


def test_lines_of_an_action_in_a_process_of_its_own_name_them_too() -> None:
    async def story() -> tuple[str, str]:
        async with open_app("memory://") as app:
            handle = await app.start(weigh())
            return handle.id, await handle.result(timeout=60)

    flow, told = asyncio.run(story())
    assert told == f"flow {flow} step logged.weigh attempt 1: weighing"


def test_for_structured_loggers_only_the_fields_are_added() -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "no flow here", None, None)
    assert FlowContext(in_text=False).filter(record)
    assert (record.getMessage(), hasattr(record, "flow_id")) == ("no flow here", False)


@pytest.mark.promise("L7")
def test_the_line_of_a_dead_letter_says_that_a_compensation_failed(caplog: pytest.LogCaptureFixture) -> None:
    """What the step did is still there: someone has to look."""

    @action(name="logged.reserve")
    async def reserve() -> None: ...

    @action(name="logged.unreserve", retry=RetryPolicy(attempts=1))
    async def unreserve() -> None:
        raise ValueError("no such reservation")

    @action(name="logged.pay", retry=RetryPolicy(attempts=1))
    async def pay() -> None:
        raise ValueError("no money")

    graph: dict[str, Any] = {
        "graph": "logged.shop",
        "steps": {
            "reserve": {"action": "logged.reserve", "compensate": "unreserve"},
            "unreserve": {"action": "logged.unreserve"},
            "pay": {"action": "logged.pay", "depends_on": ["reserve"]},
        },
    }

    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(redrive.read_graph(graph).call({})))

    asyncio.run(story())
    [told] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "graph:logged.shop failed for good (compensated): " in told.getMessage()
    assert "; the compensation of reserve failed; see redrive explain " in told.getMessage()
    assert _field(told, "uncompensated") == ["reserve"]


def _field(record: logging.LogRecord, name: str) -> Any:
    return getattr(record, name, None)

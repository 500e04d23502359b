"""Queries read what a workflow knows, from its log, and never change a flow."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.signals.approvals import ship

import redrive
from redrive import Workflow, workflow
from redrive.errors import (
    DeserializationError,
    InvalidStateError,
    UnknownDefinitionError,
    UnknownHandlerError,
    WorkflowCodeError,
)
from redrive.flows.workflows.workflow import WORKFLOWS
from redrive.testing import flow_app

pytestmark = pytest.mark.promise("E2")


@dataclass
class Status:
    shipped: list[str]
    waiting: bool


@workflow(name="queries.Shop")
class Shop(Workflow):
    def __init__(self) -> None:
        self.shipped: list[str] = []
        self.deep: dict[str, list[Any]] = {"a": [{"b": 1}]}
        self.waiting = False

    async def run(self, *orders: str) -> str:
        for order in orders:
            self.shipped.append(await ship(order, "x"))
        self.waiting = True
        await workflow.wait_for(lambda: not self.waiting)
        return "closed"

    @redrive.signal
    def close(self) -> None:
        self.waiting = False

    @redrive.query
    def status(self) -> Status:
        return Status(list(self.shipped), self.waiting)

    @redrive.query(name="nth")
    def order(self, n: int = 0) -> str:
        return self.shipped[n]

    @redrive.query
    def writes(self) -> int:
        self.shipped.append("a lie")
        return len(self.shipped)

    @redrive.query
    def writes_deep(self) -> None:
        self.deep["a"][0]["b"] = 2

    @redrive.query
    def forgets(self) -> None:
        del self.waiting

    @redrive.query
    def starts(self) -> None:
        asyncio.get_running_loop().create_task(ship_one())

    @redrive.query
    def sleeps(self) -> None:
        asyncio.get_running_loop().call_later(5, print)

    @redrive.query
    def raises(self) -> None:
        raise KeyError("not there")


async def ship_one() -> None:
    await ship("a", "b")


def test_a_query_is_answered_for_flows_that_wait_that_ended_and_that_nobody_has(address: str) -> None:
    async def story() -> list[Any]:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Shop.call("o-1", "o-2"))
                assert await app.settled(handle) == "waiting"
                waiting = await handle.query("status")
                await app.kill()
                dead = [await handle.query(Shop.status), await handle.query("nth", 1), await handle.query("nth", n=0)]
                app.revive()
                await handle.signal("close")
                await app.outcome(handle)
                return [waiting, *dead, await handle.query("status")]

    shipped = ["o-1 shipped for x", "o-2 shipped for x"]
    open_, closed = Status(shipped, True), Status(shipped, False)
    assert asyncio.run(story()) == [open_, open_, shipped[1], shipped[0], closed]


@pytest.mark.parametrize("force", [True, False])
def test_a_cancelled_flow_answers_as_of_its_end(force: bool) -> None:
    async def story() -> Status:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Shop.call("o-1"))
                await app.settled(handle)
                await handle.cancel(force=force)
                await app.outcome(handle)
                answer: Status = await handle.query("status")
                return answer

    assert asyncio.run(story()) == Status(["o-1 shipped for x"], True)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("writes", "the query 'writes' changes what the workflow knows; it may only read"),
        ("writes_deep", "the query 'writes_deep' changes what the workflow knows"),
        ("forgets", "the query 'forgets' changes what the workflow knows"),
        ("starts", "the query 'starts' starts something; it may only read"),
        ("sleeps", "the query 'sleeps' starts something"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_query_that_changes_something_is_an_error_and_the_flow_stays_as_it_was(query: str, says: str) -> None:
    async def story() -> Any:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Shop.call("o-1"))
                await app.settled(handle)
                before = await app.log(handle.id)
                with pytest.raises(WorkflowCodeError, match=says):
                    await handle.query(query)
                assert await app.log(handle.id) == before
                assert await handle.query("status") == Status(["o-1 shipped for x"], True)
                await handle.signal("close")
                return (await app.outcome(handle)).result

    assert asyncio.run(story()) == "closed"


async def asks_an_unknown_query(app: Any, shop: Any) -> None:
    await shop.query("statu")


async def asks_with_wrong_arguments(app: Any, shop: Any) -> None:
    await shop.query("nth", m=1)


async def asks_a_method_that_is_none(app: Any, shop: Any) -> None:
    await shop.query(Shop.close)


async def asks_a_job(app: Any, shop: Any) -> None:
    await (await app.start(ship("a", "b"))).query("status")


async def asks_before_it_begins(app: Any, shop: Any) -> None:
    await (await app.start(Shop.call(), delay="1h")).query("status")


async def asks_without_the_code(app: Any, shop: Any) -> None:
    WORKFLOWS.by_name.pop("queries.Shop")
    try:
        await shop.query("status")
    finally:
        WORKFLOWS.by_name["queries.Shop"] = Shop


async def asks_what_raises(app: Any, shop: Any) -> None:
    await shop.query("raises")


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (asks_an_unknown_query, UnknownHandlerError, "has no query 'statu'; did you mean 'status'"),
        (asks_with_wrong_arguments, TypeError, "query nth: no argument is named 'm'"),
        (asks_a_method_that_is_none, TypeError, "marked with @redrive.query"),
        (asks_a_job, UnknownHandlerError, "only workflows have them"),
        (asks_before_it_begins, InvalidStateError, "has not begun yet"),
        (asks_without_the_code, UnknownDefinitionError, "import the module that defines it"),
        (asks_what_raises, KeyError, "not there"),
    ],
)
def test_what_cannot_be_answered_says_so_in_one_line(ask: Callable[..., Any], error: type, says: str) -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                shop = await app.start(Shop.call("o-1"))
                await app.settled(shop)
                with pytest.raises(error, match=says):
                    await ask(app, shop)

    asyncio.run(story())


def test_a_query_that_is_async_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="@query needs a plain method"):

        @redrive.query
        async def status(self: Any) -> None: ...


def test_stored_arguments_of_another_type_are_refused() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                shop = await app.start(Shop.call("o-1"))
                await app.settled(shop)
                from redrive.client.queries import answer

                with pytest.raises(DeserializationError, match="query nth"):
                    await answer(app._flows, shop.id, "nth", '{"n": "x"}')

    asyncio.run(story())

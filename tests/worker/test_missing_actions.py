"""Scripts and graphs whose actions this worker does not know: they wait unharmed for one that does."""

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import redrive
from redrive import Graph, action
from redrive.flows.action import ACTIONS
from redrive.flows.events import AttemptStarted, CancelRequested, FlowCancelled, ItemStarted, Paused
from redrive.flows.scripts.script import Script, register_script
from redrive.testing import FlowApp, flow_app
from redrive.worker.unsupported_flows import CLAIMED_AGAIN_AFTER

ORDER = """
fn main(order):
    @ma.charge(order=order)
    sleep 1h
    try:
        return @ma.ship(order=order)
    except:
        return "refunded"
"""
done: list[str] = []


@action(name="ma.charge")
async def charge(order: str) -> None:
    done.append(f"charge {order}")


@action(name="ma.ship")
async def ship(order: str) -> str:
    done.append(f"ship {order}")
    return f"{order} shipped"


@pytest.fixture(autouse=True)
def fresh() -> None:
    done.clear()


@contextmanager
def unknown(*names: str) -> Iterator[None]:
    """As in a process that has not loaded the module of these actions."""
    taken = {name: ACTIONS.by_name.pop(name) for name in names}
    try:
        yield
    finally:
        ACTIONS.by_name.update(taken)


async def given_back(app: FlowApp, *flows: str, times: int = 2) -> None:
    """Wait until the worker has given them back so often, each time for a while."""
    began = app.clock.now
    before = {flow: (await app.find(flow)).claims for flow in flows}
    async with asyncio.timeout(10):
        for flow in flows:
            while (await app.find(flow)).claims < before[flow] + times + 1:  # noqa: ASYNC110 - it is in a store
                await asyncio.sleep(0.002)
    assert app.clock.now - began >= (times - 1) * CLAIMED_AGAIN_AFTER


async def starts(app: FlowApp, **settings: Any) -> str:
    return (await app.start(Script("order", ORDER).call({"order": "o-1"}), **settings)).id


async def left_half_done(app: FlowApp) -> str:
    """A flow that has paid and waits, and whose worker is gone."""
    with app.clock.frozen():
        flow = await starts(app)
        await app.until(lambda: done)
        await app.settled(flow)
        await app.kill()
    return flow


def test_flows_wait_for_a_worker_that_knows_all_their_actions(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with flow_app(address, poll=0.05) as app:
            with unknown("ma.ship"), caplog.at_level(logging.WARNING, "redrive"):
                flows = [await starts(app), await starts(app, key="o-1")]
                await given_back(app, *flows)
                assert done == []
                assert [await app.log(flow) for flow in flows] == [[], []]
            warned = [record.getMessage() for record in caplog.records if record.name == "redrive"]
            assert warned == [
                "script:order needs action 'ma.ship', which this worker does not know: its flows are left to other "
                "workers; start this worker with the module that registers it, too"
            ]
            outcomes = [await app.outcome(flow) for flow in flows]
            assert [outcome.result for outcome in outcomes] == ["o-1 shipped"] * 2
            assert all(outcome.attempts == {1: 1, 2: 1} for outcome in outcomes)

    asyncio.run(story())


def test_a_flow_under_way_is_handed_on_and_goes_on_elsewhere(address: str) -> None:
    async def story() -> None:
        async with flow_app(address, poll=0.05) as app:
            flow = await left_half_done(app)
            with unknown("ma.ship"):
                app.revive()
                await given_back(app, flow)
                begun = [line.event for line in await app.log(flow) if isinstance(line.event, ItemStarted)]
                assert [one.step for one in begun] == ["ma.charge"]
                lines = len(await app.log(flow))
                await given_back(app, flow)
                assert len(await app.log(flow)) == lines
            outcome = await app.outcome(flow)
            assert (outcome.result, outcome.attempts) == ("o-1 shipped", {1: 1, 2: 1})
            assert done == ["charge o-1", "ship o-1"]

    asyncio.run(story())


def test_a_graph_waits_for_its_actions_and_for_those_that_undo(address: str) -> None:
    async def story() -> None:
        graph = Graph("ma.graph").step("charge", "ma.charge", inputs={"order": "string"}, compensate="give_back")
        graph.step("give_back", "ma.ship", inputs={"order": "string"})
        async with flow_app(address, poll=0.05) as app:
            with unknown("ma.ship"):
                flow = await app.start(graph.call({"order": "o-2"}))
                await given_back(app, flow.id)
                assert (await app.log(flow.id), done) == ([], [])
            assert (await app.outcome(flow)).status == "completed"

    asyncio.run(story())


def test_what_is_said_meanwhile_waits_with_the_flow(address: str) -> None:
    async def story() -> None:
        async with flow_app(address, poll=0.05) as app:
            with unknown("ma.ship"):
                flow = await starts(app)
                await app.handle(flow).pause(by="ops", why="look")
                await given_back(app, flow, times=3)
                assert await app.log(flow) == []
            assert (await app.outcome(flow)).status == "paused"
            assert [type(line.event) for line in await app.log(flow)] == [Paused]
            assert done == []

    asyncio.run(story())


@pytest.mark.parametrize("force", [False, True])
def test_one_that_has_not_begun_can_be_cancelled(address: str, force: bool) -> None:
    async def story() -> None:
        async with flow_app(address, poll=0.05) as app:
            with unknown("ma.ship"):
                flow = await starts(app)
                await app.handle(flow).cancel(by="ops", why="twice", force=force)
                with pytest.raises(redrive.FlowCancelledError):
                    await app.handle(flow).result(timeout=10)
                assert [type(line.event) for line in await app.log(flow)] == [CancelRequested, FlowCancelled]

    asyncio.run(story())


def test_one_that_has_begun_ends_by_force_alone(address: str) -> None:
    async def story() -> None:
        async with flow_app(address, poll=0.05) as app:
            flow = await left_half_done(app)
            with unknown("ma.ship"):
                app.revive()
                await app.handle(flow).cancel(by="ops", why="twice")
                await given_back(app, flow)
                await app.handle(flow).cancel(by="ops", why="now", force=True)
                with pytest.raises(redrive.FlowCancelledError):
                    await app.handle(flow).result(timeout=10)
                assert not any(isinstance(line.event, AttemptStarted) for line in await app.read_lines(flow))

    asyncio.run(story())


def test_explain_says_which_action_is_missing(address: str) -> None:
    async def story() -> None:
        register_script(Script("order", ORDER))
        with unknown("ma.ship"):
            async with flow_app(address, poll=0.05) as app:
                flow = await starts(app)
                await given_back(app, flow)
                with app.clock.frozen():
                    await app.settled(flow)
                    async with asyncio.timeout(10):
                        # It may have been claimed once more just before time stood still.
                        while not (told := await app.explain(flow)).headline.startswith("stuck"):  # noqa: ASYNC110 - as below
                            await asyncio.sleep(0.002)
                    await app.handle(flow).pause(by="ops", why="look")
                    async with asyncio.timeout(10):
                        while (await app.find(flow)).status != "running":  # noqa: ASYNC110 - it is in a store
                            await asyncio.sleep(0.002)
                    assert (await app.explain(flow)).headline == told.headline
                assert told.headline == (
                    "stuck: it waits for a worker that knows action 'ma.ship': no live worker does"
                )
                assert [(one.text, one.command) for one in told.next_steps] == [
                    (
                        "start a worker with the script, and with the modules that register its actions",
                        "redrive worker order.rd MODULE",
                    ),
                    (
                        "or end it without its code, without compensation",
                        f"redrive flows cancel {flow} --force --why WHY",
                    ),
                ]

    asyncio.run(story())


def test_explain_says_so_of_a_flow_whose_time_is_still_to_come_too() -> None:
    async def story() -> None:
        register_script(Script("order", ORDER))
        async with flow_app(poll=0.05) as app:
            flow = await left_half_done(app)
            with unknown("ma.ship"), app.clock.frozen():
                app.revive()
                await app.until(lambda: app._worker is not None and app._worker.lease is not None)
                later = await starts(app, delay="1h")
                for one, what in ((later, "its start"), (flow, "timer 1")):
                    told = await app.explain(one)
                    assert re.fullmatch(
                        f"waiting for {what} at .*, in 1h; and then it waits for a worker that knows action 'ma.ship': "
                        "no live worker does",
                        told.headline,
                    )
                    assert told.next_steps[0].command == "redrive worker order.rd MODULE"

    asyncio.run(story())

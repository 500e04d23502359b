"""Recorded flows are replayed against other code, and the report says which of them it would break."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import Graph, Permanent, RetryPolicy, Workflow, action, workflow
from redrive.client.recorded_flows import RecordedFlow, export_flow, read_recorded, recent_flows, write_recorded
from redrive.flows.history import fold
from redrive.flows.workflows.workflow import WORKFLOWS
from redrive.testing import FlowApp, assert_replays, flow_app
from redrive.worker.recovery.check_replay import BrokenReplay, check_replay

DAY = 86_400
Change = Callable[[], type[Workflow]]


@action(name="replayed.charge", retry=RetryPolicy(attempts=2))
async def charge(cents: int) -> str:
    if cents < 0:
        raise ConnectionError("no answer")
    return f"paid {cents}"


@action(name="replayed.ship")
async def ship(what: str) -> str:
    raise Permanent(f"there is no {what}")


def original() -> type[Workflow]:
    @workflow(name="replayed.Order")
    class Order(Workflow):
        async def run(self, cents: int, days: int = 1) -> str:
            paid = await charge(cents)
            await asyncio.sleep(days * DAY)
            return paid

    return Order


def with_another_amount() -> type[Workflow]:
    @workflow(name="replayed.Order")
    class Order(Workflow):
        async def run(self, cents: int, days: int = 1) -> str:
            paid = await charge(cents + 1)
            await asyncio.sleep(days * DAY)
            return paid

    return Order


def patched() -> type[Workflow]:
    @workflow(name="replayed.Order")
    class Order(Workflow):
        async def run(self, cents: int, days: int = 1) -> str:
            paid = await charge(cents + 1 if workflow.patched("one more") else cents)
            await asyncio.sleep(days * DAY)
            return paid

    return Order


def with_another_parameter() -> type[Workflow]:
    @workflow(name="replayed.Order")
    class Order(Workflow):
        async def run(self, euros: float) -> str:
            return await charge(int(euros * 100))

    return Order


def without_the_sleep() -> type[Workflow]:
    @workflow(name="replayed.Order")
    class Order(Workflow):
        async def run(self, cents: int, days: int = 1) -> str:
            return await charge(cents)

    return Order


def gone() -> None:
    WORKFLOWS.by_name.pop("replayed.Order")


Play = Callable[[FlowApp], Any]


def recorded(play: Play, address: str = "memory://") -> RecordedFlow:
    """Play a story with the original code, and record its flow as a file would have it."""

    async def story() -> bytes:
        async with flow_app(address) as app:
            with app.clock.frozen():
                flow_id = await play(app)
            return write_recorded(await export_flow(app.store, await app.find(flow_id)))

    written = asyncio.run(story())
    assert b"delivery" not in written
    return json_flow(written)


def json_flow(line: bytes) -> RecordedFlow:
    import msgspec

    return msgspec.json.decode(line, type=RecordedFlow)


async def waits(app: FlowApp) -> str:
    handle = await app.start(original().call(100))
    await app.settled(handle)
    return handle.id


async def ended(app: FlowApp) -> str:
    handle = await app.start(original().call(100))
    await app.settled(handle)
    app.clock.advance(2 * DAY)
    await app.outcome(handle)
    return handle.id


async def not_begun(app: FlowApp) -> str:
    return (await app.start(original().call(100), delay="2h")).id


async def failed(app: FlowApp) -> str:
    handle = await app.start(original().call(-1))
    await app.settled(handle)
    for _ in range(3):
        app.clock.advance(3600)
        await app.settled(handle)
    assert (await app.find(handle.id)).status == "failed"
    return handle.id


async def redriven(app: FlowApp) -> str:
    flow_id = await failed(app)
    await app.redrive(flow_id, by="ann", why="again")
    await app.settled(flow_id)
    return flow_id


async def cancelled(app: FlowApp) -> str:
    handle = await app.start(original().call(100))
    await app.settled(handle)
    await handle.cancel(by="ann", why="ordered twice")
    await app.outcome(handle)
    return handle.id


async def ended_by_force(app: FlowApp) -> str:
    handle = await app.start(original().call(100))
    await app.settled(handle)
    await handle.cancel(by="ann", why="ordered twice", force=True)
    await app.outcome(handle)
    return handle.id


async def cancelled_unbegun(app: FlowApp) -> str:
    flow_id = await not_begun(app)
    await app.handle(flow_id).cancel(by="ann", why="ordered twice")
    await app.outcome(flow_id)
    return flow_id


async def cancelled_while_parked(app: FlowApp) -> str:
    flow_id = await waits(app)
    with_another_amount()
    app.clock.advance(2 * DAY)
    assert (await app.outcome(flow_id)).status == "parked"
    await app.handle(flow_id).cancel(by="ann", why="it cannot go on")
    await app.outcome(flow_id)
    return flow_id


EVERY_STORY = (
    waits,
    ended,
    not_begun,
    failed,
    redriven,
    cancelled,
    ended_by_force,
    cancelled_unbegun,
    cancelled_while_parked,
)


def check(flow: RecordedFlow) -> BrokenReplay | None:
    return check_replay(flow.flow, flow.log)


@pytest.mark.promise("E11")
@pytest.mark.parametrize("story", EVERY_STORY)
def test_flows_of_the_same_code_go_on(story: Play) -> None:
    flow = recorded(story)
    original()
    assert check(flow) is None


@pytest.mark.promise("E11")
@pytest.mark.parametrize("story", [waits, ended, failed, redriven, cancelled, ended_by_force])
def test_the_line_where_the_code_differs_is_named(story: Play) -> None:
    flow = recorded(story)
    with_another_amount()
    broken = check(flow)
    assert broken is not None
    assert (broken.breaks, broken.line) == ("code", 1)
    assert broken.logged.startswith('action replayed.charge("cents":')
    assert broken.where.startswith("test_replay_command.py:")
    assert "patched" in broken.advice
    assert check_again(flow, patched) is None


def check_again(flow: RecordedFlow, change: Change) -> BrokenReplay | None:
    change()
    return check(flow)


@pytest.mark.promise("E11")
def test_an_input_that_no_longer_fits_is_found_before_and_after_the_flow_begins() -> None:
    for story in (waits, not_begun):
        broken = check_again(recorded(story), with_another_parameter)
        assert broken is not None
        assert broken.breaks == "input", broken
    # What ended before it began will never read its input.
    assert check_again(recorded(cancelled_unbegun), with_another_parameter) is None


@pytest.mark.promise("E11")
def test_a_workflow_that_is_gone_is_named() -> None:
    flow = recorded(waits)
    gone()
    broken = check(flow)
    assert broken is not None
    assert broken.breaks == "definition"
    assert "replayed.Order" in broken.problem


@pytest.mark.promise("E11")
def test_a_graph_whose_action_is_gone_is_named() -> None:
    async def starts(app: FlowApp) -> str:
        return (await app.start(graph.call(), delay="1h")).id

    @action(name="replayed.soon_gone")
    async def soon_gone() -> str:
        return "here"

    graph = Graph("replayed.graph")
    graph.step("only", soon_gone)
    flow = recorded(starts)
    assert check(flow) is None
    from redrive.flows.action import ACTIONS

    del ACTIONS.by_name["replayed.soon_gone"]
    broken = check(flow)
    assert broken is not None
    assert (broken.breaks, "replayed.soon_gone" in broken.problem) == ("definition", True)


@pytest.mark.promise("E11")
def test_a_log_that_was_edited_breaks_alone() -> None:
    flow = recorded(waits)
    broken = check(RecordedFlow(flow.flow, flow.log[1:]))
    assert broken is not None
    assert fold(flow.log).items
    assert broken.breaks in ("log", "code")


@pytest.mark.promise("E11")
def test_a_users_test_suite_replays_a_file(tmp_path: Path) -> None:
    path = tmp_path / "flows.jsonl"
    path.write_bytes(write_recorded(recorded(waits)) + b"\n" + write_recorded(recorded(ended)))
    assert assert_replays(path) == 2
    without_the_sleep()
    with pytest.raises(AssertionError, match=r"2 of 2 flows would break\n- workflow:replayed.Order .* a timer until"):
        assert_replays(path)
    path.write_bytes(b"")
    with pytest.raises(AssertionError, match="no flows"):
        assert_replays(path)


@pytest.mark.promise("E11")
def test_the_newest_flows_are_taken_open_ones_first(address: str) -> None:
    async def story() -> None:
        async with redrive.open(address, worker=False) as app:
            ids = sorted([(await app.start(charge(n), delay=DAY)).id for n in range(5)])
            await app.handle(ids[4]).cancel(by="ann", why="done", force=True)
            await app.start(ship("toys"))

            async def recent(count: int) -> list[str]:
                return [one.id async for one in recent_flows(app.store, count, "action:replayed.charge")]

            assert (await app.find(ids[4])).status == "cancelled"
            assert await recent(3) == [ids[3], ids[2], ids[1]]
            assert await recent(9) == [*ids[3::-1], ids[4]]
            flow = await export_flow(app.store, await app.find(ids[0]))
            assert json_flow(write_recorded(flow)) == flow

    asyncio.run(story())


CODE = """
import asyncio
from redrive import Workflow, action, workflow

@action(name="replayed.cli")
async def book(what: str) -> str:
    return what

@workflow(name="replayed.Cli")
class Cli(Workflow):
    async def run(self) -> str:
        what = await book("a book")
        await asyncio.sleep(3600)
        return what
"""


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environ = {**os.environ, "REDRIVE_STORE": f"sqlite:///{tmp_path}/app.db"}
        return subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "redrive.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env=environ,
        )

    return run


@pytest.mark.promise("E11")
def test_ci_fails_for_code_that_would_break_a_flow(
    command: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    shop = tmp_path / "cli_shop.py"
    shop.write_text(CODE)
    started = command("start", "cli_shop.py:Cli", "--delay", "1d")
    assert started.returncode == 0, started.stderr
    exported = command("export", "--recent", "10")
    assert exported.returncode == 0, exported.stderr
    (tmp_path / "flows.jsonl").write_text(exported.stdout)
    (flow,) = read_recorded(tmp_path / "flows.jsonl")
    assert flow.flow.id == started.stdout.strip()
    same = command("replay", "flows.jsonl", "cli_shop.py")
    assert (same.returncode, same.stdout) == (0, "replayed 1 flow: none would break\n"), same.stderr
    shop.write_text(CODE.replace("def run(self)", "def run(self, what: str)"))
    broken = command("replay", "--recent", "5", "cli_shop.py", "--json")
    assert broken.returncode == 1, broken.stderr
    told = json.loads(broken.stdout)
    assert (told["replayed"], told["would_break"], told["broken"][0]["breaks"]) == (1, 1, "input")

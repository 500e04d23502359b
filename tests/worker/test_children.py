"""Child flows: started once, awaited, cancelled or abandoned with their parent, on every store."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from tests.worker.family import EXPECTED, Child, Crowd, Endless, Head, Parent, Sleeper
from tests.worker.fleet import Fleet
from tests.worker.quick_app import eventually, opened

import redrive
from redrive import FlowCancelledError, Permanent, Workflow, action, workflow
from redrive.client.app import App
from redrive.errors import ChildFailedError
from redrive.flows.child_events import ChildStarted
from redrive.flows.workflows.loop import CALLBACKS_AT_ONCE
from redrive.stores.records import FlowQuery
from redrive.testing import FlowApp, crash_everywhere, flow_app, run_flow


async def statuses(app: App) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for flow in await app.flows(FlowQuery(limit=1000)):
        found.setdefault(flow.definition.rpartition(".")[2], []).append(flow.status)
    return found


@pytest.mark.promise("E4")
def test_a_workflow_starts_children_and_gets_their_ends(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            outcome = await app.outcome(await app.start(Parent.call(3)))
            assert outcome.result == EXPECTED
            assert await statuses(app) == {
                "Parent": ["completed"],
                "Child": ["completed"] * 4,
                "double": ["completed"],
                "Failing": ["failed"],
                "Sleeper": ["cancelled"],
            }

    asyncio.run(scenario())


@pytest.mark.promise("E4")
def test_children_are_started_once_and_none_is_lost_wherever_the_worker_is_killed() -> None:
    async def scenario(app: FlowApp) -> Any:
        outcome = await app.outcome(await app.start(Parent.call(3)))
        return outcome.result, await statuses(app)

    runs = crash_everywhere(scenario)
    assert runs[0].outcome[0] == EXPECTED
    assert len(runs) > 20


async def family(app: App) -> dict[int, list[str]]:
    """The statuses of all flows, by how deep they are."""
    found: dict[int, list[str]] = {}
    for flow in await app.flows(FlowQuery(limit=1000)):
        found.setdefault(flow.depth, []).append(flow.status)
    return found


async def all_sleep(app: App) -> bool:
    sleeping = await app.flows(FlowQuery(definition="workflow:family.Sleeper", limit=100))
    return len(sleeping) == 6 and all(flow.claims for flow in sleeping)


@pytest.mark.promise("E4")
@pytest.mark.parametrize("force", [False, True])
def test_cancelling_a_parent_cancels_the_tree(address: str, force: bool) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            head = await app.start(Head.call("waits"))
            await eventually(lambda: all_sleep(app))
            told = str(await app.explain(head.id))
            assert "children 2 " in told
            assert ", which has 2 children of its own" in told
            await head.cancel(by="ann", why="enough", force=force)
            with pytest.raises(FlowCancelledError):
                await head.result(timeout=10)

            async def all_ended() -> bool:
                return {"cancelled"} == {flow.status for flow in await app.flows(FlowQuery(limit=100))}

            await eventually(all_ended)

    asyncio.run(scenario())


@pytest.mark.promise("E4")
@pytest.mark.parametrize("how", ["ends", "fails"])
@pytest.mark.parametrize("parent_close", ["cancel", "abandon"])
def test_children_are_cancelled_or_abandoned_when_their_parent_ends(how: str, parent_close: str) -> None:
    async def scenario(app: FlowApp) -> Any:
        await app.outcome(await app.start(Head.call(how, parent_close)))
        for flow in await app.flows(FlowQuery(definition="workflow:family.Sleeper", limit=100)):
            await app.outcome(flow.id)
        flows = await app.flows(FlowQuery(definition="workflow:family.Sleeper", limit=100))
        return sorted((flow.depth, flow.status) for flow in flows)

    async def once() -> Any:
        async with flow_app() as app:
            return await scenario(app)

    ended = asyncio.run(once())
    if parent_close == "abandon":
        assert ended == [(1, "completed")] * 2 + [(2, "completed")] * 4
    else:
        # A child that was cancelled before it began has started none.
        assert ended[:2] == [(1, "cancelled")] * 2
        assert {status for _, status in ended} == {"cancelled"}


@pytest.mark.promise("E4")
def test_children_that_start_children_without_end_fail_with_one_clear_line(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            outcome = await app.outcome(await app.start(Endless.call(0)))
            assert outcome.result == 100
            assert len(await app.flows(FlowQuery(limit=1000))) == 101

    asyncio.run(scenario())


@workflow(name="family.Keyed")
class Keyed(Workflow):
    async def run(self) -> str:
        mine = await workflow.start_child(Child.call(1), key="mine")
        other = await workflow.start_child(Child.call(2), key="taken")
        try:
            await other
        except ChildFailedError as error:
            return f"{await mine} {error.message}"
        return "unreached"


@pytest.mark.promise("E4")
def test_a_child_whose_key_is_taken_fails_with_one_clear_line(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            await app.start(Child.call(5), key="taken")
            outcome = await app.outcome(await app.start(Keyed.call()))
            why = "its key 'taken' belongs to another flow of workflow:family.Child; use a key of its own"
            assert outcome.result == f"3 {why}"

    asyncio.run(scenario())


@workflow(name="family.Wrong")
class Wrong(Workflow):
    async def run(self, how: str) -> Any:
        calls: dict[str, Any] = {
            "class": lambda: workflow.start_child(Child),  # type: ignore[arg-type]
            "queue": lambda: workflow.start_child(Child.call(1), queue="a\nb"),
            "close": lambda: workflow.start_child(Child.call(1), parent_close="kill"),  # type: ignore[arg-type]
            "key": lambda: workflow.start_child(Child.call(1), key=""),
            "priority": lambda: workflow.start_child(Child.call(1), priority=2**40),
        }
        return await calls[how]()


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("class", "start_child takes a call; write workflow.start_child(Child.call(...)), not "),
        ("queue", "queue: use a name of 1 to 200 characters"),
        ("close", """parent_close: 'kill' is not allowed; use "cancel" or "abandon\""""),
        ("key", "key: use a text of 1 to 500 characters"),
        ("priority", "priority: 1099511627776 is not allowed"),
    ],
)
def test_a_wrong_child_is_one_clear_line(how: str, line: str) -> None:
    assert str(run_flow(Wrong.call(how)).error).startswith(line)


def test_children_are_started_by_workflows_only() -> None:
    with pytest.raises(RuntimeError, match="works only inside the run method of a workflow"):
        asyncio.run(workflow.start_child(Child.call(1)))


@action(name="family.large")
async def large() -> str:
    return "x" * 300_000


@workflow(name="family.Large")
class Large(Workflow):
    async def run(self) -> int:
        child = await workflow.start_child(large())
        return len(await child)


@pytest.mark.promise("E4")
def test_a_large_result_of_a_child_reaches_its_parent(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            assert (await app.outcome(await app.start(Large.call()))).result == 300_000

    asyncio.run(scenario())
    runs = crash_everywhere(Large.call())
    assert all(run.outcome.result == 300_000 for run in runs)


OPEN: set[str] = set()


@action(name="family.gate")
async def gate(name: str) -> str:
    if name not in OPEN:
        raise Permanent("closed")
    return name


@workflow(name="family.Gated")
class Gated(Workflow):
    async def run(self, name: str) -> str:
        return await gate(name)


@workflow(name="family.NeedsGate")
class NeedsGate(Workflow):
    """Its failing child takes it down, along with what it had started to report the failure."""

    async def run(self, name: str) -> str:
        before = await (await workflow.start_child(Child.call(1)))
        child = await workflow.start_child(Gated.call(name))
        try:
            return f"{before} {await child}"
        except ChildFailedError:
            await workflow.start_child(Sleeper.call())
            raise


@pytest.mark.promise("E4")
def test_a_redriven_parent_redrives_the_child_that_failed_it(address: str) -> None:
    async def scenario() -> None:
        OPEN.clear()
        async with flow_app(address) as app:
            parent = await app.start(NeedsGate.call("north"))
            outcome = await app.outcome(parent)
            child = next(flow for flow in await app.flows(FlowQuery(definition="workflow:family.Gated")))
            assert outcome.status == "failed"
            told = f"child family.Gated failed: redrive.errors.Permanent: closed; see redrive explain {child.id}"
            assert str(outcome.error) == told
            letter = next(one for one in await app.dead_letters() if one.flow_id == parent.id)
            assert letter.kind == "child"
            OPEN.add("north")
            await app.redrive([parent.id], by="ann", why="open now")
            outcome = await app.outcome(parent)
            assert outcome.result == "3 north"
            assert "had taken the failure" not in str(await app.explain(child.id))
            assert await app.dead_letters() == []
            ended = {flow.definition: flow.status for flow in await app.flows(FlowQuery(limit=10))}
            assert ended["workflow:family.Gated"] == "completed"
            assert ended["workflow:family.Sleeper"] == "cancelled"

    asyncio.run(scenario())


@pytest.mark.promise("E4")
def test_a_redriven_parent_takes_the_result_of_a_child_that_was_redriven_before(address: str) -> None:
    async def scenario() -> None:
        OPEN.clear()
        async with flow_app(address) as app:
            parent = await app.start(NeedsGate.call("south"))
            await app.outcome(parent)
            child = next(flow for flow in await app.flows(FlowQuery(definition="workflow:family.Gated")))
            OPEN.add("south")
            await app.redrive([child.id], by="ann", why="open now")
            assert (await app.outcome(child.id)).result == "south"
            taken = "its parent had taken the failure, and does not await this flow again unless it is redriven, too"
            assert taken in str(await app.explain(child.id))
            await app.redrive([parent.id], by="ann", why="its child is done")
            assert (await app.outcome(parent)).result == "3 south"

    asyncio.run(scenario())


@pytest.mark.promise("E4")
def test_thousands_of_children_are_started_in_pieces(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with flow_app(f"sqlite:///{tmp_path}/crowd.db") as app:
            crowd = await app.start(Crowd.call(3000))
            assert (await app.outcome(crowd, within=120)).result == sum(2 * number + 1 for number in range(3000))
            pieces = [0]
            for line in await app.log(crowd.id):
                if isinstance(line.event, ChildStarted):
                    pieces[-1] += 1
                else:
                    pieces.append(0)
            assert sum(pieces) == 3000
            assert max(pieces) <= CALLBACKS_AT_ONCE
            assert len(await app.flows(FlowQuery(parent=crowd.id, limit=10_000))) == 3000
            told = str(await app.explain(crowd.id))
            assert len(told.splitlines()) < 60

    asyncio.run(scenario())


@pytest.mark.promise("E4", "E5")
@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_a_fleet_that_is_killed_starts_each_child_once_and_loses_none(address: str, tmp_path: Path) -> None:
    chance = random.Random(7)

    async def scenario(fleet: Fleet) -> None:
        async with redrive.open(address, worker=False) as app:
            crowds = [await app.start(Crowd.call(20, 3)) for _ in range(4)]
            await asyncio.to_thread(fleet.start, 3)
            for _ in range(6):
                await asyncio.sleep(chance.uniform(0.05, 0.3))
                fleet.kill(chance.choice(fleet.workers))
                await asyncio.to_thread(fleet.start)
            for crowd in crowds:
                assert await crowd.result(timeout=60) == sum(2 * number + 1 for number in range(20))
                children = await app.flows(FlowQuery(parent=crowd.id, limit=1000))
                assert len(children) == 60
                assert {child.status for child in children} == {"completed"}

    with Fleet(address, tmp_path, lease=1.0) as fleet:
        asyncio.run(scenario(fleet))

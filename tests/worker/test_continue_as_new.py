"""Continue-as-new: the same flow with its key and inbox, and a new log that alone is replayed, on every store."""

import asyncio
from typing import Any

import pytest
from tests.worker.family import Fast, Sleeper, double
from tests.worker.quick_app import eventually

from redrive import FlowCancelledError, Workflow, workflow
from redrive.errors import RunNotFoundError
from redrive.explain.parts import ItemEntry
from redrive.flows.messages import Pause, write_message
from redrive.flows.run_events import RunContinued
from redrive.stores.records import FlowQuery
from redrive.testing import FlowApp, crash_everywhere, flow_app, run_flow
from redrive.worker.maintenance import pruner


@workflow(name="runs.Counter")
class Counter(Workflow):
    async def run(self, runs: int, total: int = 0, ids: tuple[str, ...] = ()) -> dict[str, Any]:
        total += await double(runs)
        await asyncio.sleep(60)
        ids = (*ids, str(workflow.uuid()))
        if runs > 1:
            workflow.continue_as_new(runs - 1, total, ids=ids)
        return {"total": total, "ids": len(set(ids))}


@pytest.mark.promise("E5")
def test_a_workflow_continues_as_new_with_the_same_id_and_key(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            flow = await app.start(Counter.call(3), key="counter")
            assert (await app.outcome(flow)).result == {"total": 12, "ids": 3}
            record = await app.find(flow.id)
            assert (record.key, record.status) == ("counter", "completed")
            again = await app.start(Counter.call(3), key="counter")
            assert (again.id, again.is_new) == (flow.id, False)
            lines = await app.log(flow.id)
            assert [line.event.run for line in lines if isinstance(line.event, RunContinued)] == [3]
            assert lines[0].seq == record.run_from + 1
            assert "run 3 began" in str(await app.explain(flow.id))

    asyncio.run(scenario())


@pytest.mark.promise("E5")
def test_the_outcome_is_the_same_wherever_the_worker_is_killed() -> None:
    runs = crash_everywhere(Counter.call(3))
    assert {run.outcome.result["total"] for run in runs} == {12}


@pytest.mark.promise("E5")
def test_a_thousand_runs_replay_no_more_than_one(address: str) -> None:
    """What is read of the last run's log does not grow, though the items of all runs are numbered on."""

    async def scenario() -> None:
        async with flow_app(address) as app:
            runs = 1000 if address == "memory://" else 50
            flow = await app.start(Fast.call(runs))
            assert (await app.outcome(flow, within=120)).result == runs
            rows = (await app.store.read_events([flow.id]))[flow.id]
            assert len(rows) <= 4
            items = [line.event.item for line in await app.log(flow.id) if hasattr(line.event, "args")]  # type: ignore[union-attr]
            assert items == [runs]

    asyncio.run(scenario())


@pytest.mark.promise("E5")
def test_earlier_runs_are_pruned_after_keep_finished_and_the_current_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruner, "PRUNE_EVERY", 0.01)

    async def scenario() -> None:
        async with flow_app(keep_finished="30h") as app:
            flow = await app.start(Daily.call(3))
            assert (await app.outcome(flow)).result == 3
            run_from = (await app.find(flow.id)).run_from

            async def first_run_is_gone() -> bool:
                return (await app.store.read_events_after(flow.id, 0, 1))[0].seq > 2

            await eventually(first_run_is_gone)
            # The second run ended 24 hours ago.
            assert await app.store.find_run(flow.id, 1) is not None
            app.clock.advance(7 * 3600)

            async def earlier_runs_are_gone() -> bool:
                return (await app.store.read_events_after(flow.id, 0, 1))[0].seq > run_from

            await eventually(earlier_runs_are_gone)
            assert await app.store.find_run(flow.id, 1) is None
            assert "run 3 began" in str(await app.explain(flow.id))

    asyncio.run(scenario())


@workflow(name="runs.Daily")
class Daily(Workflow):
    async def run(self, days: int, day: int = 1) -> int:
        await asyncio.sleep(86_400)
        if day < days:
            workflow.continue_as_new(days, day + 1)
        return day


@pytest.mark.promise("E5")
def test_explain_shows_earlier_runs_each_with_its_own_input(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            flow = await app.start(Counter.call(3))
            await app.outcome(flow)
            current = str(await app.explain(flow.id))
            assert f"run      3; of the run before: redrive explain {flow.id} --run 2" in current
            assert str(await app.explain(flow.id, run=3)) == current
            first, second = [await app.explain(flow.id, run=run) for run in (1, 2)]
            assert first.headline == "run 1 continued as new after 1m; the flow is in run 3"
            assert [first.input, second.input.partition(", ids")[0]] == ["runs=3", "runs=2, total=6"]
            assert [
                [str(one.number) for one in seen.timeline if isinstance(one, ItemEntry)] for seen in (first, second)
            ] == [
                ["1"],
                ["2"],
            ]
            assert first.next_steps[0].command == f"redrive explain {flow.id} --run 2"
            assert second.next_steps[0].command == f"redrive explain {flow.id}"
            with pytest.raises(RunNotFoundError, match="has no run 4; use 1 to 3"):
                await app.explain(flow.id, run=4)
            while await app.store.prune_runs(app.now(), 10):
                pass
            with pytest.raises(RunNotFoundError, match=f"run 1 of flow {flow.id} is no longer there: keep_finished"):
                await app.explain(flow.id, run=1)
            assert str(await app.explain(flow.id)) == current

    asyncio.run(scenario())


@workflow(name="runs.Parent")
class Parent(Workflow):
    async def run(self, first: bool = True) -> str:
        if first:
            await workflow.start_child(Sleeper.call(100.0))
            await workflow.start_child(Sleeper.call(200.0), parent_close="abandon")
            asyncio.get_running_loop().create_task(asyncio.sleep(1000))
            workflow.continue_as_new(False)
        child = await workflow.start_child(Sleeper.call(10.0))
        return await child


@pytest.mark.promise("E5", "E4")
def test_the_children_of_the_run_that_ends_are_cancelled_or_abandoned() -> None:
    async def scenario(app: FlowApp) -> Any:
        outcome = await app.outcome(await app.start(Parent.call()))
        children = await app.flows(FlowQuery(definition="workflow:family.Sleeper"))
        for child in children:
            await app.outcome(child.id)
        children = await app.flows(FlowQuery(definition="workflow:family.Sleeper"))
        return outcome.result, sorted((child.input, child.status) for child in children)

    runs = crash_everywhere(scenario)
    result, children = runs[0].outcome
    assert result == "slept"
    assert sorted(status for _, status in children) == ["cancelled", "completed", "completed"]


@workflow(name="runs.Swallows")
class Swallows(Workflow):
    async def run(self, runs: int) -> int:
        try:
            if runs:
                workflow.continue_as_new(runs - 1)
        except Exception:
            return -1
        return runs


@workflow(name="runs.Wrong")
class Wrong(Workflow):
    async def run(self, runs: int) -> int:
        workflow.continue_as_new("many", 3)


def test_code_that_catches_exceptions_continues_and_wrong_arguments_are_one_clear_line() -> None:
    assert run_flow(Swallows.call(2)).result == 0
    assert str(run_flow(Wrong.call(1)).error) == "workflow runs.Wrong: too many positional arguments"
    with pytest.raises(RuntimeError, match="works only inside the run method"):
        workflow.continue_as_new(1)


@workflow(name="runs.Stubborn")
class Stubborn(Workflow):
    async def run(self, runs: int) -> int:
        try:
            await asyncio.sleep(3600)
        finally:
            workflow.continue_as_new(runs + 1)


@pytest.mark.promise("E5")
def test_a_flow_that_is_being_cancelled_ends(address: str) -> None:
    async def scenario() -> None:
        async with flow_app(address) as app:
            with app.clock.frozen():
                flow = await app.start(Stubborn.call(1))
                await app.settled(flow)
            await flow.cancel(by="ann", why="enough")
            with pytest.raises(FlowCancelledError):
                await flow.result(timeout=10)

    asyncio.run(scenario())


@workflow(name="runs.Slow")
class Slow(Workflow):
    async def run(self, first: bool = True) -> bool:
        if first:
            await asyncio.sleep(5)
            workflow.continue_as_new(False)
        return first


@pytest.mark.promise("E5")
def test_messages_that_were_not_read_go_along(address: str) -> None:
    """A message that arrives with the last turn of a run is read by the next one."""

    async def scenario() -> None:
        async with flow_app(address) as app:
            commit, sent = app.store.commit, []

            async def commit_after_a_message(lease: Any, batch: Any) -> None:
                if any(change.input is not None for change in batch.flows):
                    sent.append(await app.store.send(flow.id, write_message(Pause(by="ann")), app.now()))
                await commit(lease, batch)

            app.store.commit = commit_after_a_message  # type: ignore[method-assign]
            flow = await app.start(Slow.call())
            outcome = await app.outcome(flow)
            assert (outcome.status, sent) == ("paused", ["running"])
            await flow.resume(by="ann")
            assert (await app.outcome(flow)).result is False

    asyncio.run(scenario())


@workflow(name="runs.Letters")
class Letters(Workflow):
    async def run(self, run: int = 1, read: tuple[int, ...] = ()) -> tuple[int, ...]:
        letter = await workflow.receive("letter")
        await asyncio.sleep(1)
        read = (*read, letter["n"])
        if run < 5:
            workflow.continue_as_new(run + 1, read)
        return read


@pytest.mark.promise("E5", "E1")
def test_signals_that_were_not_received_go_along() -> None:
    async def scenario(app: FlowApp) -> Any:
        with app.clock.frozen():
            flow = await app.start(Letters.call())
            for n in range(5):
                await flow.signal("letter", n=n)
        return (await app.outcome(flow)).result

    runs = crash_everywhere(scenario)
    assert runs[0].outcome == (0, 1, 2, 3, 4)

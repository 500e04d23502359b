"""A batch is added once, counted, awaited, cancelled and redriven as a whole; what follows it starts once."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.in_loop import in_loop
from tests.postgres_server import shared_server

import redrive
from redrive.client import many_starts
from redrive.errors import BatchNotFoundError, BatchTakenError, KeyTakenError
from redrive.stores.batches import BatchCounts, BatchQuery
from redrive.stores.records import FlowQuery
from redrive.testing import crash_everywhere
from redrive.testing.flows import FlowApp, flow_app

pytestmark = pytest.mark.promise("E7")
PATIENCE = 30.0
ran: list[Any] = []
broken = True


@pytest.fixture(autouse=True)
def fresh() -> None:
    global broken
    broken = True
    ran.clear()


@redrive.action(name="batches.work", retry=redrive.RetryPolicy(attempts=1))
async def work(n: int) -> int:
    if n < 0 and broken:
        raise redrive.Permanent(f"{n} is negative")
    return n


@redrive.action(name="batches.sturdy")
async def sturdy(n: int) -> int:
    """Unlike `work`, it is attempted again when its worker is lost."""
    if n < 0:
        raise redrive.Permanent(f"{n} is negative")
    return n


@redrive.action(name="batches.report")
async def report(name: str, counts: BatchCounts | None = None) -> None:
    ran.append((name, counts))


@redrive.workflow(name="batches.Report")
class Report(redrive.Workflow):
    async def run(self, name: str, counts: BatchCounts | None = None) -> str:
        assert counts is not None
        await report(name, counts=counts)
        return f"{name}: {counts.completed} of {counts.completed + counts.failed}"


@redrive.workflow(name="batches.Plain")
class Plain(redrive.Workflow):
    async def run(self) -> str:
        return "done"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    return f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else shared_server().fresh_database()


@in_loop
async def test_a_batch_is_counted_awaited_and_followed_by_its_report(address: str) -> None:
    async with redrive.open(address, grace=0) as app:
        calls = [work(n) for n in (1, 2, -3, 4)]
        batch = await app.batch("night", calls, on_done=Report.call("night"), tags={"tenant": "acme"})
        assert batch.is_new
        counts = await batch.wait(PATIENCE)
        assert counts == BatchCounts(completed=3, failed=1)
        status = await batch.status()
        assert status.on_done is not None
        assert status.done_at is not None
        assert (status.total, status.tags, status.is_done) == (4, {"tenant": "acme"}, True)
        assert await app.handle(status.on_done).result(PATIENCE) == "night: 3 of 4"
        assert ran == [("night", counts)]
        assert {flow.batch for flow in await app.flows(FlowQuery(tags={"tenant": "acme"}))} == {"night", None}
        explained = str(await app.explain((await app.flows(FlowQuery(batch="night")))[0].id))
        assert "  batch    night\n  tags     tenant=acme\n" in explained
        assert len(await app.flows(FlowQuery(batch="night"))) == 4
        assert await app.batches() == [status]
        assert await (await app.find_batch("night")).status() == status


@in_loop
async def test_a_job_can_follow_and_gets_the_counts(address: str) -> None:
    async with redrive.open(address, grace=0) as app:
        batch = await app.batch("night", [work(1)], on_done=report("job"))
        await batch.wait(PATIENCE)
        on_done = (await batch.status()).on_done
        assert on_done is not None
        await app.handle(on_done).result(PATIENCE)
        assert ran == [("job", BatchCounts(completed=1))]


@in_loop
async def test_a_worker_starts_what_follows_without_anybody_waiting(address: str) -> None:
    async with redrive.open(address, grace=0) as app:
        batch = await app.batch("night", [work(1)], on_done=(Plain.call(), {"queue": "default", "priority": 3}))
        on_done = (await batch.status()).on_done
        assert on_done is not None
        for _ in range(int(PATIENCE / 0.05)):
            if (await batch.status()).done_at is not None:
                break
            await asyncio.sleep(0.05)
        assert await app.handle(on_done).result(PATIENCE) == "done"
        assert (await app.find(on_done)).priority == 3
        assert (await app.find(on_done)).key == "batch:night:done"


@in_loop
async def test_a_batch_without_calls_is_done_at_once(address: str) -> None:
    async with redrive.open(address, worker=False) as app:
        batch = await app.batch("nothing", [], on_done=Report.call("nothing"))
        status = await batch.status()
        assert (status.total, status.is_done) == (0, True)
        assert status.on_done is not None
        assert (await app.find(status.on_done)).status == "ready"


@in_loop
async def test_adding_it_again_adds_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_starts, "ADDED_AT_ONCE", 3)
    async with redrive.open(address, worker=False) as app:
        told: list[int] = []
        first = await app.batch("night", (work(n) for n in range(7)), progress=told.append)
        ids = {flow.id for flow in await app.flows(FlowQuery(batch="night"))}
        again = await app.batch("night", (work(n) for n in range(7)))
        assert (first.is_new, again.is_new, told) == (True, False, [3, 6, 7])
        assert {flow.id for flow in await app.flows()} == ids
        for others in ([work(n) for n in range(8)], [work(n) for n in range(6)], [work(9), *map(work, range(1, 7))]):
            with pytest.raises(BatchTakenError, match="was started with other calls"):
                await app.batch("night", others)
        assert {flow.id for flow in await app.flows()} == ids
        other = await app.batch("day", [work(1)], keys=["one"])
        assert (await other.status()).total == 1
        assert {flow.key for flow in await app.flows(FlowQuery(batch="day"))} == {"batch:day:one"}


@in_loop
async def test_an_addition_that_was_interrupted_is_completed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_starts, "ADDED_AT_ONCE", 3)

    def calls(end: bool) -> Iterator[Any]:
        yield from map(work, range(7))
        if end:
            raise RuntimeError("the power went out")

    async with redrive.open(address, worker=False) as app:
        with pytest.raises(RuntimeError, match="power"):
            await app.batch("night", calls(end=True), on_done=Plain.call())
        batch = await app.find_batch("night")
        status = await batch.status()
        assert (status.total, status.counts.ready, status.is_done) == (None, 6, False)
        with pytest.raises(KeyTakenError):
            await app.batch("night", [work(5)])
        again = await app.batch("night", calls(end=False), on_done=Plain.call())
        assert not again.is_new
        assert ((await again.status()).total, (await again.counts()).ready) == (7, 7)
        assert (await again.status()).on_done == status.on_done


@in_loop
async def test_a_flow_that_only_has_the_key_is_no_part_of_the_batch(address: str) -> None:
    async with redrive.open(address, worker=False) as app:
        await app.start(work(0), key="batch:night:0")
        with pytest.raises(KeyTakenError):
            await app.batch("night", [work(0)])


@in_loop
async def test_what_failed_is_redriven_and_the_report_is_not_repeated(address: str) -> None:
    global broken
    async with redrive.open(address, grace=0) as app:
        batch = await app.batch("night", [work(1), work(-2), work(-3)], on_done=report("night"))
        assert (await batch.wait(PATIENCE)).failed == 2
        broken = False
        failed = {flow.id for flow in await app.flows(FlowQuery(batch="night", status=("failed",)))}
        told: list[Any] = []
        outcome = await batch.redrive(by="ann", why="the numbers are fixed", progress=told.append)
        assert (outcome.count, outcome.done, told) == (2, 2, [outcome])
        assert await batch.wait(PATIENCE) == BatchCounts(completed=3)
        assert (await batch.redrive(by="ann", why="again")).count == 0
        for flow_id in failed:
            assert any("the numbers are fixed" in str(line) and "ann" in str(line) for line in await app.log(flow_id))
        assert len(await app.flows(FlowQuery(definition="action:batches.report"))) == 1
        on_done = (await batch.status()).on_done
        assert on_done is not None
        await app.handle(on_done).result(PATIENCE)
        assert ran == [("night", BatchCounts(completed=1, failed=2))]


@in_loop
async def test_a_batch_is_cancelled(address: str) -> None:
    async with redrive.open(address, grace=0) as app:
        batch = await app.batch("night", [work(n) for n in range(5)], delay="1h")
        assert (await batch.counts()).waiting == 5
        with pytest.raises(TimeoutError, match=r"'night' is not done after 0\.05 s: 5 flows have not ended"):
            await batch.wait(0.05)
        assert (await batch.cancel(by="ann", why="not tonight")).done == 5
        assert await batch.wait(PATIENCE) == BatchCounts(cancelled=5)


@in_loop
async def test_progress_is_told_until_all_have_ended(address: str) -> None:
    async with redrive.open(address, grace=0) as app:
        batch = await app.batch("night", [work(n) for n in range(20)])
        seen = [status async for status in batch.progress()]
        assert seen[-1].is_done
        assert seen[-1].counts == BatchCounts(completed=20)
        ended = [status.counts.ended for status in seen]
        assert ended == sorted(ended)
        assert [status.is_done for status in seen[:-1]] == [False] * (len(seen) - 1)


@pytest.mark.parametrize("name", ["", "a/b", "a\n", "x" * 201, "\ud800", "..", None, 5])
@in_loop
async def test_a_wrong_name_is_refused_in_one_line(name: Any) -> None:
    async with redrive.open("memory://", worker=False) as app:
        with pytest.raises(ValueError, match="is not a valid name; use 1 to 200 characters") as refused:
            await app.batch(name, [Plain.call()])
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keys": ["done"]}, "'done' is that of the flow which follows the batch"),
        ({"keyz": ["a"]}, "did you mean 'keys'?"),
        ({"key": "a"}, "did you mean 'keys'?"),
        ({"on_done": "later"}, "start takes a call"),
        ({"on_done": (Plain.call(), {"delay": 5})}, "leave out delay"),
        ({"on_done": (Plain.call(), {"key": "k"})}, "'key' is not a setting"),
    ],
)
@in_loop
async def test_a_wrong_batch_is_refused_in_one_line(options: dict[str, Any], says: str) -> None:
    async with redrive.open("memory://", worker=False) as app:
        with pytest.raises((TypeError, ValueError)) as refused:
            await app.batch("night", [Plain.call()], **options)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
        with pytest.raises(BatchNotFoundError, match="there is no batch 'unknown'"):
            await app.find_batch("unknown")


@in_loop
async def test_batches_are_listed_newest_first(address: str) -> None:
    async with flow_app(address) as app:
        with app.clock.frozen():
            for name in ("a", "b", "c"):
                batch = await app.batch(name, [work(1)], delay="1h" if name == "b" else None)
                if name != "b":
                    await batch.wait(PATIENCE)
                app.clock.advance(1)
            assert [one.name for one in await app.batches()] == ["c", "b", "a"]
            assert [one.name for one in await app.batches(BatchQuery(done=False))] == ["b"]
            assert [one.name for one in await app.batches(BatchQuery(limit=1))] == ["c"]


def test_programs_without_async_have_batches_too(tmp_path: Path) -> None:
    with redrive.open_sync(f"sqlite:///{tmp_path}/app.db", grace=0) as app:
        assert [one.result(PATIENCE) for one in app.start_many(work(n) for n in range(3))] == [0, 1, 2]
        batch = app.batch("night", (work(n) for n in (1, 2, -3)), on_done=Report.call("night"))
        assert batch.is_new
        assert [status.is_done for status in batch.progress()][-1]
        assert batch.wait(PATIENCE) == batch.counts() == BatchCounts(completed=2, failed=1)
        assert app.find_batch("night").status() == app.batches()[0]
        assert batch.redrive(by="ann", why="again").done == 1
        batch.wait(PATIENCE)
        assert batch.cancel(by="ann", why="too late").count == 0


async def batch_of_three(app: FlowApp) -> Any:
    batch = await app.batch("night", [sturdy(1), sturdy(-2), Plain.call()], on_done=Report.call("night"))
    counts = await batch.wait()
    on_done = (await batch.status()).on_done
    assert on_done is not None
    outcome = await app.outcome(on_done)
    followers = await app.flows(FlowQuery(definition="workflow:batches.Report"))
    return counts, outcome.status, outcome.result, len(followers)


KILLED = """
import asyncio, os, sys, redrive
from tests.client.test_batches import Plain, Report

def progress(done):
    if done >= 4000:
        os._exit(9)

async def main():
    async with redrive.open(sys.argv[1], worker=False) as app:
        calls = (Plain.call() for _ in range(9000))
        await app.batch("night", calls, on_done=Report.call("night"), progress=progress)

asyncio.run(main())
"""


@pytest.mark.parametrize("address", ["sqlite", "postgresql"], indirect=True)
@in_loop
async def test_a_batch_whose_adding_was_killed_is_completed_and_only_then_done(address: str) -> None:
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, address], capture_output=True)
    assert killed.returncode == 9, killed.stderr
    async with redrive.open(address, worker=False) as app:
        batch = await app.find_batch("night")
        assert ((await batch.status()).total, (await batch.counts()).ready) == (None, 4000)
        assert await app.store.list_ended_batches(10) == []
        await app.batch("night", (Plain.call() for _ in range(9000)), on_done=Report.call("night"))
        assert ((await batch.status()).total, (await batch.counts()).ready) == (9000, 9000)


def test_with_a_crash_at_any_commit_the_report_starts_once() -> None:
    runs = crash_everywhere(batch_of_three)
    assert len(runs) > 6
    assert {run.outcome for run in runs} == {(BatchCounts(completed=2, failed=1), "completed", "night: 2 of 3", 1)}

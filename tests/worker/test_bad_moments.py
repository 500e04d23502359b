"""What is said to a flow, or happens to it, at a moment that is easily overlooked."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.errors import StoreUnavailableError
from redrive.flows.events import AttemptFailed, Paused
from redrive.flows.graphs.graph import Graph
from redrive.stores.leases import Lease
from redrive.stores.records import Batch, EventRow
from redrive.testing import flow_app
from redrive.worker.flow.flow_run import FlowRun

RAN: list[str] = []
BROKEN: set[str] = set()
HOLD: list[asyncio.Event] = []
ONCE = RetryPolicy(attempts=1)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()
    BROKEN.clear()
    HOLD.clear()


@action(name="moments.hang", retry=ONCE)
async def hang(what: str) -> str:
    RAN.append(what)
    await asyncio.Event().wait()
    return what


@action(name="moments.do", retry=ONCE)
async def do(what: str) -> str:
    RAN.append(what)
    if what in BROKEN:
        raise redrive.Permanent(f"{what} is broken")
    await asyncio.sleep(0)
    return what


async def until_it_runs() -> None:
    async with asyncio.timeout(10):
        while not RAN:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def has_failed(app: redrive.App, flow_id: str) -> None:
    async with asyncio.timeout(10):
        while not any(isinstance(line.event, AttemptFailed) for line in await app.log(flow_id)):  # noqa: ASYNC110 - it is in a store
            await asyncio.sleep(0.001)


@workflow(name="moments.TimerBeside")
class TimerBeside(Workflow):
    async def run(self) -> None:
        await asyncio.gather(hang("hang"), asyncio.sleep(0.2))


def test_a_paused_flow_whose_timer_is_due_leaves_its_worker_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    rings: list[float] = []
    wake = FlowRun.wake

    def counted(run: FlowRun) -> None:
        rings.append(run.log.now())
        wake(run)

    monkeypatch.setattr(FlowRun, "wake", counted)

    async def scenario() -> None:
        async with redrive.open("memory://", grace=0) as app:
            flow = await app.start(TimerBeside.call())
            await until_it_runs()
            await flow.pause(by="me", why="look")
            # In real time: the alarms of a worker are.
            await asyncio.sleep(0.3)
            assert any(isinstance(line.event, Paused) for line in await app.log(flow.id))
            rings.clear()
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(rings) <= 1

    asyncio.run(scenario())


@workflow(name="moments.Both")
class Both(Workflow):
    async def run(self) -> str:
        return " ".join(await asyncio.gather(hang("first"), hang("second")))


def test_a_pause_that_nobody_has_read_is_obeyed_before_anything_begins(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'app.db'}"

    async def scenario() -> None:
        # One place: the second action stands in line.
        async with redrive.open(address, concurrency=1, grace=0) as app:
            flow = await app.start(Both.call())
            await until_it_runs()
        async with redrive.open(address, worker=False) as app:
            for word in ("pause", "resume", "pause"):
                await getattr(app.handle(flow.id), word)(by="ann", why="wait")
        before = list(RAN)
        async with redrive.open(address, poll=0.05) as app:
            async with asyncio.timeout(10):
                while await app.handle(flow.id).status() != "paused":  # noqa: ASYNC110 - it is in a store
                    await asyncio.sleep(0.001)
            said = [type(line.event).__name__ for line in await app.log(flow.id)]
        assert before == RAN
        assert said[-3:] == ["Paused", "Resumed", "Paused"]

    asyncio.run(scenario())


@workflow(name="moments.CleansUp")
class CleansUp(Workflow):
    async def run(self) -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(hang("one"))
                group.create_task(hang("two"))
        except* redrive.errors.AttemptLostError:
            pass
        return await do("clean up")


@pytest.mark.promise("A14")
def test_a_lost_attempt_that_another_lost_one_takes_along_leaves_the_flow_to_go_on() -> None:
    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(CleansUp.call())
            await app.until(lambda: len(RAN) == 2)
            await app.kill()
            app.revive()
            outcome = await app.outcome(flow)
            assert (outcome.status, outcome.result) == ("completed", "clean up")

    asyncio.run(story())


@action(name="moments.mail", retry=ONCE)
async def mail(order: str) -> dict[str, str]:
    await do("mail")
    return {"sent": "yes"}


@action(name="moments.reserve", retry=ONCE)
async def reserve(order: str) -> dict[str, str]:
    await HOLD[0].wait()
    await do("reserve")
    return {"reservation": "r"}


@action(name="moments.charge", retry=ONCE)
async def charge(reservation: str) -> dict[str, str]:
    await do("charge")
    return {"payment": "p"}


ORDER = (
    Graph("moments-order", goals=["charge"], also=["mail"])
    .step("mail", mail, outputs=["sent"], retry=ONCE)
    .step("reserve", reserve, outputs=["reservation"], retry=ONCE)
    .step("charge", charge, outputs=["payment"], retry=ONCE)
)


@pytest.mark.promise("A14")
def test_a_flow_that_is_built_anew_while_an_attempt_is_about_to_begin_makes_it_once(tmp_path: Path) -> None:
    """The attempt is durable, and its worker has not been told so yet."""

    async def scenario() -> None:
        HOLD.append(asyncio.Event())
        BROKEN.add("mail")
        async with redrive.open(f"sqlite:///{tmp_path / 'app.db'}", poll=0.05) as app:
            flow = await app.start(ORDER.call({"order": "o"}))
            await has_failed(app, flow.id)
            BROKEN.clear()
            commit = app.store.commit

            async def told_late(lease: Lease, batch: Batch) -> None:
                await commit(lease, batch)
                if any('"step":"charge"' in row.body for row in batch.events):
                    app.store.commit = commit  # type: ignore[method-assign]  # once is enough
                    await app.reset_step(flow.id, "mail", by="ann", why="again")
                    # Mail is read, and the log with it, while nobody has heard of this commit.
                    await asyncio.sleep(0.3)

            app.store.commit = told_late  # type: ignore[method-assign]  # the answer takes its time
            HOLD[0].set()
            assert (await flow.result(timeout=10))["payment"] == "p"
            lost = [line for line in await app.log(flow.id) if isinstance(line.event, AttemptFailed)]
            assert len(lost) == 1
            assert RAN.count("charge") == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("hears", ["nothing", "that the store is away"])
def test_a_worker_that_is_cut_off_stops_its_attempts_when_its_lease_is_over(
    hears: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have taken over by then, and make the attempt anew."""
    began, cancelled = asyncio.Event(), asyncio.Event()

    @action(name="bad_moments.endless")
    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def cut_off(*_: object) -> bool:
        if hears == "nothing":
            await asyncio.Event().wait()
        raise StoreUnavailableError("nobody answers")

    async def story() -> None:
        async with redrive.open(f"sqlite:///{tmp_path}/app.db", lease=1.0, grace=0.0) as app:
            await app.start(endless())
            await asyncio.wait_for(began.wait(), 10)
            assert not cancelled.is_set()
            with monkeypatch.context() as patched:
                for verb in ("extend_lease", "claim", "commit", "reap_leases", "read_inbox"):
                    patched.setattr(app.store, verb, cut_off)
                await asyncio.wait_for(cancelled.wait(), 10)

    asyncio.run(story())


@pytest.mark.promise("T10")
def test_a_failed_step_of_a_flow_that_is_never_at_rest_is_tried_again_at_once(tmp_path: Path) -> None:
    inputs = {"what": {"type": "string", "from": "all"}}
    graph = Graph("moments-busy", goals=["do"], also=["mail"]).step("mail", mail, outputs=["sent"], retry=ONCE)
    graph.step("do", do, inputs=inputs, for_each="what", outputs={"done": "string"}, parallelism=4)
    reads = 0

    async def scenario() -> None:
        BROKEN.add("mail")
        async with redrive.open(f"sqlite:///{tmp_path / 'app.db'}", poll=0.05) as app:
            read_events = app.store.read_events

            async def counted(flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
                nonlocal reads
                reads += 1
                return await read_events(flow_ids)

            flow = await app.start(graph.call({"order": "o", "all": ["busy"] * 2000}))
            await has_failed(app, flow.id)
            BROKEN.clear()
            await app.reset_step(flow.id, "mail", by="ann", why="mended")
            app.store.read_events = counted  # type: ignore[method-assign]  # what is read is counted
            await flow.result(timeout=60)

    asyncio.run(scenario())
    assert RAN.count("mail") == 2
    assert RAN.index("mail", RAN.index("mail") + 1) < 2000
    assert reads < 10


def test_what_comes_of_an_attempt_while_its_flow_is_built_anew_is_kept_though_the_worker_stops(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'app.db'}"

    async def scenario() -> None:
        HOLD.append(asyncio.Event())
        BROKEN.add("mail")
        reading = asyncio.Event()

        async with redrive.open(address, poll=0.05) as app:
            flow = await app.start(ORDER.call({"order": "o"}))
            await has_failed(app, flow.id)
            read_events, here = app.store.read_events, asyncio.current_task()

            async def worker_reads_for_ever(flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
                if asyncio.current_task() is not here:
                    reading.set()
                    await asyncio.Event().wait()
                return await read_events(flow_ids)

            app.store.read_events = worker_reads_for_ever  # type: ignore[method-assign]  # the log is long
            await app.reset_step(flow.id, "mail", by="ann", why="again")
            await reading.wait()
            HOLD[0].set()
            while "reserve" not in RAN:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        BROKEN.clear()
        async with redrive.open(address, poll=0.05) as app:
            assert (await app.handle(flow.id).result(timeout=10))["payment"] == "p"

    asyncio.run(scenario())
    assert (RAN.count("reserve"), RAN.count("charge"), RAN.count("mail")) == (1, 1, 2)


@pytest.mark.promise("A14")
def test_what_was_written_just_before_its_worker_froze_past_its_lease_does_not_begin_there(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others made it anew meanwhile, and may have its result."""
    made: list[int] = []

    @action(name="moments.made")
    async def make() -> int:
        made.append(redrive.current_attempt().number)
        return made[-1]

    async def story() -> None:
        async with redrive.open(address, lease=0.5) as app:
            commit = app.store.commit

            async def freezes(lease: Lease, batch: Batch) -> None:
                await commit(lease, batch)
                if batch.events:
                    monkeypatch.undo()
                    time.sleep(1.5)  # noqa: ASYNC251 - nothing of this process goes on

            monkeypatch.setattr(app.store, "commit", freezes)
            job = await app.start(make())
            assert await job.result(timeout=10) == 2
            assert made == [2]

    asyncio.run(story())

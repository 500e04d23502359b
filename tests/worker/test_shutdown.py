"""A worker that is told to stop: what it has not begun is not counted, and what it has begun gets its time."""

import asyncio
import gc
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.flows.events import AttemptFailed, AttemptReturned
from redrive.policies.policy import Policy
from redrive.stores.leases import Lease
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Batch
from redrive.worker import shutdown
from redrive.worker.worker import Worker

CALLS: list[str] = []
GATES: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    GATES.clear()


@action(name="stopping.once", retry=RetryPolicy(attempts=1))
async def once() -> str:
    CALLS.append("once")
    return "done"


@action(name="stopping.held", retry=Policy(attempts=3, idempotent=False))
async def held(name: str) -> str:
    await GATES[name].wait()
    CALLS.append(name)
    return name


async def some_turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def idle(app: redrive.App) -> None:
    """Once it is, it begins what is started here in the same commit."""
    async with asyncio.timeout(10):
        while app._worker is None or not app._worker.caught_up:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


@pytest.mark.promise("A14")
def test_an_attempt_that_had_not_begun_is_not_counted(tmp_path: Path) -> None:
    """The stop comes while the commit that logs its start is under way."""
    address = f"sqlite:///{tmp_path / 'app.db'}"

    async def scenario() -> None:
        async with redrive.open(address, poll=0.1) as app:
            await idle(app)
            with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                starting = asyncio.get_running_loop().create_task(app.start(once()))
                await some_turns()
                app.stop()
                await some_turns()
                other.execute("COMMIT")
            handle = await starting
        async with redrive.open(address, poll=0.1) as app:
            assert await app.handle(handle.id).result(timeout=10) == "done"
            assert not any(isinstance(line.event, AttemptFailed) for line in await app.log(handle.id))
        assert CALLS == ["once"]

    asyncio.run(scenario())


@pytest.mark.promise("A14")
def test_an_attempt_that_begins_after_the_stop_has_the_grace_period_too(tmp_path: Path) -> None:
    """Its start was being committed when the stop came, and others still ran."""
    address = f"sqlite:///{tmp_path / 'app.db'}"

    async def scenario() -> None:
        GATES.update(early=asyncio.Event(), late=asyncio.Event())
        async with redrive.open(address, poll=0.1, grace=10) as app:
            await idle(app)
            early = await app.start(held("early"))
            with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:
                # The commit that logs its start waits for this, and is over only after the stop.
                other.execute("BEGIN IMMEDIATE")
                starting = asyncio.get_running_loop().create_task(app.start(held("late")))
                await some_turns()
                app.stop()
                await some_turns()
                other.execute("COMMIT")
            late = await starting
            await some_turns()
            GATES["early"].set()
            await some_turns()
            GATES["late"].set()
        assert CALLS == ["early", "late"]
        async with redrive.open(address, worker=False) as app:
            assert [await app.handle(one.id).result(timeout=10) for one in (early, late)] == ["early", "late"]

    asyncio.run(scenario())


@action(name="stopping.tidies", retry=RetryPolicy(attempts=1))
async def tidies() -> str:
    if CALLS:
        return "done by another"
    CALLS.append("begins")
    try:
        await asyncio.Event().wait()
    finally:
        CALLS.append("cleans up")
        await GATES["clean"].wait()
        CALLS.append("is clean")
    return "unreached"


@action(name="stopping.stays", retry=RetryPolicy(attempts=1))
async def stays() -> str:
    CALLS.append("begins")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        CALLS.append("cleans up")
        await GATES["clean"].wait()
    return "done all the same"


@pytest.mark.promise("A14")
@pytest.mark.parametrize(
    ("called", "outcome", "returned"), [(tidies, "done by another", 1), (stays, "done all the same", 0)]
)
def test_an_attempt_that_is_given_back_cleans_up_before_another_one_begins(
    tmp_path: Path, called: Any, outcome: str, returned: int
) -> None:
    address = f"sqlite:///{tmp_path / 'app.db'}"

    async def scenario() -> None:
        GATES["clean"] = asyncio.Event()
        async with redrive.open(address, poll=0.1, grace=0) as app:
            handle = await app.start(called())
            while CALLS != ["begins"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            async with redrive.open(address, poll=0.1) as other:
                await idle(other)
                app.stop()
                for _ in range(20):
                    # Given back too early, it would be in the log by now.
                    assert not await returns(other, handle.id)
                assert CALLS == ["begins", "cleans up"]
                GATES["clean"].set()
                assert await other.handle(handle.id).result(timeout=10) == outcome
                assert await returns(other, handle.id) == returned

    asyncio.run(scenario())
    assert CALLS[:3] == ["begins", "cleans up", "is clean"][: 2 + returned]


async def returns(app: redrive.App, flow_id: str) -> int:
    return sum(isinstance(line.event, AttemptReturned) for line in await app.log(flow_id))


@action(name="stopping.charges", retry=Policy(attempts=3, idempotent=False))
async def charges() -> str:
    CALLS.append("charges")
    await asyncio.Event().wait()
    return "unreached"


@pytest.mark.promise("A14", "P10")
@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_an_attempt_of_work_that_is_not_idempotent_is_lost_not_returned_when_its_worker_stops(address: str) -> None:
    """It may have taken effect: the next worker must not repeat it as if it had never run."""

    async def scenario() -> None:
        async with redrive.open(address, poll=0.1, grace=0) as app:
            handle = await app.start(charges())
            while CALLS != ["charges"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        async with redrive.open(address, poll=0.1) as app:
            with pytest.raises(redrive.errors.AttemptLostError):
                await app.handle(handle.id).result(timeout=10)
            assert await returns(app, handle.id) == 0
        assert CALLS == ["charges"]

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_an_app_whose_closing_is_cancelled_leaves_nothing_behind(address: str) -> None:
    async def scenario() -> None:
        GATES["long"] = asyncio.Event()
        app = redrive.open(address, grace=60, lease=60)
        flows: list[str] = []

        async def use() -> None:
            async with app:
                await idle(app)
                flows.append((await app.start(held("long"))).id)

        using = asyncio.get_running_loop().create_task(use())
        async with asyncio.timeout(10):
            while app._worker is None or not app._worker.stopping.is_set():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        await some_turns()
        using.cancel()
        await asyncio.wait([using])
        assert using.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(redrive.errors.StoreError, match=r"is closed|is not open"):
            await app.flows()
        async with redrive.open(address, worker=False) as other:
            assert await other.handle(flows[0]).status() == "ready"

    asyncio.run(scenario())


class Dies(MemoryStore):
    """It takes nothing more from a moment on, and does not answer who leaves it."""

    is_dead = False

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        self._check()
        return await super().extend_lease(lease, ttl)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        self._check()
        await super().commit(lease, batch)

    async def release_lease(self, lease: Lease) -> None:
        await asyncio.Event().wait()

    def _check(self) -> None:
        if self.is_dead:
            raise redrive.errors.StoreUnavailableError("dead")


def test_an_app_whose_store_is_dead_is_closed_within_its_lease_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown, "LAST_CALL", 0.01)

    async def scenario() -> None:
        store = Dies()
        GATES["long"] = asyncio.Event()
        async with asyncio.timeout(10):
            async with redrive.open(store, grace=0, lease=0.5) as app:
                await idle(app)
                await app.start(held("long"))
                store.is_dead = True
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_shutdown_that_is_interrupted_runs_no_code_of_the_flows() -> None:
    called: list[str] = []

    @action(name="shutdown.clean_slowly")
    async def clean_slowly() -> None:
        called.append("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            called.append("cancelled")
            await asyncio.sleep(0.5)
            raise

    @action(name="shutdown.note")
    async def note() -> None:
        called.append("note")

    @workflow(name="shutdown.Tidy")
    class Tidy(Workflow):
        async def run(self) -> None:
            try:
                await clean_slowly()
            finally:
                await note()

    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            worker = Worker(app.store)
            running = asyncio.create_task(worker.run())
            await app.start(Tidy.call())
            for expected in ("began", "cancelled"):
                while expected not in called:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
                # The second time, it is closing already.
                running.cancel()
            await asyncio.wait([running])

    asyncio.run(scenario())
    gc.collect()
    assert "note" not in called


def test_the_log_tells_of_the_stop_and_what_was_given_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "redrive")

    async def scenario() -> None:
        GATES["clean"] = asyncio.Event()
        GATES["clean"].set()
        async with redrive.open("memory://", poll=0.1, grace=0.01) as app:
            await app.start(tidies())
            while CALLS != ["begins"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)

    asyncio.run(scenario())
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "stopping: 1 attempt runs, grace 10ms",
        "stopped; 1 attempt given back uncounted: it is made again by another worker",
    ]

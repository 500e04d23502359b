"""What a worker keeps in memory, when it looks for more, and whom it answers when it ends."""

import asyncio
import copy
from typing import Any

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.errors import StoreUnavailableError
from redrive.testing import flow_app


@action(name="worker.quick")
async def quick() -> int:
    return 1


@workflow(name="worker.Sleeps")
class Sleeps(Workflow):
    async def run(self) -> None:
        await asyncio.sleep(3)


@workflow(name="worker.SleepsLong")
class SleepsLong(Workflow):
    async def run(self) -> int:
        for _ in range(20):
            await asyncio.sleep(3600)
        return await quick()


def test_a_flow_that_leaves_memory_to_wait_is_looked_for_when_it_wakes(address: str) -> None:
    """And not only once the worker has looked around: on a virtual clock that takes longer than all the rest."""

    async def scenario() -> int:
        async with flow_app(address, poll=3600.0) as app:
            outcome = await app.outcome(await app.start(SleepsLong.call()))
            assert outcome.duration == 20 * 3600
            return outcome.result  # type: ignore[no-any-return]

    assert asyncio.run(scenario()) == 1


def test_whoever_starts_a_flow_is_answered_though_the_worker_cannot_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", grace=0.0) as app:
            await (await app.start(quick())).result(timeout=10)
            committing = asyncio.Event()

            async def hangs(*_: Any) -> Any:
                committing.set()
                await asyncio.Event().wait()

            async def breaks(*_: Any) -> Any:
                raise RuntimeError("broken")

            monkeypatch.setattr(app.store, "commit", hangs)
            monkeypatch.setattr(app.store, "release_lease", breaks)
            starting = asyncio.create_task(app.start(quick()))
            await committing.wait()
            assert app._working is not None
            app._working.cancel()
            done, _ = await asyncio.wait([starting], timeout=5)
            assert done
            assert await starting.result().status() == "ready"

    asyncio.run(scenario())


def test_a_run_that_is_forgotten_late_leaves_the_next_run_of_its_flow_where_it_waits() -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", grace=0.0) as app:
            handle = await app.start(Sleeps.call())
            worker = app._worker
            while worker is None or not worker.flows.is_idle(handle.id):
                await asyncio.sleep(0.001)
                worker = app._worker
            waiting = worker.flows.by_id[handle.id]
            worker.flows.remove(copy.copy(waiting))
            assert worker.flows.by_id[handle.id] is waiting
            assert worker.flows.is_idle(handle.id)

    asyncio.run(scenario())


def test_a_worker_that_is_told_to_stop_while_it_cannot_join_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            asked = asyncio.Event()

            async def is_away(*_: Any) -> Any:
                asked.set()
                raise StoreUnavailableError("away")

            monkeypatch.setattr(app.store, "acquire_lease", is_away)
            working = asyncio.create_task(app.work())
            await asked.wait()
            app.stop()
            done, _ = await asyncio.wait([working], timeout=5)
            assert done

    asyncio.run(scenario())


@action(name="worker.one_slot")
async def one_slot(number: int) -> int:
    await asyncio.sleep(0)
    return number


@workflow(name="worker.SharesOneSlot")
class SharesOneSlot(Workflow):
    async def run(self) -> list[int]:
        return await asyncio.gather(*(one_slot(number) for number in range(5)))


@pytest.mark.promise("A13")
def test_times_in_a_log_never_go_back_though_items_hand_their_slot_to_each_other() -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", concurrency=1) as app:
            handle = await app.start(SharesOneSlot.call())
            assert await handle.result(timeout=10) == [0, 1, 2, 3, 4]
            times = [line.at for line in await app.read_lines(handle.id)]
            assert times == sorted(times)

    asyncio.run(scenario())

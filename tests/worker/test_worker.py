"""What a worker keeps in memory, when it looks for more, and whom it answers when it ends."""

import asyncio
import copy
from typing import Any

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.errors import StoreUnavailableError
from redrive.testing import flow_app
from redrive.worker.flow.attempt_starter import AttemptStarter


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


@pytest.mark.promise("P17")
@pytest.mark.parametrize("paused", [False, True])
def test_a_flow_that_starts_later_begins_at_its_time_though_it_was_claimed_early_for_a_message(paused: bool) -> None:
    async def scenario() -> None:
        async with flow_app() as app:
            handle = await app.start(quick(), delay=2)
            if paused:
                await handle.pause()
            await handle.resume()
            outcome = await app.outcome(handle, within=10)
            assert outcome.result == 1
            assert outcome.lines[-1].at - (await app.find(handle.id)).created_at >= 2

    asyncio.run(scenario())


def test_one_idle_flow_makes_room_for_one_more_and_the_others_stay_in_memory() -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", flows=5, grace=0.0) as app:
            handles = [await app.start(Sleeps.call()) for _ in range(6)]
            worker = app._worker
            assert worker is not None
            async with asyncio.timeout(10):
                while len(worker.flows) > 5 or (await handles[0].status()) != "waiting":  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            assert len(worker.flows) == 5
            assert [await handle.status() for handle in handles[1:]] == ["running"] * 5

    asyncio.run(scenario())


@pytest.mark.promise("P17")
def test_a_fault_in_the_flow_that_gets_a_slot_harms_neither_the_slot_nor_the_flow_that_freed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    really_begin = AttemptStarter._begin
    broken: set[str] = set()

    def begin(starter: AttemptStarter, *args: Any) -> bool:
        if starter._log.flow_id in broken:
            broken.clear()
            raise RuntimeError("a bug of the engine")
        return really_begin(starter, *args)

    monkeypatch.setattr(AttemptStarter, "_begin", begin)
    may_end = asyncio.Event()

    @action(name="worker.holds_slot")
    async def holds_slot() -> str:
        await may_end.wait()
        return "done"

    @action(name="worker.of_another_kind")
    async def of_another_kind() -> int:
        return 1

    async def scenario() -> None:
        async with redrive.open("memory://", concurrency=1) as app:
            first = await app.start(holds_slot())
            second = await app.start(quick())
            # A worker takes no more of a kind that stands in line.
            third = await app.start(of_another_kind())
            async with asyncio.timeout(10):
                while app._worker is None or sum(map(len, app._worker.slots._waiting.values())) < 2:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            broken.add(second.id)
            may_end.set()
            assert await first.result(timeout=10) == "done"
            assert await third.result(timeout=10) == 1
            assert await second.status() == "parked"

    asyncio.run(scenario())

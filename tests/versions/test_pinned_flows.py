"""Flows that are pinned to a version of the code are left to workers of that version, until someone moves them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.errors import FlowFinishedError, InvalidStateError
from redrive.explain.explanation import explain_text
from redrive.flows.version_events import VersionChanged

OLD, NEW = "2026-11-18", "2026-11-19"


@action(name="pinned.note")
async def note(text: str) -> str:
    return text


@workflow(name="pinned.Stays", pinned=True)
class Stays(Workflow):
    async def run(self, seconds: float) -> str:
        await note("one")
        await asyncio.sleep(seconds)
        return await note("two")


@workflow(name="pinned.Free")
class Free(Workflow):
    async def run(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"


@asynccontextmanager
async def worker(address: str, version: str = "", **settings: Any) -> AsyncIterator[redrive.App]:
    async with redrive.open(address, version=version, poll=0.05, grace=0, **settings) as app:
        yield app


async def version_of(app: redrive.App, flow_id: str) -> str | None:
    return (await app.find(flow_id)).version


async def waits(app: redrive.App, flow_id: str) -> None:
    async with asyncio.timeout(20):
        while (await app.find(flow_id)).status != "waiting" or not await app.log(flow_id):  # noqa: ASYNC110 - it happens in a store
            await asyncio.sleep(0.01)


def kept(address: str) -> str:
    if address == "memory://":
        pytest.skip("a store in memory ends with its app")
    return address


@pytest.mark.promise("E11")
def test_only_workers_of_its_version_go_on_with_a_pinned_flow(address: str) -> None:
    address = kept(address)

    async def story() -> None:
        async with worker(address, OLD) as app:
            eager, keyed = await app.start(Stays.call(6.0)), await app.start(Stays.call(6.0), key="k")
            free = await app.start(Free.call(0.5))
            for one in (eager, keyed):
                await waits(app, one.id)
                assert await version_of(app, one.id) == OLD
            assert await version_of(app, free.id) is None
            [shown] = await app.store.list_workers()
            assert shown.version == OLD
        for other in (NEW, ""):
            async with worker(address, other) as app:
                assert await free.__class__(free.id, app._flows, app._results).result(20) == "done"
                await asyncio.sleep(0.3)
                record = await app.find(keyed.id)
                assert (record.status, record.owner) in (("waiting", None), ("ready", None))
                text = explain_text(await app.explain(keyed.id))
                assert f"a worker of version {OLD}, and none is alive" in text
        async with worker(address, OLD) as app:
            assert await app.handle(eager.id).result(20) == "two"
            assert await app.handle(keyed.id).result(20) == "two"

    asyncio.run(story())


@pytest.mark.promise("E11")
def test_a_flow_is_moved_to_another_version_without_a_worker_of_its_own(address: str) -> None:
    address = kept(address)

    async def story() -> None:
        async with worker(address, OLD) as app:
            moved, unpinned = await app.start(Stays.call(6.0)), await app.start(Stays.call(6.0))
            for one in (moved, unpinned):
                await waits(app, one.id)
        async with redrive.open(address, worker=False) as app:
            await app.handle(moved.id).move_to_version(NEW, by="ann", why="its workers are gone")
            await app.handle(unpinned.id).move_to_version(None, by="ann", why="the new code fits")
            with pytest.raises(InvalidStateError, match=f"is pinned to version {NEW} already"):
                await app.handle(moved.id).move_to_version(NEW, why="again")
            assert [await version_of(app, one.id) for one in (moved, unpinned)] == [NEW, None]
            [change] = [line.event for line in await app.read_lines(moved.id) if isinstance(line.event, VersionChanged)]
            assert change == VersionChanged(version=NEW, by="ann", why="its workers are gone")
            assert f"pinned to version {NEW} by ann (its workers are gone)" in explain_text(await app.explain(moved.id))
        async with worker(address, NEW) as app:
            for one in (moved, unpinned):
                assert await app.handle(one.id).result(20) == "two"
            with pytest.raises(FlowFinishedError):
                await app.handle(moved.id).move_to_version(None, why="late")

    asyncio.run(story())


@pytest.mark.promise("E11")
def test_a_worker_can_pin_all_that_it_begins(address: str) -> None:
    async def story() -> None:
        async with worker(address, NEW, pin=True) as app:
            job = await app.start(note("x"))
            assert await job.result(20) == "x"
            assert await version_of(app, job.id) == NEW

    asyncio.run(story())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"pin": True}, "pin: .*version="), ({"version": "a\nb"}, "version: .*control characters")],
)
def test_bad_settings_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        redrive.open("memory://", **settings)

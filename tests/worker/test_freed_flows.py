"""A flow that has ended, or left memory, is freed at once: a fleet of waiting flows must not wait for the collector."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from redrive import Workflow, action, workflow
from redrive.testing import flow_app


@action(name="freed_flows.work")
async def work() -> None: ...


@workflow(name="freed_flows.Nap")
class Nap(Workflow):
    async def run(self) -> None:
        await work()
        await asyncio.sleep(3600)


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.promise("X8")
@pytest.mark.usefixtures("without_collector")
def test_a_flow_that_left_memory_is_freed_without_the_garbage_collector() -> None:
    async def scenario() -> None:
        async with flow_app() as app:
            await (await app.start(work())).result()
            await app.settled(await app.start(Nap.call()))
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()

    asyncio.run(scenario())
    parts = {type(part).__name__ for part in gc.garbage if type(part).__module__.startswith("redrive.worker")}
    assert parts == set()

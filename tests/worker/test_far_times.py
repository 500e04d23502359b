"""Times beyond all measure: each ends where it stands, and takes nothing from the other flows."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.client.app import App
from redrive.flows.events import TimerSet
from redrive.policies.backoff import LONGEST_WAIT
from redrive.stores.leases import NewWorker
from redrive.stores.records import Batch, EventRow
from redrive.testing.store_conformance.flows import retry


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[App]:
    async with redrive.open(address, poll=0.2) as app:
        yield app


async def status_is(app: App, flow_id: str, status: str) -> None:
    async with asyncio.timeout(10):
        while (await app.find(flow_id)).status != status:  # noqa: ASYNC110 - the status is in a store
            await asyncio.sleep(0.01)


@action(name="far.greet")
async def greet(whom: str) -> str:
    return f"hello {whom}"


@action(name="far.snooze")
async def snooze(seconds: float) -> None:
    raise redrive.Snooze(seconds)


@action(name="far.ask", retry=redrive.Policy(attempts=3, max_retry_after=None, deadline=None))
async def ask_for_time(seconds: float) -> None:
    raise redrive.RetryAfter(seconds)


@workflow(name="far.Sleeps")
class Sleeps(Workflow):
    async def run(self, years: float) -> str:
        await asyncio.sleep(math.inf if years < 0 else years * 365 * 86_400)
        return "awake"


@workflow(name="far.Waits")
class Waits(Workflow):
    async def run(self) -> str:
        return await asyncio.wait_for(greet("ann"), math.inf)


@workflow(name="far.Never")
class Never(Workflow):
    async def run(self) -> None:
        await asyncio.sleep(math.nan)


@pytest.mark.parametrize("years", [-1.0, 1e6, 1e12], ids=["for ever", "a million years", "longer"])
def test_a_timer_that_never_comes_waits_is_explained_and_is_cancelled(address: str, years: float) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            flow = await app.start(Sleeps.call(years))
            await status_is(app, flow.id, "waiting")
            # The others go on.
            assert await (await app.start(greet("bob"))).result(timeout=10) == "hello bob"
            [line] = await app.log(flow.id)
            assert isinstance(line.event, TimerSet)
            assert line.event.until == pytest.approx(line.at + LONGEST_WAIT)
            assert "waiting for timer 1" in (await app.explain(flow.id)).headline
            await flow.cancel(why="enough")
            with pytest.raises(redrive.FlowCancelledError):
                await flow.result(timeout=10)

    asyncio.run(scenario())


def test_work_that_comes_back_in_ages_waits_for_as_long_as_anything_does(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            for call in (snooze(1e15), ask_for_time(1e15)):
                flow = await app.start(call)
                await status_is(app, flow.id, "waiting")
            assert await (await app.start(greet("bob"))).result(timeout=10) == "hello bob"
            assert len(await app.retries()) == 2

    asyncio.run(scenario())


def test_a_limit_that_never_comes_limits_nothing(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            flow = await app.start(Waits.call())
            assert await flow.result(timeout=10) == "hello ann"
            assert await app.handle(flow.id).result(timeout=10) == "hello ann"
            assert (await app.explain(flow.id)).status == "completed"

    asyncio.run(scenario())


def test_a_time_that_is_no_number_fails_the_flow_with_what_is_wrong() -> None:
    async def scenario() -> None:
        async with opened("memory://") as app:
            with pytest.raises(ValueError, match="NaN"):
                await (await app.start(Never.call())).result(timeout=10)

    asyncio.run(scenario())


def test_a_start_in_ages_is_refused() -> None:
    async def scenario() -> None:
        async with opened("memory://") as app:
            with pytest.raises(ValueError, match="delay: a flow begins within ten years"):
                await app.start(greet("ann"), delay=1e13)

    asyncio.run(scenario())


def test_a_logged_timer_that_no_calendar_has_is_told_as_a_number() -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            flow = await app.start(Sleeps.call(0.0))
            lease = await app.store.acquire_lease(NewWorker(name="older", definitions=("workflow:far.Sleeps",)), 60)
            assert (await app.store.claim(lease, ["workflow:far.Sleeps"], None, 1, app.now() + 1)).flows
            line = EventRow(flow.id, 1, app.now(), '[{"type":"timer_set","timer":1,"until":1e15}]')
            await app.store.commit(lease, Batch(number=1, events=[line]))
            await app.store.release_lease(lease)
            working = asyncio.get_running_loop().create_task(app.work())
            await status_is(app, flow.id, "parked")
            app.stop()
            await working
            assert "a timer until 1000000000000000.000; the code now says" in (await app.explain(flow.id)).headline

    asyncio.run(scenario())


def test_a_log_that_cannot_be_read_is_parked_once_and_a_cancel_ends_it(address: str) -> None:
    """What is left in its inbox must not wake it again and again."""

    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            flow = await app.start(Sleeps.call(0.0))
            store = app.store
            lease = await store.acquire_lease(NewWorker(name="newer", definitions=("workflow:far.Sleeps",)), 60)
            assert (await store.claim(lease, ["workflow:far.Sleeps"], None, 1, app.now() + 1)).flows
            line = EventRow(flow.id, 1, app.now(), '[{"type":"of_a_newer_version","item":1}]')
            await store.commit(lease, Batch(number=1, events=[line], retries=[retry(flow.id, 1)]))
            await store.release_lease(lease)
            await _parked_then_cancelled(app, flow)

    async def _parked_then_cancelled(app: App, flow: redrive.Handle[str]) -> None:
        from redrive.worker.worker import Worker

        worker = Worker(app.store)
        working = asyncio.get_running_loop().create_task(worker.run())
        try:
            await status_is(app, flow.id, "parked")
            await flow.cancel(why="nobody can read it")
            await status_is(app, flow.id, "cancelled")
        finally:
            worker.stop()
            await working
        rows = (await app.store.read_events([flow.id]))[flow.id]
        assert [row.body.partition('"type":')[2][:20] for row in rows] == [
            '"of_a_newer_version"',
            '"flow_parked","probl',
            '"cancel_requested","',
        ]
        assert not await app.retries()

    asyncio.run(scenario())

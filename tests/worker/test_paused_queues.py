"""Paused queues: no attempt of their flows begins anywhere in the fleet, and what runs may finish."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.client.app import App
from redrive.stores.records import FlowQuery

gates: dict[str, asyncio.Event] = {}
begun: list[str] = []
QUICK = RetryPolicy(attempts=3, exception_types=(ConnectionError,), backoff_seconds=0.05, jitter=0)


@pytest.fixture(autouse=True)
def fresh() -> None:
    gates.clear()
    begun.clear()


def gate(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


@action(name="paused.flaky", retry=QUICK)
async def flaky(name: str) -> str:
    """Fails once its gate is open, and succeeds from then on."""
    begun.append(name)
    first = begun.count(name) == 1
    await gate(name).wait()
    if first:
        raise ConnectionError("down")
    return name


@action(name="paused.step")
async def step(name: str) -> str:
    begun.append(name)
    await gate(name).wait()
    return name


@action(name="paused.in_thread")
def in_thread(name: str) -> str:
    begun.append(name)
    return name


@workflow(name="paused.TwoSteps")
class TwoSteps(Workflow):
    async def run(self, name: str) -> str:
        await self.run_action(step(f"{name}/1"))
        return await self.run_action(step(f"{name}/2"))


@workflow(name="paused.Sleeps")
class Sleeps(Workflow):
    async def run(self, name: str) -> str:
        begun.append(f"{name} before")
        await asyncio.sleep(0.5)
        begun.append(f"{name} after")
        return name


@workflow(name="paused.WithinAnHour")
class WithinAnHour(Workflow):
    async def run(self, name: str) -> str:
        async with asyncio.timeout(3600):
            await self.run_action(step(f"{name}/1"))
            return await self.run_action(step(f"{name}/2"))


@asynccontextmanager
async def opened(address: str, **settings: Any) -> AsyncIterator[App]:
    async with redrive.open(address, **{"poll": 0.1, **settings}) as app:
        yield app


async def eventually(condition: Callable[[], Awaitable[object]], patience: float = 10.0) -> None:
    async with asyncio.timeout(patience):
        while not await condition():  # noqa: ASYNC110 - the condition is in a store
            await asyncio.sleep(0.01)


async def has_begun(name: str, times: int = 1) -> None:
    async def seen() -> bool:
        return begun.count(name) >= times

    await eventually(seen)


async def rests(app: App, flow_id: str, *statuses: str) -> None:
    """Wait until the flow is in the store, owned by nobody."""

    async def is_released() -> bool:
        return (await app.find(flow_id)).status in (statuses or ("ready", "waiting"))

    await eventually(is_released)


async def told(app: App) -> None:
    """Wait until the worker of the app knows all that the store says now."""
    other = await app.start(in_thread("probe"), queue="probe", key=f"probe {begun.count('probe')}")
    await other.result()


def test_a_paused_queue_begins_nothing_until_it_is_resumed(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            assert await app.pause_queue("mail", by="ann", why="the bank is down")
            await told(app)
            keyed = await app.start(in_thread("keyed"), queue="mail", key="k")
            eager = await app.start(in_thread("eager"), queue="mail")
            later = await app.start(in_thread("later"), queue="mail", delay=0.05)
            free = await app.start(in_thread("free"))
            assert await free.result() == "free"
            await asyncio.sleep(0.3)
            assert begun == ["probe", "free"]
            assert not await app.pause_queue("mail", by="bob", why="again")
            (queue,) = [one for one in await app.queues() if one.name == "mail"]
            assert queue.pause is not None
            assert (queue.pause.by, queue.pause.why) == ("ann", "the bank is down")
            assert await app.resume_queue("mail")
            assert not await app.resume_queue("mail")
            assert [await one.result() for one in (keyed, eager, later)] == ["keyed", "eager", "later"]

    asyncio.run(play())


def test_running_attempts_finish_and_the_next_step_waits(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            flow = await app.start(TwoSteps.call("a"), queue="mail")
            await has_begun("a/1")
            await app.pause_queue("mail", by="ann", why="no mail today")
            await told(app)
            assert "; queue mail was paused by ann" in (await app.explain(flow.id)).headline
            gate("a/1").set()
            await rests(app, flow.id)
            assert begun == ["a/1", "probe"]
            explained = await app.explain(flow.id)
            assert explained.headline.startswith("held: queue mail was paused by ann (no mail today) at ")
            assert explained.next_steps[0].command == "redrive queues resume mail --why WHY"
            await app.resume_queue("mail")
            gate("a/2").set()
            assert await flow.result() == "a/2"
            assert begun == ["a/1", "probe", "a/2"]

    asyncio.run(play())


def test_retries_of_a_paused_queue_wait(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            flow = await app.start(flaky("a"), queue="mail")
            await has_begun("a")
            await app.pause_queue("mail", by="ann", why="")
            await told(app)
            gate("a").set()
            await rests(app, flow.id)
            await asyncio.sleep(0.2)
            assert begun == ["a", "probe"]
            await app.resume_queue("mail")
            assert await flow.result() == "a"
            assert begun == ["a", "probe", "a"]

    asyncio.run(play())


def test_a_retry_that_waits_in_memory_is_held_too(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            gate("a").set()
            slow = RetryPolicy(attempts=3, exception_types=(ConnectionError,), backoff_seconds=1.0, jitter=0)
            flow = await app.start(flaky("a"), queue="mail", retry=slow)
            await has_begun("a")
            await app.pause_queue("mail", by="ann", why="")
            await rests(app, flow.id)
            await asyncio.sleep(1.2)
            assert begun == ["a"]
            await app.resume_queue("mail")
            assert await flow.result() == "a"

    asyncio.run(play())


def test_a_timer_of_a_flow_in_a_paused_queue_waits(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            flow = await app.start(Sleeps.call("a"), queue="mail")
            await has_begun("a before")
            await app.pause_queue("mail", by="ann", why="")
            await rests(app, flow.id)
            await asyncio.sleep(0.7)
            # The code may be replayed by whoever takes the flow next, but not now.
            assert "a after" not in begun
            await app.resume_queue("mail")
            assert await flow.result() == "a"

    asyncio.run(play())


def test_items_that_wait_for_a_slot_give_up_their_place(address: str) -> None:
    async def play() -> None:
        async with opened(address, concurrency=1) as app:
            running = await app.start(step("running"), queue="other", key="r")
            await has_begun("running")
            held = await app.start(step("held"), queue="mail", key="h")

            async def is_claimed() -> bool:
                return (await app.find(held.id)).status == "running"

            await eventually(is_claimed)
            await app.pause_queue("mail", by="ann", why="")
            await rests(app, held.id)
            gate("running").set()
            assert await running.result() == "running"
            assert begun == ["running"]
            gate("held").set()
            await app.resume_queue("mail")
            assert await held.result() == "held"

    asyncio.run(play())


def test_a_step_that_was_held_does_not_wait_for_a_later_timer_of_its_flow(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            flow = await app.start(WithinAnHour.call("a"), queue="mail")
            await has_begun("a/1")
            await app.pause_queue("mail", by="ann", why="")
            await told(app)
            gate("a/1").set()
            await rests(app, flow.id)
            gate("a/2").set()
            await app.resume_queue("mail")
            async with asyncio.timeout(10):
                assert await flow.result() == "a/2"

    asyncio.run(play())


def test_a_place_in_line_for_a_slot_is_not_traded_for_a_later_timer(address: str) -> None:
    async def play() -> None:
        async with opened(address, concurrency=1) as app:
            running = await app.start(step("running"), queue="other", key="r")
            await has_begun("running")
            held = await app.start(WithinAnHour.call("a"), queue="mail", key="h")
            worker = app._worker
            assert worker is not None

            async def is_in_line() -> bool:
                return worker.slots.has_waiters

            await eventually(is_in_line)
            await app.pause_queue("mail", by="ann", why="")
            await rests(app, held.id)
            for name in ("running", "a/1", "a/2"):
                gate(name).set()
            assert await running.result() == "running"
            await app.resume_queue("mail")
            async with asyncio.timeout(10):
                assert await held.result() == "a/2"

    asyncio.run(play())


def test_a_worker_without_room_learns_of_a_pause_as_well(address: str) -> None:
    async def play() -> None:
        async with opened(address, flows=1, concurrency=1) as app:
            flow = await app.start(TwoSteps.call("a"), queue="mail", key="a")
            await has_begun("a/1")
            waiting = await app.start(step("b"), queue="mail", key="b")
            await app.pause_queue("mail", by="ann", why="")
            worker = app._worker
            assert worker is not None

            async def knows() -> bool:
                return "mail" in worker.paused_queues.names

            await eventually(knows)
            gate("a/1").set()
            await rests(app, flow.id)
            assert begun == ["a/1"]
            for name in ("a/2", "b"):
                gate(name).set()
            await app.resume_queue("mail")
            assert (await flow.result(), await waiting.result()) == ("a/2", "b")

    asyncio.run(play())


def test_a_pause_holds_for_every_worker_and_outlives_them(address: str) -> None:
    if address == "memory://":
        pytest.skip("a store in memory belongs to one app")

    async def play() -> None:
        async with opened(address, worker=False) as app:
            await app.pause_queue("mail", by="ann", why="")
            flow = await app.start(in_thread("a"), queue="mail")
        async with opened(address) as first, opened(address) as second:
            await told(first)
            await told(second)
            assert "a" not in begun
            await second.resume_queue("mail")
            assert await first.handle(flow.id).result() == "a"

    asyncio.run(play())


def test_a_cancellation_takes_effect_once_the_queue_is_resumed(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            await app.pause_queue("mail", by="ann", why="")
            await told(app)
            flow = await app.start(in_thread("a"), queue="mail")
            await flow.cancel(by="ann", why="not needed")
            await app.resume_queue("mail")
            with contextlib.suppress(redrive.FlowCancelledError):
                await flow.result()
            assert (await app.find(flow.id)).status == "cancelled"
            assert "a" not in begun

    asyncio.run(play())


def test_what_a_paused_queue_is_given_back_is_listed(address: str) -> None:
    async def play() -> None:
        async with opened(address) as app:
            await app.pause_queue("mail", by="ann", why="")
            await told(app)
            for number in range(20):
                await app.start(in_thread(f"{number}"), queue="mail")
            (queue,) = [one for one in await app.queues() if one.name == "mail"]
            assert (queue.ready, queue.running) == (20, 0)
            assert len(await app.flows(FlowQuery(queue="mail"))) == 20
            await app.resume_queue("mail")

            async def all_done() -> bool:
                return len(await app.flows(FlowQuery(queue="mail", status=("completed",)))) == 20

            await eventually(all_done)

    asyncio.run(play())

"""Flows that wait for very many things at once: each costs the same, however many there are."""

import asyncio
import gc
import itertools
import sys
from typing import Any

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.flows.commands import StartTimer
from redrive.flows.workflows.loop import FlowFuture, FlowTask
from redrive.testing import run_flow
from redrive.worker.flow import flow_run
from redrive.worker.flow.flow_run import FlowRun


@action(name="waits.answer")
async def answer(number: int) -> int:
    return number


@action(name="waits.timers")
async def timers() -> int:
    """Those that are in memory."""
    return sum(type(one) is StartTimer for one in gc.get_objects())


@action(name="waits.never_answers")
async def never_answers() -> None:
    await asyncio.Event().wait()


@action(name="waits.awaited_items")
async def awaited_items() -> int:
    """Those that are in memory."""
    gc.collect()
    return sum(type(one) is FlowFuture and one.command is not None for one in gc.get_objects())


@workflow(name="waits.AsksInVain")
class AsksInVain(Workflow):
    async def run(self, many: int, is_at_once: bool) -> int:
        for _ in range(many):
            asked = asyncio.create_task(never_answers())
            await (asyncio.sleep(0) if is_at_once else answer(1))
            asked.cancel()
            await answer(1)
        await answer(2)
        return await awaited_items()


@workflow(name="waits.EachInTime")
class EachInTime(Workflow):
    async def run(self, many: int) -> int:
        return sum(await asyncio.gather(*(asyncio.wait_for(answer(number), 3600) for number in range(many))))


@workflow(name="waits.OneByOneInTime")
class OneByOneInTime(Workflow):
    async def run(self, many: int) -> int:
        async with asyncio.timeout(60):
            for number in range(many):
                await asyncio.wait_for(answer(number), 3600)
            return await timers()


@workflow(name="waits.SleepsInEach")
class SleepsInEach(Workflow):
    async def run(self, many: int, seconds: float) -> int:
        return sum(await asyncio.gather(*(asyncio.sleep(seconds, 1) for _ in range(many))))


def calls_to_rest(monkeypatch: pytest.MonkeyPatch, many: int) -> int:
    """Function calls that it takes to find out what comes next, each time that something happened."""
    calls = 0
    really_rest = FlowRun.rest

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event == "call"

    def rest(run: FlowRun, at: float) -> Any:
        sys.setprofile(count)
        try:
            return really_rest(run, at)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(FlowRun, "rest", rest)
    assert run_flow(EachInTime.call(many)).result == many * (many - 1) // 2
    monkeypatch.undo()
    return calls


def test_eight_times_as_many_timers_take_about_eight_times_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (calls_to_rest(monkeypatch, timers) for timers in (100, 800))
    # Sixty-four times, if each had to look at all of them. How often anyone looks depends on the machine, too.
    assert 0 < many < 24 * few


def test_timers_that_nobody_awaits_any_more_are_forgotten_though_another_comes_before_them() -> None:
    gc.collect()
    before = asyncio.run(timers.function())
    assert run_flow(OneByOneInTime.call(600)).result - before < 400


@pytest.mark.parametrize("is_at_once", [False, True])
def test_items_that_nobody_awaits_any_more_are_forgotten(is_at_once: bool) -> None:
    gc.collect()
    before = asyncio.run(awaited_items.function())
    assert run_flow(AsksInVain.call(200, is_at_once)).result - before < 100


def looks_at_tasks(monkeypatch: pytest.MonkeyPatch, many: int) -> int:
    """How often a flow with so many tasks asks of one whether it has ended."""
    looks = 0

    def done(task: FlowTask) -> bool:
        nonlocal looks
        looks += 1
        return asyncio.Task.done(task)

    monkeypatch.setattr(FlowTask, "done", done, raising=False)
    assert run_flow(SleepsInEach.call(many, 60)).result == many
    monkeypatch.undo()
    return looks


def test_four_times_as_many_tasks_take_about_four_times_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (looks_at_tasks(monkeypatch, tasks) for tasks in (500, 2000))
    # Sixteen times, if all of them were looked at again after so many new ones: 100,000 held their worker up for longer
    # than its lease.
    assert 0 < many < 8 * few


def test_others_have_their_turn_though_very_many_timers_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_run, "DUE_AT_ONCE", 10)
    fired = 0
    really_fire = FlowRun._fire_timer

    def fire(run: FlowRun, timer: int, at: float) -> None:
        nonlocal fired
        fired += 1
        really_fire(run, timer, at)

    monkeypatch.setattr(FlowRun, "_fire_timer", fire)

    async def story() -> list[int]:
        seen: list[int] = []
        async with redrive.open("memory://") as app:
            sleeping = asyncio.ensure_future((await app.start(SleepsInEach.call(100, 0.02))).result(timeout=10))
            while not sleeping.done():
                seen.append(fired)
                await asyncio.sleep(0)
            assert sleeping.result() == 100
        return seen

    seen = asyncio.run(story())
    assert fired == 100
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) == 10


def test_a_flow_with_more_timers_due_than_fit_into_one_turn_is_not_given_back_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be replayed for each turn, where another flow takes its room in memory."""
    monkeypatch.setattr(flow_run, "DUE_AT_ONCE", 2)
    begun, let_go = asyncio.Event(), asyncio.Event()

    @action(name="waits.holds_the_room")
    async def holds_the_room() -> None:
        begun.set()
        await let_go.wait()

    async def story() -> int:
        async with redrive.open("memory://", flows=1) as app:
            sleeps = await app.start(SleepsInEach.call(10, 0.2))
            await app.start(holds_the_room())
            await begun.wait()
            assert await sleeps.result(timeout=10) == 10
            let_go.set()
            return (await app.find(sleeps.id)).claims

    assert asyncio.run(story()) == 1

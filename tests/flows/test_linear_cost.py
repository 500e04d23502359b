"""The cost of many equal calls, and of matching them with a log, grows with their number and no faster."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from redrive import Workflow, action, workflow
from redrive.flows import recorded_commands
from redrive.flows.action import ActionCall
from redrive.flows.commands import CancelItem, ScheduleItem, StartTimer
from redrive.flows.events import ItemCancelled, ItemStarted, Line, TimerSet
from redrive.flows.recorded_commands import RecordedCommands
from redrive.policies.policy import DEFAULT_POLICY
from redrive.testing import flow_app, run_flow

pytestmark = pytest.mark.promise("X7")

MANY = 2000


@action(name="linear.ping")
async def ping(number: int = 0, tags: frozenset[str] = frozenset()) -> int:
    return number


def test_each_of_many_equal_calls_has_a_hash_of_its_own_which_a_replay_repeats() -> None:
    """asyncio puts awaitables into dicts and sets: calls with the same hash are compared with one another."""
    hashes: list[list[int]] = []

    @workflow(name="linear.Hashes")
    class Hashes(Workflow):
        async def run(self) -> int:
            calls = [ping() for _ in range(MANY)]
            hashes.append([hash(call) for call in calls])
            done = await asyncio.gather(*calls)
            await asyncio.sleep(3600)  # it leaves memory, and is replayed
            return len(done)

    assert run_flow(Hashes.call()).result == MANY
    live, replayed = hashes
    assert len(set(live)) == MANY
    assert live == replayed


def test_calls_made_outside_of_flows_differ_too() -> None:
    async def story() -> list[int]:
        calls = [ping(7) for _ in range(100)]
        assert len({hash(call) for call in calls}) == len(calls)
        return [*await asyncio.gather(*calls)]

    assert asyncio.run(story()) == [7] * 100


def test_a_call_given_twice_is_made_once() -> None:
    @workflow(name="linear.Twice")
    class Twice(Workflow):
        async def run(self) -> list[int]:
            call = ping(3)
            return [*await asyncio.gather(call, call)]

    outcome = run_flow(Twice.call())
    assert outcome.result == [3, 3]
    assert len(outcome.executed) == 1


@pytest.mark.parametrize("how", ["gather", "task group", "wait", "as they complete"])
def test_many_equal_calls_survive_a_crash_of_their_worker(how: str) -> None:
    @workflow(name="linear.Equal")
    class Equal(Workflow):
        async def run(self, how: str) -> int:
            calls: list[ActionCall[int]] = [ping(1) for _ in range(300)]
            if how == "gather":
                total = sum(await asyncio.gather(*calls))
            elif how == "task group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(call) for call in calls]
                total = sum(task.result() for task in tasks)
            elif how == "wait":
                done, _ = await asyncio.wait([asyncio.ensure_future(call) for call in calls])
                total = sum(task.result() for task in done)
            else:
                total = sum([await call for call in asyncio.as_completed(calls)])
            return total + await ping(1000)

    async def story() -> None:
        async with flow_app() as app:
            app.crash_at(3, "after")
            outcome = await app.outcome(await app.start(Equal.call(how)))
            assert outcome.result == 1300
            assert {one.item for one in outcome.executed} == set(range(1, 302))

    asyncio.run(story())


def scheduled(number: int, args: str) -> ScheduleItem:
    return ScheduleItem("linear.ping", args, None, DEFAULT_POLICY, None, "")


def recorded(number: int, args: str) -> Line:
    policy = msgspec.Raw(b"{}")
    return Line(
        number, 0.0, ItemStarted(item=number, step="linear.ping", args=msgspec.Raw(args.encode()), policy=policy)
    )


@pytest.mark.parametrize("order", ["the same", "another", "other calls"])
def test_a_redriven_turn_of_many_calls_is_matched_without_comparing_each_with_all(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = 0
    compare = recorded_commands.is_same

    def count(*both: Any) -> bool:
        nonlocal counted
        counted += 1
        return compare(*both)

    monkeypatch.setattr(recorded_commands, "is_same", count)
    lines = [recorded(number, f'{{"number":{number}}}') for number in range(1, MANY + 1)]
    numbers = [number + (MANY * 10 if order == "other calls" else 0) for number in range(1, MANY + 1)]
    if order == "another":
        random.Random(7).shuffle(numbers)
    known = RecordedCommands(lines)
    taken = [known.take(scheduled(number, f'{{"number":{number}}}')) for number in numbers]
    if order == "other calls":
        assert taken == [None] * MANY
        assert known.left == lines
    else:
        assert [line.seq for line in taken if line is not None] == numbers
        assert known.left == []
    # A few with the same digits are compared as well.
    assert counted < 20 * MANY


def test_arguments_that_are_written_in_another_way_now_are_found() -> None:
    lines = [
        recorded(1, '{"number":1,"tags":["a","b"]}'),
        recorded(2, '{"number":1}'),
        recorded(3, '{"number":1,"tags":["b","a"]}'),
    ]
    known = RecordedCommands(lines)
    assert known.take(scheduled(1, '{"number":1,"tags":["b","a"]}')) is lines[2]
    assert known.take(scheduled(1, '{"number":1,"tags":["b","a"]}')) is lines[0]
    assert known.take(scheduled(1, '{"number":1,"tags":["b","a"]}')) is None
    assert known.left == [lines[1]]


def test_timers_are_found_though_their_times_were_rounded_and_cancellations_by_their_item() -> None:
    lines = [
        Line(1, 0.0, TimerSet(timer=1, until=1000.0005)),
        Line(2, 0.0, TimerSet(timer=2, until=1000.0004)),
        Line(3, 0.0, ItemCancelled(item=7)),
    ]
    known = RecordedCommands(lines)

    def timer(time: float) -> StartTimer:
        return StartTimer(time, None, (), None, "")

    cancelled = scheduled(1, "{}")
    cancelled.item = 7
    assert known.take(timer(1000.0011)) is lines[0]
    assert known.take(timer(1000.0011)) is lines[1]
    assert known.take(timer(1000.0011)) is None
    assert known.take(CancelItem(cancelled)) is lines[2]

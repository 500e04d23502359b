"""TimerQueue ring in order, at their time, unless they were taken back."""

import asyncio

import pytest

from redrive.determinism import clock as clocks
from redrive.determinism.clock import SYSTEM_CLOCK, SystemClock
from redrive.testing import VirtualClock, virtual_clock
from redrive.worker.timer_queue import TimerQueue


def ring_all(clock: VirtualClock, prepare: "list[float]", cancelled: set[int]) -> list[tuple[int, float]]:
    rang: list[tuple[int, float]] = []

    async def scenario() -> None:
        timers, began = TimerQueue(clock), clock.wall()
        done = asyncio.Event()
        made = [
            timers.schedule(began + when, lambda number=number: rang.append((number, clock.now)))  # type: ignore[misc]
            for number, when in enumerate(prepare)
        ]
        for number in cancelled:
            timers.cancel(made[number])
        timers.schedule(began + max(prepare) + 1, done.set)
        await done.wait()
        timers.close()

    asyncio.run(scenario())
    return rang


def test_each_rings_at_its_time_and_those_cancelled_do_not() -> None:
    with virtual_clock() as clock:
        assert ring_all(clock, [5, 1, 3, 3], {2}) == [(1, 1.0), (3, 3.0), (0, 5.0)]


def test_what_was_cancelled_does_not_make_time_pass_and_does_not_pile_up() -> None:
    async def scenario() -> None:
        timers = TimerQueue(clock)
        for _ in range(10_000):
            timers.cancel(timers.schedule(clock.wall() + 3600, lambda: None))
        assert len(timers._timers) < 300
        for _ in range(20):
            await asyncio.sleep(0)
        assert clock.now == 0

    with virtual_clock() as clock:
        asyncio.run(scenario())


class SetClock(SystemClock):
    """Its calendar is set forward, by someone or because the machine slept."""

    ahead = 0.0

    def wall(self) -> float:
        return SYSTEM_CLOCK.wall() + self.ahead


def test_an_alarm_rings_though_its_time_came_by_setting_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "LOOK_AGAIN", 0.001)

    async def scenario() -> None:
        clock = SetClock()
        timers, rang = TimerQueue(clock), asyncio.Event()
        timers.schedule(clock.wall() + 3600, rang.set)
        clock.ahead = 3600.0
        async with asyncio.timeout(5):
            await rang.wait()
        timers.close()

    asyncio.run(scenario())

"""Under trio time passes as it does under asyncio: when nothing else can run, to what comes next."""

import time

import pytest
import trio

import redrive
from redrive.testing import VirtualClock, virtual_clock


@redrive.retry(attempts=2, attempt_timeout="5s", backoff=redrive.constant(1), jitter="none")
async def hang() -> None:
    await trio.sleep_forever()


async def hang_until_given_up() -> None:
    with pytest.raises(redrive.AttemptTimeoutError):
        await hang()


def test_a_call_that_hangs_is_cut_at_its_virtual_timeout() -> None:
    with virtual_clock(grace=0.005) as clock:
        trio.run(hang_until_given_up)
    assert clock.now == 13.5


def test_a_call_that_hangs_is_cut_though_the_test_looks_again_and_again_in_real_time() -> None:
    async def main(clock: VirtualClock) -> None:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hang_until_given_up)
                while clock.now < 13.5:  # noqa: ASYNC110 - as a test does
                    await trio.sleep(0.01)

    with virtual_clock(grace=0.02) as clock:
        trio.run(main, clock)
    assert clock.now == 13.5


def test_calls_that_wait_at_once_wait_side_by_side() -> None:
    async def nap(clock: VirtualClock, seconds: float, woken: list[tuple[float, float]]) -> None:
        await clock.asleep(seconds)
        woken.append((seconds, clock.now))

    async def main(clock: VirtualClock) -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []
        async with trio.open_nursery() as nursery:
            for seconds in (10.0, 1.0, 5.0):
                nursery.start_soon(nap, clock, seconds, woken)
        return woken

    with virtual_clock() as clock:
        assert trio.run(main, clock) == [(1, 1), (5, 5), (10, 10)]


def test_a_call_is_not_cut_by_the_longer_wait_of_another() -> None:
    async def main(clock: VirtualClock) -> float:
        @redrive.retry(attempts=1, deadline="5s")
        async def ask() -> float:
            await clock.asleep(1)
            await clock.asleep(3)
            return clock.now

        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.asleep, 100)
            await trio.lowlevel.checkpoint()
            return await ask()

    with virtual_clock() as clock:
        assert trio.run(main, clock) == 4
    assert clock.now == 100


def test_time_that_stands_still_passes_by_advance_alone() -> None:
    async def main(clock: VirtualClock) -> float:
        async with trio.open_nursery() as nursery:
            with clock.frozen():
                nursery.start_soon(clock.asleep, 10)
                await trio.sleep(0.01)
                before = clock.now
                clock.advance(15)
        return before

    with virtual_clock() as clock:
        assert trio.run(main, clock) == 0
    assert clock.now == 15


def test_what_a_thread_does_is_slow_and_does_not_hang() -> None:
    async def main() -> str:
        @redrive.retry(attempts=1, attempt_timeout="5s")
        async def ask() -> str:
            await trio.to_thread.run_sync(time.sleep, 0.03)
            return "answered"

        return await ask()

    with virtual_clock(grace=0.005) as clock:
        assert trio.run(main) == "answered"
    assert clock.now == 0


def test_a_run_that_ends_while_something_waits_leaves_the_clock_to_the_next() -> None:
    async def leave(clock: VirtualClock) -> None:
        async with trio.open_nursery() as nursery:
            with clock.frozen():
                nursery.start_soon(clock.asleep, 10)
                await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    with virtual_clock(grace=0.005) as clock:
        trio.run(leave, clock)
        assert clock.now == 0
        trio.run(hang_until_given_up)
    assert clock.now == 13.5

"""The testing kit: time and chance belong to one context."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest

import redrive
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.testing import FlakyServer, NoWaits, Reply, VirtualClock, no_waits, scripted_dice, virtual_clock


@redrive.retry(attempts=None, deadline=None, backoff=3600, max_wait="7d", jitter="full")
def stubborn(tries: list[int], times: int) -> str:
    tries.append(1)
    if len(tries) < times:
        raise ConnectionError
    return "done"


def test_weeks_of_backoff_take_no_time() -> None:
    with virtual_clock() as clock:
        assert stubborn([], 30) == "done"
    assert clock.now > 14 * 86_400


def test_parallel_tests_do_not_disturb_each_other() -> None:
    barrier = threading.Barrier(8)

    def one(number: int) -> tuple[float, list[float]]:
        with virtual_clock() as clock, scripted_dice(*[number / 10] * 3):
            barrier.wait()
            stubborn([], 4)
            barrier.wait()
            return clock.now, clock.waits

    with ThreadPoolExecutor(8) as pool:
        for number, (now, waits) in enumerate(pool.map(one, range(8))):
            expected = [3600 * 2**n * number / 10 for n in range(3)]
            assert waits == pytest.approx(expected)
            assert now == pytest.approx(sum(expected))


def test_parallel_tasks_have_their_own_clocks() -> None:
    async def one(times: int) -> float:
        with virtual_clock() as clock:
            tries: list[int] = []

            @redrive.retry(attempts=None, deadline=None, backoff=redrive.constant(5), jitter="none")
            async def flaky() -> None:
                tries.append(1)
                await asyncio.sleep(0)
                if len(tries) < times:
                    raise ConnectionError

            await flaky()
            return clock.now

    async def main() -> list[float]:
        return await asyncio.gather(*(one(times) for times in range(1, 6)))

    assert asyncio.run(main()) == [0, 5, 10, 15, 20]


def test_the_real_clock_is_back_afterwards() -> None:
    with virtual_clock():
        assert current_clock() is not SYSTEM_CLOCK
    assert current_clock() is SYSTEM_CLOCK


def test_unscripted_jitter_is_the_same_in_every_run() -> None:
    def waits() -> list[float]:
        with virtual_clock() as clock:
            stubborn([], 5)
        return clock.waits

    assert waits() == waits()


def test_one_draw_too_many_is_an_error() -> None:
    with virtual_clock(), scripted_dice(0.5), pytest.raises(AssertionError, match="scripted for 1 draw"):
        stubborn([], 3)
    with pytest.raises(ValueError, match="from 0 to 1"), scripted_dice(1.5):
        pass


def test_no_waits_skips_and_notes_them() -> None:
    with no_waits() as clock:
        assert stubborn([], 5) == "done"
    assert len(clock.waits) == 4

    async def main() -> None:
        @redrive.retry(backoff=3600, max_wait=None, deadline=None)
        async def flaky(tries: list[int]) -> None:
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionError

        await flaky([])

    with no_waits() as clock:
        asyncio.run(main())
    assert [round(wait) for wait in clock.waits] == [3600, 7200]


def test_the_fixture_is_there_once_redrive_is_installed(redrive_clock: VirtualClock) -> None:
    stubborn([], 3)
    assert len(redrive_clock.waits) == 2


def test_the_fixture_without_waits(redrive_no_waits: NoWaits) -> None:
    stubborn([], 3)
    assert len(redrive_no_waits.waits) == 2


def test_async_tests_can_use_the_fixture(redrive_clock: VirtualClock) -> None:
    async def main() -> None:
        @redrive.retry(attempt_timeout=5, attempts=2)
        async def hang() -> None:
            await asyncio.Event().wait()

        with pytest.raises(redrive.AttemptTimeoutError):
            await hang()

    asyncio.run(main())
    assert redrive_clock.now > 12.5


def test_advance_lets_time_pass_for_what_waits() -> None:
    async def main() -> list[str]:
        story: list[str] = []
        with virtual_clock() as clock:

            async def sleeper() -> None:
                await clock.asleep(10)
                story.append(f"woke at {clock.now:g}")

            task = asyncio.ensure_future(sleeper())
            await asyncio.sleep(0)
            clock.advance(15)
            await task
        return story

    assert asyncio.run(main()) == ["woke at 15"]


@redrive.retry(attempts=2, attempt_timeout="5s", backoff=redrive.constant(1), jitter="none")
async def hang() -> None:
    await asyncio.Event().wait()


def test_a_call_that_hangs_is_cut_though_a_socket_is_open() -> None:
    async def main() -> float:
        with virtual_clock(grace=0.005) as clock:
            async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0):
                with pytest.raises(redrive.AttemptTimeoutError):
                    await asyncio.wait_for(hang(), 10)
        return clock.now

    assert asyncio.run(main()) == 13.5


def test_a_server_that_hangs_is_given_up_and_asked_again() -> None:
    async def main() -> float:
        with FlakyServer(Reply(fault="hang")) as server, virtual_clock(grace=0.005) as clock:

            @redrive.retry(attempts=2, attempt_timeout="5s", backoff=redrive.constant(1), jitter="none")
            async def get() -> int:
                async with aiohttp.ClientSession() as session, session.get(server.url) as response:
                    return response.status

            assert await asyncio.wait_for(get(), 10) == 200
        return clock.now

    assert asyncio.run(main()) == 6


def test_work_in_a_thread_that_is_merely_slow_is_not_cut() -> None:
    @redrive.retry(attempts=2, attempt_timeout="5s")
    async def work() -> str:
        await asyncio.to_thread(time.sleep, 0.3)
        return "done"

    async def main(grace: float) -> tuple[str, float]:
        with virtual_clock(grace=grace) as clock:
            return await work(), clock.now

    assert asyncio.run(main(0.05)) == ("done", 0)
    with pytest.raises(redrive.AttemptTimeoutError):
        asyncio.run(main(0.001))


def test_a_socket_that_answers_after_a_second_is_not_cut() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1)
        writer.write(b"done")
        writer.close()

    async def main() -> tuple[bytes, float]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:

            @redrive.retry(attempts=1, attempt_timeout="5s")
            async def ask() -> bytes:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                try:
                    return await reader.read()
                finally:
                    writer.close()

            with virtual_clock() as clock:
                return await ask(), clock.now

    assert asyncio.run(main()) == (b"done", 0)


def test_an_event_loop_that_cannot_be_looked_into_is_refused() -> None:
    uvloop = pytest.importorskip("uvloop")

    @redrive.retry(attempts=2)
    async def flaky() -> None:
        raise ConnectionError

    async def main() -> None:
        with virtual_clock() as clock:
            for refused in (hang(), flaky(), clock.asleep(1)):
                with pytest.raises(RuntimeError, match=r"uvloop.*asyncio\.run.*no_waits"):
                    await refused

    uvloop.run(main())

"""Per-attempt timeouts, the total deadline, and cancellation that is never swallowed."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import redrive
from redrive.testing import VirtualClock, virtual_clock

AsyncRun = Callable[[Callable[[], Awaitable[Any]]], Any]


def under_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await main()

    return asyncio.run(run())


@pytest.fixture(params=["trio", "asyncio alone"])
def imported(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where trio was never imported, a call under asyncio finds its task by a shorter way."""
    if request.param == "asyncio alone":
        monkeypatch.delitem(sys.modules, "trio")


both_ways = pytest.mark.usefixtures("imported")
both_loops = pytest.mark.parametrize("run", [under_asyncio, trio.run], ids=["asyncio", "trio"])


@both_loops
@pytest.mark.promise("P8", "R4", "P19")
def test_an_attempt_that_takes_too_long_is_cut_and_retried_with_half_as_much_time_again_once(run: AsyncRun) -> None:
    began: list[float] = []
    with virtual_clock() as clock:

        @redrive.retry(attempts=4, attempt_timeout=10, deadline=None, backoff=redrive.constant(1), jitter="none")
        async def hang() -> None:
            began.append(clock.now)
            await clock.asleep(3600)

        with pytest.raises(redrive.AttemptTimeoutError) as caught:
            run(hang)
    # 10 s, then 15 s each, with 1 s between them.
    assert began == [0, 11, 27, 43]
    assert clock.now == 58
    report = redrive.report_of(caught.value)
    assert report is not None
    assert {record.failure.kind for record in report.attempts} == {"timeout"}
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.promise("R4")
@pytest.mark.parametrize("timeout", [1.5, "1500ms", "1.5s"])
def test_timeouts_may_be_fractions(timeout: Any) -> None:
    with virtual_clock() as clock:

        @redrive.retry(attempts=1, attempt_timeout=timeout)
        async def hang() -> None:
            await clock.asleep(3600)

        with pytest.raises(redrive.AttemptTimeoutError):
            asyncio.run(hang())
    assert clock.now == 1.5


@both_loops
@pytest.mark.promise("P6", "P19")
def test_a_running_attempt_is_cut_at_the_deadline(run: AsyncRun) -> None:
    calls = []
    with virtual_clock() as clock:

        @redrive.retry(attempts=None, deadline=10, backoff=redrive.constant(4), jitter="none")
        async def fail_then_hang() -> None:
            calls.append(clock.now)
            if len(calls) < 3:
                raise ConnectionError("early")
            await clock.asleep(3600)

        with pytest.raises(redrive.DeadlineExceededError) as caught:
            run(fail_then_hang)
    assert calls == [0, 4, 8]
    assert clock.now == 10
    assert str(caught.value.__cause__) == "early"
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "deadline"
    assert len(report.attempts) == 3


@both_loops
@pytest.mark.promise("P6")
def test_the_deadline_cuts_on_the_real_clock_too(run: AsyncRun) -> None:
    @redrive.retry(deadline="50ms")
    async def hang() -> None:
        if run is trio.run:
            await trio.sleep_forever()
        await asyncio.Event().wait()

    with pytest.raises(redrive.DeadlineExceededError):
        run(hang)


@both_ways
@pytest.mark.promise("P6")
def test_one_timer_cuts_each_of_many_calls_at_its_own_deadline() -> None:
    ended: dict[int, float] = {}

    @redrive.retry(deadline=0.1)
    async def hang(number: int) -> None:
        await asyncio.Event().wait()

    async def one(number: int) -> None:
        await asyncio.sleep(number * 0.02)
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(redrive.DeadlineExceededError):
            await hang(number)
        ended[number] = loop.time() - began

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(5)))

    asyncio.run(main())
    assert len(ended) == 5
    # Judged from below only: none was cut before its own time, whenever the others were.
    assert all(took >= 0.099 for took in ended.values())


@both_ways
@pytest.mark.promise("P6")
def test_calls_that_begin_and_end_meanwhile_do_not_disturb_the_deadlines_of_others() -> None:
    took: list[float] = []

    @redrive.retry(deadline=0.1)
    async def work(hangs: bool) -> None:
        await (asyncio.Event().wait() if hangs else asyncio.sleep(0))

    async def hang() -> None:
        began = time.monotonic()
        with pytest.raises(redrive.DeadlineExceededError):
            await work(True)
        took.append(time.monotonic() - began)

    async def main() -> None:
        await work(False)
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(hang())
                    await asyncio.gather(work(False), work(False))
                    await asyncio.sleep(0.02)
                    await work(False)

    asyncio.run(main())
    assert len(took) == 6
    assert all(seconds >= 0.099 for seconds in took)


@both_ways
@pytest.mark.promise("P6")
def test_the_deadline_works_in_every_loop_the_function_is_used_in() -> None:
    @redrive.retry(deadline="20ms")
    async def hang() -> None:
        await asyncio.Event().wait()

    for _ in range(3):
        with pytest.raises(redrive.DeadlineExceededError):
            asyncio.run(hang())
    threads = [threading.Thread(target=lambda: results.append(_error_of(hang))) for _ in range(4)]
    results: list[type[BaseException]] = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [redrive.DeadlineExceededError] * 4


def _error_of(function: Callable[[], Any]) -> type[BaseException]:
    try:
        asyncio.run(function())
    except Exception as error:
        return type(error)
    raise AssertionError("it returned")


@pytest.mark.promise("P6")
def test_trio_as_a_guest_of_asyncio_is_still_trio() -> None:
    @redrive.retry(deadline="20ms")
    async def hang() -> None:
        await trio.sleep_forever()

    async def host() -> Any:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()
        trio.lowlevel.start_guest_run(
            hang, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=ended.set_result
        )
        return await ended

    with pytest.raises(redrive.DeadlineExceededError):
        asyncio.run(host()).unwrap()


@pytest.mark.promise("P6")
def test_a_plain_function_is_not_cut_but_nothing_begins_after_the_deadline() -> None:
    with virtual_clock() as clock:
        calls = []

        @redrive.retry(attempts=None, deadline=10)
        def slow() -> None:
            calls.append(clock.now)
            clock.sleep(11)
            raise ConnectionError

        with pytest.raises(ConnectionError):
            slow()
        assert calls == [0]


@pytest.mark.promise("P6")
@pytest.mark.parametrize("deadline", [None, 10.0])
def test_a_plain_function_can_ask_how_much_time_is_left(deadline: float | None) -> None:
    with virtual_clock() as clock:

        @redrive.retry(deadline=deadline)
        def work() -> float | None:
            clock.sleep(4)
            return redrive.time_left()

        assert work() == (None if deadline is None else 6)
        assert redrive.time_left() is None


def test_a_plain_function_with_a_timeout_is_left_behind_in_its_thread() -> None:
    release = threading.Event()
    calls = []

    @redrive.retry(attempts=2, attempt_timeout="20ms", backoff=0, floor=0, jitter="none")
    def stuck() -> str:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            release.wait(30)
        return "done"

    try:
        assert stuck() == "done"
    finally:
        release.set()
    assert calls == ["redrive-attempt", "redrive-attempt"]


def test_a_plain_function_with_a_timeout_raises_what_it_raises() -> None:
    @redrive.retry(attempts=1, attempt_timeout=30)
    def fail() -> None:
        raise ValueError("from the thread")

    with pytest.raises(ValueError, match="from the thread"):
        fail()


def test_the_users_own_timeouts_stay_their_own() -> None:
    @redrive.retry(attempts=1, deadline=60)
    async def impatient() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(impatient())
    assert not isinstance(caught.value, redrive.AttemptTimeoutError | redrive.DeadlineExceededError)


async def _cancel_soon(task: "asyncio.Task[Any]") -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()


@both_ways
@pytest.mark.promise("P16")
@pytest.mark.parametrize("settings", [{}, {"deadline": None}, {"attempt_timeout": 60}, {"dependency": "cancelled"}])
def test_cancelling_a_running_attempt_cancels_the_call(settings: dict[str, Any]) -> None:
    calls = []

    @redrive.retry(retry_on=redrive.ANYTHING, **settings)
    async def hang() -> None:
        calls.append(1)
        await asyncio.Event().wait()

    async def main() -> bool:
        task = asyncio.ensure_future(hang())
        await _cancel_soon(task)
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(main())
    assert calls == [1]


def test_cancelling_a_call_that_waits_ends_the_wait_at_once() -> None:
    calls = []

    @redrive.retry(backoff=3600, max_wait=None, deadline=None)
    async def fail() -> None:
        calls.append(1)
        raise ConnectionError

    async def main() -> None:
        task = asyncio.ensure_future(fail())
        await _cancel_soon(task)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == [1]


@both_ways
def test_cancellation_that_comes_with_the_deadline_is_not_taken_for_it() -> None:
    """Someone cancels the task while the attempt is cleaning up after the cut: the cancellation wins."""

    @redrive.retry(deadline="20ms")
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)

    async def main() -> None:
        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@both_ways
@pytest.mark.promise("P6")
def test_the_deadline_holds_in_a_task_that_was_cancelled_before() -> None:
    """Cancellations that were handled but never taken back are no reason not to cut, and none to lose the deadline."""

    @redrive.retry(deadline="20ms")
    async def hang() -> None:
        await asyncio.Event().wait()

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Swallowed without uncancel(), as CPython 3.11's TaskGroup leaves its parent behind.
            with pytest.raises(redrive.DeadlineExceededError):
                await hang()
        return task.cancelling()

    assert asyncio.run(main()) == 1


@both_ways
@pytest.mark.promise("P6")
def test_cleaning_up_after_a_cancellation_is_cut_at_its_deadline_and_the_cancellation_goes_on() -> None:
    story: list[str] = []

    @redrive.retry(deadline="20ms")
    async def close() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await close()
            except redrive.DeadlineExceededError:
                story.append("closing was cut")

    async def main() -> None:
        task = asyncio.ensure_future(work())
        await _cancel_soon(task)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert story == ["closing was cut"]


@both_ways
def test_work_that_ignores_the_cut_keeps_its_result_and_the_task_stays_usable() -> None:
    @redrive.retry(deadline="20ms")
    async def deaf() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    async def main() -> tuple[str, int]:
        result = await deaf()
        task = asyncio.current_task()
        assert task is not None
        return result, task.cancelling()

    assert asyncio.run(main()) == ("late", 0)


def test_trio_cancellation_is_never_swallowed() -> None:
    calls = []

    @redrive.retry(retry_on=redrive.ANYTHING)
    async def hang() -> None:
        calls.append(1)
        await trio.sleep_forever()

    async def main() -> bool:
        with trio.move_on_after(0.01) as scope:
            await hang()
        return scope.cancelled_caught

    assert trio.run(main)
    assert calls == [1]


@both_loops
def test_the_body_of_an_async_loop_is_cut_too(run: AsyncRun) -> None:
    with virtual_clock() as clock:
        numbers = []

        async def main() -> None:
            async for attempt in redrive.attempts(attempts=2, attempt_timeout=5, deadline=None):
                with attempt:
                    numbers.append((attempt.number, attempt.time_left))
                    await clock.asleep(3600)

        with pytest.raises(redrive.AttemptTimeoutError):
            run(main)
    assert numbers == [(1, 5.0), (2, pytest.approx(7.5))]


def test_parallel_tasks_on_one_virtual_clock_wait_side_by_side() -> None:
    with virtual_clock() as clock:

        async def job(clock: VirtualClock, seconds: float) -> float:
            await clock.asleep(seconds)
            return clock.now

        async def main() -> list[float]:
            return list(await asyncio.gather(job(clock, 30), job(clock, 10), job(clock, 20)))

        assert asyncio.run(main()) == [30, 10, 20]
    assert clock.now == 30

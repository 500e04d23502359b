"""One layer owns the retries of a call stack; the layers inside it make one attempt each."""

import asyncio
import threading
from contextvars import copy_context

import pytest
import trio

import redrive
from redrive.testing import virtual_clock


@pytest.mark.promise("P16")
def test_three_layers_of_three_attempts_make_three_calls() -> None:
    calls = []

    @redrive.retry
    def inner() -> None:
        calls.append("inner")
        raise ConnectionError

    @redrive.retry
    def middle() -> None:
        inner()

    @redrive.retry
    def outer() -> None:
        middle()

    with virtual_clock(), pytest.raises(ConnectionError) as caught:
        outer()
    assert len(calls) == 3
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.operation.endswith("outer")
    assert len(report.attempts) == 3


@pytest.mark.promise("P16")
def test_three_layers_make_three_calls_on_the_fast_path_too() -> None:
    calls = []
    quick = redrive.retry(backoff=0, floor=0, jitter="none")

    @quick
    def inner() -> None:
        calls.append("inner")
        raise ConnectionError

    @quick
    def middle() -> None:
        inner()

    @quick
    def outer() -> None:
        middle()

    for _ in range(2):
        with pytest.raises(ConnectionError):
            outer()
    assert len(calls) == 6
    # And a call of its own owns its retries again.
    calls.clear()
    with pytest.raises(ConnectionError):
        inner()
    assert len(calls) == 3


@pytest.mark.promise("P16")
@pytest.mark.parametrize("deadline", [60, None])
def test_a_call_that_succeeded_or_was_interrupted_owns_nothing_any_more(deadline: float | None) -> None:
    class Interruption(BaseException):
        pass

    calls = []
    quick = redrive.retry(backoff=0, floor=0, jitter="none", deadline=deadline)

    @quick
    def call(error: BaseException | None) -> None:
        calls.append("sync")
        if error is not None:
            raise error

    @quick
    async def acall(error: BaseException | None) -> None:
        calls.append("async")
        if error is not None:
            raise error

    async def main() -> None:
        await acall(None)
        with pytest.raises(ConnectionError):
            await acall(ConnectionError())
        for interruption in (asyncio.CancelledError, Interruption):
            with pytest.raises(interruption):
                await acall(interruption())
            with pytest.raises(ConnectionError):
                await acall(ConnectionError())

    call(None)
    with pytest.raises(ConnectionError):
        call(ConnectionError())
    with pytest.raises(KeyboardInterrupt):
        call(KeyboardInterrupt())
    with pytest.raises(ConnectionError):
        call(ConnectionError())
    asyncio.run(main())
    assert (calls.count("sync"), calls.count("async")) == (8, 12)


@pytest.mark.promise("P16")
@pytest.mark.parametrize("tested", [True, False], ids=["virtual", "real"])
def test_tasks_and_threads_started_inside_an_attempt_belong_to_it(tested: bool) -> None:
    lock, calls = threading.Lock(), []
    quick = redrive.retry(backoff=0, floor=0, jitter="none")

    @quick
    def in_thread() -> None:
        with lock:
            calls.append("thread")
        raise ConnectionError

    @quick
    async def in_task() -> None:
        with lock:
            calls.append("task")
        await asyncio.sleep(0)
        raise ConnectionError

    @quick
    async def outer() -> None:
        await asyncio.gather(in_task(), in_task(), asyncio.to_thread(in_thread), return_exceptions=True)
        thread = threading.Thread(target=copy_context().run, args=(_ignoring(in_thread),))
        thread.start()
        thread.join()
        raise ConnectionError

    async def main() -> None:
        # A call before, in the same context, must not make a difference.
        with pytest.raises(ConnectionError):
            in_thread()
        calls.clear()
        with pytest.raises(ConnectionError):
            await outer()

    if tested:
        with virtual_clock():
            asyncio.run(main())
    else:
        asyncio.run(main())
    assert (calls.count("task"), calls.count("thread")) == (6, 6)


def _ignoring(function: object) -> object:
    def run() -> None:
        with pytest.raises(ConnectionError):
            function()  # type: ignore[operator]  # a guarded function

    return run


def test_work_that_outlives_the_attempt_owns_its_retries_again() -> None:
    calls = []
    quick = redrive.retry(backoff=0, floor=0, jitter="none")

    @quick
    async def background() -> None:
        await asyncio.sleep(0.01)
        await flaky()

    @quick
    async def flaky() -> None:
        calls.append(1)
        raise ConnectionError

    started: list[asyncio.Task[None]] = []

    @quick
    async def outer() -> None:
        started.append(asyncio.ensure_future(background()))

    async def main() -> None:
        await outer()
        with pytest.raises(ConnectionError):
            await started[0]

    asyncio.run(main())
    assert len(calls) == 3


@pytest.mark.promise("P16")
def test_trio_nests_too() -> None:
    calls = []

    @redrive.retry
    async def inner() -> None:
        calls.append(1)
        raise ConnectionError

    @redrive.retry
    async def outer() -> None:
        await inner()

    with virtual_clock(), pytest.raises(ConnectionError):
        trio.run(outer)
    assert len(calls) == 3


@pytest.mark.promise("P16")
def test_an_inner_call_can_opt_out() -> None:
    calls = []

    @redrive.retry(independent=True)
    def inner() -> None:
        calls.append(1)
        raise ConnectionError

    @redrive.retry
    def outer() -> None:
        inner()

    with virtual_clock(), pytest.raises(ConnectionError):
        outer()
    assert len(calls) == 9


@pytest.mark.promise("P16")
def test_after_an_independent_inner_call_the_outer_still_owns_the_rest() -> None:
    calls = []

    @redrive.retry(independent=True, fallback="")
    def independent() -> str:
        return ""

    @redrive.retry
    def inner() -> None:
        calls.append(1)
        raise ConnectionError

    @redrive.retry(backoff=0, floor=0, jitter="none")
    def outer() -> None:
        independent()
        inner()

    with pytest.raises(ConnectionError):
        outer()
    assert len(calls) == 3


def test_an_inner_call_with_a_fallback_retries_for_itself() -> None:
    """Its failures never reach the outer call, so no one else could retry them."""
    calls = []

    @redrive.retry(fallback="degraded")
    def inner() -> str:
        calls.append(1)
        raise ConnectionError

    @redrive.retry
    def outer() -> str:
        return inner()

    with virtual_clock():
        assert outer() == "degraded"
    assert len(calls) == 3


def test_a_single_attempt_outside_leaves_the_retries_to_the_inside() -> None:
    calls = []

    @redrive.retry
    def inner() -> None:
        calls.append(1)
        raise ConnectionError

    @redrive.retry(attempts=1)
    def outer() -> None:
        inner()

    with virtual_clock(), pytest.raises(ConnectionError):
        outer()
    assert len(calls) == 3


@pytest.mark.promise("P6", "P16")
def test_the_remaining_deadline_is_inherited() -> None:
    with virtual_clock() as clock:
        left: list[float | None] = []

        async def main() -> None:
            @redrive.retry(attempts=1, deadline=10)
            async def outer() -> None:
                await clock.asleep(4)
                async for attempt in redrive.attempts(deadline=60):
                    with attempt:
                        left.append(attempt.time_left)
                        await clock.asleep(3600)

            with pytest.raises(redrive.DeadlineExceededError):
                await outer()

        asyncio.run(main())
    assert left == [6]
    assert clock.now == 10


@pytest.mark.promise("P6", "P16")
@pytest.mark.parametrize(("inner_deadline", "left"), [(5, 5), (60, 6), (None, 6)])
def test_the_nearest_deadline_is_the_time_that_is_left(inner_deadline: float | None, left: float) -> None:
    with virtual_clock() as clock:
        seen: list[float | None] = []

        @redrive.retry(deadline=inner_deadline)
        def inner() -> None:
            seen.append(redrive.time_left())
            innermost()

        @redrive.retry
        def innermost() -> None:
            seen.append(redrive.time_left())
            raise ConnectionError

        @redrive.retry(deadline=10)
        def outer() -> None:
            clock.sleep(4)
            with pytest.raises(ConnectionError):
                inner()
            seen.append(redrive.time_left())

        outer()
    assert seen == [left, left, 6]


@pytest.mark.promise("P6", "P16")
def test_no_inner_attempt_begins_after_the_outer_deadline() -> None:
    with virtual_clock() as clock:
        calls = []

        @redrive.retry
        def inner() -> None:
            calls.append(1)

        @redrive.retry(deadline=10)
        def outer() -> None:
            clock.sleep(11)
            inner()

        with pytest.raises(redrive.DeadlineExceededError):
            outer()
    assert calls == []


@pytest.mark.promise("P16")
@pytest.mark.parametrize("deadline", [None, 5])
def test_an_inner_call_that_outlives_the_outer_leaves_the_retries_to_those_inside(deadline: float | None) -> None:
    calls = 0

    @redrive.retry(backoff=0, floor=0, jitter="none")
    async def leaf() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def main() -> float | None:
        outer_is_over, begun = asyncio.Event(), asyncio.Event()
        left = None

        # Nearer than that of the outer call.
        @redrive.retry(deadline=deadline, backoff=0, floor=0, jitter="none")
        async def inner() -> None:
            nonlocal left
            begun.set()
            await outer_is_over.wait()
            left = redrive.time_left()
            await leaf()

        @redrive.retry
        async def outer() -> "asyncio.Task[None]":
            task = asyncio.create_task(inner())
            await begun.wait()
            return task

        task = await outer()
        outer_is_over.set()
        with pytest.raises(ConnectionError):
            await task
        return left

    left = asyncio.run(main())
    assert calls == 3
    assert (left is not None and left <= 5) if deadline else left is None

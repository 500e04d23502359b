"""A call that is interrupted anywhere has ended: the calls after it are guarded as ever."""

import asyncio
import contextlib
import gc
import logging
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

import redrive
from redrive.calls.scope import CURRENT, owner_of
from redrive.testing import virtual_clock


def owner() -> Any:
    return owner_of(CURRENT.get())


def retried() -> int:
    """The calls that a function makes which fails twice."""
    calls = 0

    @redrive.retry(backoff=0, floor=0, jitter="none")
    def work() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError

    work()
    return calls


@pytest.mark.promise("P16")
@pytest.mark.parametrize("fails", [False, True])
def test_a_stack_that_is_full_leaves_no_call_behind(fails: bool) -> None:
    def helper(x: Any) -> Any:
        if fails:
            raise ConnectionError
        return x

    @redrive.retry(attempts=2, backoff=0, floor=0, jitter="none")
    def leaf(x: Any) -> Any:
        return helper(x)

    def deep(n: int) -> None:
        with contextlib.suppress(ConnectionError):
            leaf(n)
        deep(n + 1)

    with pytest.raises(RecursionError):
        deep(0)
    assert owner() is None
    assert retried() == 3


@pytest.mark.promise("P16")
def test_a_stack_that_is_full_leaves_no_coroutine_behind() -> None:
    async def helper() -> None: ...

    @redrive.retry(deadline=0.05)
    async def leaf() -> None:
        await helper()

    async def deep() -> None:
        await leaf()
        await deep()

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(3):
            with pytest.raises(RecursionError):
                await deep()
            assert owner() is None
        # Past all their deadlines: none of them cancels the task any more.
        await asyncio.sleep(0.1)
        return task.cancelling()

    assert asyncio.run(main()) == 0


class Limit(BaseException):
    """What a signal's handler raises."""


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    # logging is not made for being interrupted: it would keep its locks.
    monkeypatch.setattr(logging.getLogger("redrive"), "disabled", True)

    def ring(*_: Any) -> None:
        raise Limit

    # Garbage of earlier tests has finalizers, in which Python ignores what a handler raises.
    gc.collect()
    before = signal.signal(signal.SIGALRM, ring)
    # Again and again: where Python ignores errors, in a finalizer say, one is lost.
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, 0.05) and None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.promise("P16")
@pytest.mark.parametrize("way", ["function", "failing", "call"])
def test_what_a_signal_raises_ends_the_call_wherever_it_comes(alarm: Callable[[float], None], way: str) -> None:
    settings: dict[str, Any] = {"attempts": 2, "backoff": 0, "floor": 0, "jitter": "none"}

    @redrive.retry
    def work(x: int) -> int:
        return x

    @redrive.retry(**settings)
    def failing(x: int) -> None:
        raise ConnectionError

    def once() -> None:
        if way == "function":
            work(1)
        elif way == "failing":
            with contextlib.suppress(ConnectionError):
                failing(1)
        else:
            redrive.Retrier(**settings).call(int)

    chance = random.Random(way)
    for _ in range(200):
        try:
            alarm(chance.uniform(2e-5, 5e-4))
            while True:
                once()
        except Limit:
            alarm(0)
        assert owner() is None


@pytest.mark.promise("P16", "P8")
def test_trio_errors_that_come_of_the_cut_are_failures_of_the_attempt() -> None:
    made = []

    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ConnectionError("closing failed")

    async def main() -> None:
        settings: Any = {"attempts": 2, "attempt_timeout": 0.02, "backoff": 0.01, "deadline": 10}
        async for attempt in redrive.attempts(**settings):
            with attempt:
                made.append(attempt.number)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(child)
                    await trio.sleep_forever()

    async def checked() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await main()
        assert redrive.report_of(caught.value) is not None
        assert owner() is None

    trio.run(checked)
    assert made == [1, 2]


@pytest.mark.promise("P19")
def test_what_outlives_its_call_keeps_the_clock_of_the_test() -> None:
    @redrive.retry(attempts=3, backoff=redrive.constant(2), jitter="none")
    async def inner() -> None:
        raise ConnectionError

    async def later() -> None:
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError):
            await inner()

    @redrive.retry
    async def outer() -> "asyncio.Task[None]":
        return asyncio.create_task(later())

    async def main() -> None:
        await (await outer())

    with virtual_clock() as clock:
        asyncio.run(main())
    assert clock.waits == [2, 2]


def test_errors_keep_what_they_were_raised_while_handling() -> None:
    def boom() -> None:
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            raise ValueError from None or None

    async def aboom() -> None:
        boom()

    def interrupted() -> None:
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            raise KeyboardInterrupt  # noqa: B904 - as above

    def chain(call: Callable[[], Any]) -> list[type[BaseException]]:
        try:
            try:
                raise KeyError
            except KeyError:
                call()
        except BaseException as error:
            links: list[type[BaseException]] = []
            link: BaseException | None = error
            while link is not None:
                links.append(type(link))
                link = link.__context__
            return links
        raise AssertionError("it returned")

    retrier = redrive.Retrier()
    expected = chain(boom)
    assert expected == [ValueError, ZeroDivisionError, KeyError]
    assert chain(redrive.retry(boom)) == expected
    assert chain(lambda: retrier.call(boom)) == expected
    assert chain(redrive.retry(attempt_timeout=30)(boom)) == expected[:2]
    assert chain(redrive.retry(interrupted)) == chain(interrupted)

    async def in_a_loop(call: Callable[[], Any]) -> list[type]:
        try:
            raise KeyError
        except KeyError:
            with pytest.raises(ValueError) as caught:  # noqa: PT011 - any, its context counts
                await call()
        before = caught.value.__context__
        assert before is not None
        return [caught.type, type(before), type(before.__context__)]

    for call in (aboom, redrive.retry(aboom), lambda: retrier.acall(aboom)):
        assert asyncio.run(in_a_loop(call)) == expected


@pytest.mark.promise("P6")
def test_a_coroutine_driven_by_hand_in_another_thread_never_cancels_a_task_of_a_loop() -> None:
    @redrive.retry(deadline=0.05)
    async def fetch() -> None:
        await asyncio.sleep(0)

    def by_hand() -> str:
        coroutine = fetch()
        try:
            coroutine.send(None)
        except RuntimeError as error:
            return str(error)
        finally:
            coroutine.close()
        return "it was taken for a task of the other thread"

    async def main() -> str:
        await fetch()
        loop = asyncio.get_running_loop()
        said = loop.run_in_executor(None, by_hand)
        # In the middle of a step while the thread asks.
        while not said.done():
            sum(range(1000))
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        return await said

    for _ in range(5):
        assert asyncio.run(main()) == "no running event loop"


def test_a_debugger_that_reads_variables_changes_none() -> None:
    """Names of a guard's own variables are parameters of many functions."""

    @redrive.retry
    async def handle(task: Any, result: Any) -> Any:
        return task, result

    @redrive.retry
    def save(scope: Any, function: Any, guard: Any) -> Any:
        return scope, function, guard

    @redrive.retry
    async def collect(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def trace(frame: Any, *_: Any) -> Any:
        frame.f_locals  # noqa: B018 - reading it is what writes variables back, before 3.13
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        handled = asyncio.run(handle("task", "result"))
        saved = save("scope", "function", "guard")
        collected = asyncio.run(collect(1, kwargs=2))
    finally:
        sys.settrace(before)
    assert handled == ("task", "result")
    assert saved == ("scope", "function", "guard")
    assert collected == ((1,), {"kwargs": 2})

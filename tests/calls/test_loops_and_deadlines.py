"""A coroutine's deadline holds in whatever runs it, and whatever happened to the calls before."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest
import trio

import redrive

LONG = 30.0


@redrive.retry(deadline=0.05, attempts=1)
async def slow(sleep: Callable[[float], Awaitable[Any]], seconds: float = LONG) -> None:
    await sleep(seconds)


async def is_cut() -> bool:
    try:
        await slow(asyncio.sleep)
    except redrive.DeadlineExceededError:
        return True
    return False


def calls_until_it_succeeds(run: Callable[..., Any], sleep: Callable[[float], Awaitable[Any]]) -> int:
    calls = 0

    @redrive.retry(attempts=3, backoff=0, floor=0, jitter="none")
    async def flaky() -> int:
        nonlocal calls
        calls += 1
        await sleep(0)
        if calls < 3:
            raise ConnectionError
        return calls

    done = run(flaky)
    assert isinstance(done, int)
    return done


@pytest.mark.promise("P6")
def test_trio_inside_a_task_of_asyncio_cuts_and_retries_as_trio_does() -> None:
    async def main() -> None:
        assert await is_cut()
        with pytest.raises(redrive.DeadlineExceededError):
            trio.run(slow, trio.sleep)
        assert calls_until_it_succeeds(trio.run, trio.sleep) == 3
        assert await is_cut()

    asyncio.run(main())


@pytest.mark.promise("P6")
def test_asyncio_inside_a_task_of_trio_cuts_and_retries_as_asyncio_does() -> None:
    async def main() -> None:
        assert asyncio.run(is_cut())
        assert calls_until_it_succeeds(lambda work: asyncio.run(work()), asyncio.sleep) == 3
        with pytest.raises(redrive.DeadlineExceededError):
            await slow(trio.sleep)

    trio.run(main)


@pytest.mark.promise("P6")
def test_a_loop_inside_a_step_of_another_has_its_own_deadlines() -> None:
    async def main() -> bool:
        assert await is_cut()
        outer = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return asyncio.run(is_cut())
        finally:
            asyncio._set_running_loop(outer)

    assert asyncio.run(main())


FORKED = """
import asyncio, os, redrive

@redrive.retry(deadline=0.05, attempts=1)
async def slow(seconds):
    await asyncio.sleep(seconds)

async def main():
    await slow(0)
    if os.fork() == 0:
        code = 1
        try:
            asyncio.run(slow(30))
        except redrive.DeadlineExceededError:
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.wait()[1])

raise SystemExit(asyncio.run(main()))
"""


IMPORTED_LATER = """
import asyncio, sys, redrive

@redrive.retry(deadline=0.05, attempts=1)
async def slow(sleep, seconds):
    await sleep(seconds)

async def main():
    await slow(asyncio.sleep, 0)
    assert "trio" not in sys.modules
    import trio
    try:
        trio.run(slow, trio.sleep, 30)
    except redrive.DeadlineExceededError:
        return 0
    return 1

raise SystemExit(asyncio.run(main()))
"""


@pytest.mark.promise("P6")
def test_trio_is_noticed_though_it_was_imported_after_the_first_call() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED_LATER], timeout=LONG - 5)  # noqa: S603 - what stands above
    assert done.returncode == 0


def test_a_trio_that_is_older_than_what_is_asked_for_is_told_from_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(trio.lowlevel, "in_trio_task")
    assert calls_until_it_succeeds(lambda work: asyncio.run(work()), asyncio.sleep) == 3
    assert calls_until_it_succeeds(trio.run, trio.sleep) == 3


def test_a_trio_that_another_thread_imports_at_this_moment_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio", ModuleType("trio"))
    assert calls_until_it_succeeds(lambda work: asyncio.run(work()), asyncio.sleep) == 3


@pytest.mark.promise("P6")
def test_a_process_forked_from_a_task_has_its_own_deadlines() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], timeout=LONG - 5)  # noqa: S603 - what stands above
    assert done.returncode == 0


@pytest.mark.promise("P6")
def test_a_timer_that_could_not_be_set_is_set_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def full_stack(*_: Any) -> None:
            raise RecursionError

        with monkeypatch.context() as patched:
            patched.setattr(loop, "call_later", full_stack)
            with pytest.raises(RecursionError):
                await slow(asyncio.sleep, 0)
        assert await is_cut()

    asyncio.run(main())


@pytest.mark.promise("P6")
def test_a_task_that_cannot_be_cancelled_does_not_take_the_deadlines_of_others() -> None:
    told: list[Any] = []

    class Stubborn(asyncio.Task[Any]):
        def cancel(self, msg: Any = None) -> bool:
            raise RuntimeError("not now")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        others = [asyncio.create_task(is_cut()) for _ in range(3)]
        stubborn = Stubborn(slow(asyncio.sleep, 0.3), loop=loop)
        more = [asyncio.create_task(is_cut()) for _ in range(3)]
        assert await asyncio.gather(*others, *more) == [True] * 6
        await stubborn
        assert await is_cut()

    asyncio.run(main())
    assert [str(error) for error in told] == ["not now"]

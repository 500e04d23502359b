"""The runner itself: what it keeps of attempts that are cancelled, and when it tells of those that do not end."""

import asyncio
import sys
import threading
from typing import Any

import pytest

from redrive.errors import AttemptTimeoutError, Permanent
from redrive.flows.action import Action, Executor, action
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.runner import CLEAN_UP, Runner
from redrive.testing import virtual_clock


class Heard:
    """What is reported."""

    def __init__(self) -> None:
        self.outcomes: list[Attempt] = []
        self.errors: list[BaseException] = []

    def succeeded(self, attempt: Attempt, result: str, read: Any = None) -> None:
        self.outcomes.append(attempt)

    def accepted(self, attempt: Attempt) -> None:
        self.outcomes.append(attempt)

    def failed(self, attempt: Attempt, error: BaseException, **_: Any) -> None:
        self.outcomes.append(attempt)
        self.errors.append(error)


@action(name="runner.in_loop")
async def in_loop() -> None: ...


@action(name="runner.in_thread")
def in_thread() -> None: ...


def an_attempt(of: Action[Any, Any], executor: Executor, timeout: float | None = None) -> Attempt:
    return Attempt(
        flow_id="flow",
        item=1,
        step=of.name,
        number=1,
        delivery_token="token",
        policy=DURABLE_DEFAULT,
        timeout=timeout,
        timeout_at=None,
        details=None,
        on_beat=lambda *_: None,
        executor=executor,
    )


def test_what_an_attempt_does_to_clean_up_is_not_cut_when_its_runner_closes() -> None:
    async def scenario() -> None:
        cancelled, clean = asyncio.Event(), asyncio.Event()
        did: list[str] = []

        @action(name="runner.cleans_up")
        async def cleans_up() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
                await clean.wait()
                did.append("clean")

        runner = Runner(Heard(), 1, 1)
        attempt = an_attempt(cleans_up, "loop")
        runner.start(cleans_up, attempt, "{}")
        await asyncio.sleep(0)
        runner.cancel(attempt)
        await cancelled.wait()
        closing = asyncio.get_running_loop().create_task(runner.close())
        await asyncio.sleep(0)
        clean.set()
        await closing
        assert did == ["clean"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("called", "executor"), [(in_loop, "loop"), (in_thread, "thread")])
def test_an_attempt_that_is_cancelled_before_it_began_leaves_nothing_behind(
    called: Action[Any, Any], executor: Executor
) -> None:
    async def scenario() -> None:
        heard = Heard()
        runner = Runner(heard, 1, 1)
        attempt = an_attempt(called, executor)
        runner.start(called, attempt, "{}")
        runner.cancel(attempt)
        assert await runner.drain(10.0) == []
        assert not runner._cancelled
        assert not heard.outcomes
        await runner.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("over_http", [False, True])
def test_an_attempt_that_cannot_be_set_up_is_reported_as_failed(
    monkeypatch: pytest.MonkeyPatch, over_http: bool
) -> None:
    """No thread can be started, or what sends HTTP requests is not installed: nobody waits for ever."""
    ran = []

    @action(name="runner.noted")
    def noted() -> None:
        ran.append(True)

    def no_thread(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        heard = Heard()
        runner = Runner(heard, 1, 1)
        attempt = an_attempt(noted, "loop" if over_http else "thread")
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "redrive.runners.http.http_runner", None)
            patch.setattr(threading.Thread, "start", no_thread)
            runner.start(HttpHandler(endpoint="http://127.0.0.1:9/") if over_http else noted, attempt, "{}")
            assert await runner.drain(10.0) == []
        assert heard.outcomes == [attempt]
        assert isinstance(heard.errors[0], Permanent) is over_http
        # The next one gets its thread, and what was left with the pool is not done by it.
        following = an_attempt(noted, "thread")
        runner.start(noted, following, "{}")
        assert await runner.drain(10.0) == []
        assert (heard.outcomes, ran) == ([attempt, following], [True])
        await runner.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["late", "late and cancelled"])
def test_an_attempt_that_does_not_end_in_time_is_told_of_once_unless_it_was_cancelled(is_cancelled: bool) -> None:
    async def scenario() -> None:
        cut, ends = asyncio.Event(), asyncio.Event()

        @action(name="runner.swallows")
        async def swallows() -> None:
            for _ in range(3):
                try:
                    await ends.wait()
                except asyncio.CancelledError:
                    cut.set()

        with virtual_clock() as clock, clock.frozen():
            heard = Heard()
            runner = Runner(heard, 1, 1)
            attempt = an_attempt(swallows, "loop", timeout=10.0)
            runner.start(swallows, attempt, "{}")
            await asyncio.sleep(0)
            try:
                clock.advance(10)
                await cut.wait()
                assert not heard.outcomes
                if is_cancelled:
                    runner.cancel(attempt)
                clock.advance(CLEAN_UP)
                clock.advance(CLEAN_UP)
                assert heard.outcomes == ([] if is_cancelled else [attempt])
                assert [type(error) for error in heard.errors] == ([] if is_cancelled else [AttemptTimeoutError])
            finally:
                ends.set()
            assert await runner.drain(10.0) == []
            assert not runner._cancelled
            await runner.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("ending", ["is cut", "swallows it", "completes after it", "ends before", "is cancelled"])
def test_a_far_time_limit_ends_an_attempt_as_a_near_one_does(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A limit of 0.05 s counts as far, and is looked at every 0.02 s.
    monkeypatch.setattr("redrive.runners.runner.FAR", 0.0)
    monkeypatch.setattr("redrive.runners.far_limits.SWEEP", 0.02)
    monkeypatch.setattr("redrive.runners.runner.CLEAN_UP", 0.05)

    async def scenario() -> tuple[list[type[BaseException]], int]:
        ends = asyncio.Event()

        @action(name="runner.far_limit")
        async def works() -> str:
            if ending == "ends before":
                return "done"
            try:
                await ends.wait()
            except asyncio.CancelledError:
                if ending == "swallows it":
                    await ends.wait()
                elif ending == "completes after it":
                    return "done"
                raise
            return "too late"

        heard = Heard()
        runner = Runner(heard, 1, 1)
        attempt = an_attempt(works, "loop", timeout=0.05)
        runner.start(works, attempt, "{}")
        await asyncio.sleep(0)
        if ending == "is cancelled":
            runner.cancel(attempt)
        async with asyncio.timeout(10):
            while not heard.outcomes and runner._running:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        ends.set()
        assert await runner.drain(10.0) == []
        assert not runner._cancelled
        assert not runner._cut_attempts
        assert not runner._far_limits._ends
        await asyncio.sleep(0.1)
        assert not runner._far_limits._sweeps
        await runner.close()
        return [type(error) for error in heard.errors], len(heard.outcomes)

    timed_out = ending in ("is cut", "swallows it")
    outcomes = 0 if ending == "is cancelled" else 1
    assert asyncio.run(scenario()) == ([AttemptTimeoutError] if timed_out else [], outcomes)

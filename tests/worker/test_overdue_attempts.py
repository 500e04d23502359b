"""Coroutines that do not end when their time is over: they may clean up for a little, and then are left behind."""

import asyncio
import contextlib

import pytest

import redrive
from redrive import RetryPolicy, action, current_attempt
from redrive.flows.events import AttemptFailed
from redrive.runners import runner
from redrive.runners.runner import CLEAN_UP
from redrive.testing import FlowOutcome, flow_app

TIMEOUT = 10.0
TWICE = RetryPolicy(attempts=2, backoff_seconds=60, jitter=0)


def failures(outcome: FlowOutcome) -> list[tuple[str, float]]:
    """What each attempt that failed did, and when, since the flow began."""
    return [
        (line.event.failure.type.rpartition(".")[2], round(line.at - outcome.began, 3))
        for line in outcome.lines
        if isinstance(line.event, AttemptFailed)
    ]


@pytest.mark.promise("R7")
def test_an_attempt_that_swallows_its_cancellation_times_out_and_its_place_is_free() -> None:
    """What it returns later is dropped, though its successor is under way by then."""
    may_return, returned = asyncio.Event(), asyncio.Event()

    @action(name="overdue.swallows", timeout=TIMEOUT, retry=TWICE)
    async def swallows() -> str:
        if current_attempt().number == 2:
            may_return.set()
            await returned.wait()
            return "the second"
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await may_return.wait()
        asyncio.get_running_loop().call_later(0.01, returned.set)
        return "the first, which is late"

    async def story() -> FlowOutcome:
        async with flow_app(concurrency=1) as app:
            return await app.outcome(await app.start(swallows()))

    outcome = asyncio.run(story())
    assert outcome.result == "the second"
    assert failures(outcome) == [("AttemptTimeoutError", TIMEOUT + CLEAN_UP)]
    assert outcome.duration == TIMEOUT + CLEAN_UP + 60


@pytest.mark.parametrize("is_virtual", [True, False], ids=["virtual", "real"])
def test_an_attempt_whose_time_is_over_cleans_up_before_the_next_one_begins(is_virtual: bool) -> None:
    happened: list[str] = []

    async def story() -> FlowOutcome:
        async with flow_app() as app:

            @action(name="overdue.cleans_up", timeout=TIMEOUT, retry=TWICE)
            async def cleans_up() -> None:
                happened.append("begun")
                try:
                    if current_attempt().number == 1:
                        await asyncio.Event().wait()
                finally:
                    await (app.clock.asleep(1) if is_virtual else asyncio.sleep(0.02))
                    happened.append("clean")

            return await app.outcome(await app.start(cleans_up()))

    outcome = asyncio.run(story())
    assert happened == ["begun", "clean", "begun", "clean"]
    assert failures(outcome) == [("AttemptTimeoutError", TIMEOUT + is_virtual)]


def test_what_an_attempt_returns_or_raises_while_it_cleans_up_counts() -> None:
    @action(name="overdue.answers", timeout=TIMEOUT, retry=TWICE)
    async def answers() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if current_attempt().number == 1:
                raise ConnectionError("cut in the middle") from None
        return "half of it"

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            return await app.outcome(await app.start(answers()))

    outcome = asyncio.run(story())
    assert failures(outcome) == [("ConnectionError", TIMEOUT)]
    assert outcome.result == "half of it"


@pytest.mark.parametrize("obeys", [True, False])
def test_the_same_on_the_clock_of_the_machine(obeys: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CLEAN_UP", 0.05)

    async def story() -> list[str]:
        happened: list[str] = []
        ends = asyncio.Event()

        @action(name="overdue.on_the_machine", timeout=0.05, retry=RetryPolicy(attempts=2))
        async def overdue() -> str:
            if current_attempt().number == 2:
                happened.append("again")
                ends.set()
                return ""
            for _ in range(2):
                try:
                    await ends.wait()
                except asyncio.CancelledError:
                    happened.append("cut")
                    if obeys:
                        raise
            happened.append("late")
            return "late"

        async with redrive.open("memory://", grace=5.0) as app:
            assert await (await app.start(overdue())).result(timeout=10) == ""
        return happened

    assert asyncio.run(story()) == (["cut", "again"] if obeys else ["cut", "again", "late"])

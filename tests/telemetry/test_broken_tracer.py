"""A tracer that fails: the work goes on, and is not traced."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from tests.telemetry.spans import traced

import redrive
from redrive import action
from redrive.telemetry.tracing import install_tracer
from redrive.telemetry.work import AttemptRef

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@action(name="broken_tracer.loop")
async def in_loop(number: int) -> int:
    return number


@action(name="broken_tracer.thread")
def in_thread(number: int) -> int:
    return number


class Broken:
    """Fails in one of its methods."""

    def __init__(self, method: str) -> None:
        self._method = method

    def current_traceparent(self) -> str | None:
        self._fail("current_traceparent")
        return None

    def attempt_began(self, attempt: AttemptRef, at: float) -> str | None:
        self._fail("attempt_began")
        return CONTEXT

    def enter(self, delivery: str, traceparent: str) -> None:
        self._fail("enter")

    def forget(self, delivery: str) -> None:
        self._fail("forget")

    def _fail(self, method: str) -> None:
        if method == self._method:
            raise RuntimeError(f"{method} failed")


class BrokenSampler(Sampler):
    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        raise RuntimeError("the sampler failed")

    def get_description(self) -> str:
        return "broken"


async def run_both() -> Sequence[int]:
    async with redrive.open("memory://") as app, asyncio.timeout(10):
        return [await (await app.start(one(7))).result() for one in (in_loop, in_thread)]


@pytest.fixture
def tracer(request: pytest.FixtureRequest) -> Iterator[str]:
    stop = install_tracer(Broken(request.param))
    yield request.param
    stop()


@pytest.mark.parametrize("tracer", ["current_traceparent", "attempt_began", "enter", "forget"], indirect=True)
def test_a_tracer_that_raises_does_not_harm_the_work(tracer: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "redrive"):
        assert asyncio.run(run_both()) == [7, 7]
    assert f"{tracer} failed" in caplog.text
    assert {record.name for record in caplog.records} == {"redrive"}


def test_a_sampler_that_raises_does_not_harm_the_work(caplog: pytest.LogCaptureFixture) -> None:
    with traced(BrokenSampler()) as collected:
        assert asyncio.run(run_both()) == [7, 7]
    assert not collected.spans
    assert "the sampler failed" in caplog.text

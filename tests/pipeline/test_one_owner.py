"""Pipelines run inside other guarded work: one of them owns the retries."""

import asyncio
from typing import Any

import pytest
from tests.pipeline.scene import Stage, one, run

import redrive
from redrive.pipeline import (
    BaseInterceptor,
    JitterStrategy,
    Pipeline,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageOutput,
    StageReportedError,
)
from redrive.testing import virtual_clock

R = [RetryInterceptor(3, 1)]
NO_RETRY: list[BaseInterceptor] = []


def runs(inner: Pipeline, interceptors: list[Any], **options: Any) -> Any:
    async def stage(ctx: StageContext) -> None:
        await inner.run(interceptors=interceptors, **options)

    return stage


@pytest.mark.promise("P16", "S5")
@pytest.mark.parametrize(
    ("failure", "outer", "inner", "calls"),
    [
        # Three attempts by whoever owns them, neither nine nor one.
        (ConnectionError("away"), R, R, 3),
        (ConnectionError("away"), R, NO_RETRY, 3),
        (ConnectionError("away"), NO_RETRY, R, 3),
        (ConnectionError("away"), NO_RETRY, NO_RETRY, 1),
        (StageOutput.retry("busy"), R, R, 3),
        (StageOutput.retry("busy"), NO_RETRY, R, 3),
        (StageOutput.retry("busy"), NO_RETRY, NO_RETRY, 3),
        (StageOutput.fail("never"), R, R, 1),
        (ValueError("never"), R, R, 1),
        (redrive.Permanent("never"), R, R, 1),
    ],
)
@pytest.mark.parametrize("how", ["a run in a stage", "a pipeline as a stage"])
def test_a_pipeline_inside_a_stage_is_tried_as_often_as_its_failure_deserves(
    failure: Any, outer: list[Any], inner: list[Any], calls: int, how: str
) -> None:
    stage = Stage(failure)
    if how == "a pipeline as a stage":
        # Its stages have the interceptors of the run around them.
        work: Any = one(stage, "i")
        inner = outer
        calls = 1 if calls == 3 and not outer and isinstance(failure, Exception) else calls
    else:
        work = runs(one(stage, "i"), inner)
    with virtual_clock():
        failed = run(one(work), outer).failed
    assert stage.calls == calls
    root: BaseException = failed
    while isinstance(root, PipelineFailedError):
        root = root.error
    assert isinstance(root, StageReportedError) if isinstance(failure, StageOutput) else root is failure


@pytest.mark.promise("P16")
@pytest.mark.parametrize("on", [None, ConnectionError, PipelineFailedError])
def test_a_guarded_call_around_a_run_owns_its_retries(on: Any) -> None:
    stage = Stage(ConnectionError("away"))
    guarded = redrive.retry(attempts=3, **({} if on is None else {"retry_on": on}))

    @guarded
    async def all_of_it() -> None:
        await one(stage).run(interceptors=R)

    with virtual_clock(), pytest.raises(PipelineFailedError):
        asyncio.run(all_of_it())
    assert stage.calls == 3


@pytest.mark.promise("P16")
def test_of_several_failures_one_that_stays_ends_the_retries() -> None:
    passing, staying = Stage(ConnectionError()), Stage(ValueError())
    inner = one(passing).with_stage("other", staying)
    with virtual_clock():
        run(one(runs(inner, R, on_failure="continue")), R)
    assert (passing.calls, staying.calls) == (1, 1)


@pytest.mark.promise("P16")
def test_a_pipeline_whose_stage_asks_for_retries_of_the_whole_gets_them() -> None:
    stage = Stage(ConnectionError())
    inner = one(stage)

    class Whole:
        retry_config = {"max_attempts": 4, "base_delay_ms": 1}  # noqa: RUF012 - as users write it

        async def execute(self, ctx: StageContext) -> None:
            await inner.run(interceptors=R)

    with virtual_clock():
        run(one(Whole()))
    assert stage.calls == 4


@pytest.mark.promise("P16")
def test_a_compensation_is_retried_by_the_run_that_it_belongs_to() -> None:
    tries: list[int] = []

    async def compensate(ctx: StageContext, output: StageOutput) -> None:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ConnectionError("flaky")

    inner = one(Stage(compensate=compensate), "book").with_stage("bad", Stage(ValueError()), dependencies=("book",))
    with virtual_clock():
        failed = run(one(runs(inner, R)), R).failed
    assert tries == [0, 1, 2]
    assert (failed.compensated, failed.compensation_failures) == (("work/book",), {})


@pytest.mark.promise("S7", "S8")
def test_timeouts_and_what_asks_for_it_are_retried_whatever_errors_are_named() -> None:
    async def hang(ctx: StageContext) -> None:
        await asyncio.Event().wait()

    named = [RetryInterceptor(3, 1, retryable_errors=(ValueError,))]
    cut = Stage(hang, timeout_ms=50)
    asks = Stage(StageOutput.retry("busy"))
    other, mine = Stage(ConnectionError()), Stage(ValueError())
    with virtual_clock():
        for stage in (cut, asks, other, mine):
            run(one(stage), named)
    assert [stage.calls for stage in (cut, asks, other, mine)] == [3, 3, 1, 3]


@pytest.mark.promise("S8")
def test_how_long_a_stage_may_ask_to_wait_is_said_and_can_be_raised() -> None:
    stage = Stage(StageOutput.retry("busy", retry_after_ms=61_000), None)
    with virtual_clock() as clock:
        failed = run(one(stage), [RetryInterceptor()]).failed
        assert "retry_after: asked to wait 61 s, above the 60 s accepted" in str(failed)
        assert (stage.calls, clock.waits) == (1, [])
        stage.calls = 0
        patient = RetryInterceptor(max_delay_ms=120_000, jitter_strategy=JitterStrategy.NONE)
        assert run(one(stage), [patient]).result.status == "completed"
        assert clock.waits == [61.0]

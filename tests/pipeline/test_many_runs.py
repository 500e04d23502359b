"""Very many runs of one pipeline at once: each is told its own, whatever becomes of the others."""

import asyncio
from typing import Any

import pytest

from redrive.pipeline import (
    EventQueue,
    JitterStrategy,
    Pipeline,
    PipelineContext,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageOutput,
)
from redrive.testing import virtual_clock

RUNS = 1000


class Shared:
    """One object for all runs, with no state: what it does is told by the run's own data."""

    retry_config = {"max_attempts": 4, "base_delay_ms": 100}  # noqa: RUF012 - what users write

    async def execute(self, ctx: StageContext) -> StageOutput:
        number, kind = ctx.data["number"], ctx.data["kind"]
        assert ctx.pipeline_run_id == f"run-{number}"
        if kind == "hangs":
            await asyncio.Event().wait()
        if kind == "fails" and ctx.stage_name == "second":
            raise ValueError(f"bad {number}")
        if ctx.attempt <= ctx.data["failures"]:
            raise ConnectionError(f"away {number}")
        await asyncio.sleep(0)
        before = ctx.inputs.get("sum", 0)
        return StageOutput.ok(sum=before + number, attempts=ctx.attempt)

    async def compensate(self, ctx: StageContext, output: StageOutput) -> None:
        assert output.data["sum"] == ctx.data["number"]
        ctx.data["compensated"].append(ctx.stage_name)


def pipeline_of_three() -> Pipeline:
    stage = Shared()
    return (
        Pipeline()
        .with_stage("first", stage)
        .with_stage("second", stage, dependencies=("first",))
        .with_stage("third", stage, dependencies=("second",))
    )


async def run_one(pipeline: Pipeline, number: int) -> None:
    kind = ("passes", "passes", "fails", "hangs")[number % 4]
    sink = EventQueue(limit=100)
    data: dict[str, Any] = {"number": number, "kind": kind, "failures": number % 3, "compensated": []}
    context = PipelineContext(
        data=data, pipeline_run_id=f"run-{number}", request_id=f"request-{number}", event_sink=sink
    )
    # No circuits: what these runs do on purpose would open one for all of them.
    running = asyncio.create_task(
        pipeline.run(context, interceptors=[RetryInterceptor(jitter_strategy=JitterStrategy.NONE)])
    )
    retries = 3 * data["failures"]
    if kind == "hangs":
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        retries = 0
    elif kind == "fails":
        with pytest.raises(PipelineFailedError, match=f"stage 'second' failed .*: bad {number}$") as failed:
            await running
        assert failed.value.results.data("first") == {"sum": number, "attempts": data["failures"] + 1}
        assert data["compensated"] == ["first"]
        retries = data["failures"]
    else:
        result = await running
        assert [result.data(name)["sum"] for name in result] == [number, 2 * number, 3 * number]
        assert {result.data(name)["attempts"] for name in result} == {data["failures"] + 1}
    events = sink.take_all()
    assert {event.event.pipeline_run_id for event in events} == {f"run-{number}"}
    assert {event.event.request_id for event in events} == {f"request-{number}"}
    scheduled = [event.event for event in events if event.type == "stage.retry_scheduled"]
    assert len(scheduled) == retries
    assert {event.error for event in scheduled} <= {f"away {number}"}
    assert sorted(data) == ["compensated", "failures", "kind", "number"]


@pytest.mark.promise("S6")
def test_a_thousand_runs_at_once_share_nothing() -> None:
    pipeline = pipeline_of_three()

    async def all_at_once() -> None:
        await asyncio.gather(*(run_one(pipeline, number) for number in range(RUNS)))
        assert len(asyncio.all_tasks()) == 1

    with virtual_clock():
        asyncio.run(all_at_once())

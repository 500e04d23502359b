"""Code as it is written for pipelines elsewhere: its shapes, names and habits work here with the imports changed."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
from tests.pipeline.scene import Stage, one, run

from redrive.determinism.dice import seeded_random
from redrive.pipeline import (
    BackoffStrategy,
    BaseInterceptor,
    CircuitBreakerInterceptor,
    ErrorAction,
    EventQueue,
    JitterStrategy,
    Pipeline,
    PipelineContext,
    RetryInterceptor,
    StageContext,
    StageKind,
    StageOutput,
    StageResult,
    get_default_interceptors,
    run_with_retry,
)
from redrive.testing import virtual_clock

chance = seeded_random(7)


class PatientInterceptor(BaseInterceptor):
    """Keeps its state in the context's data, waits in `on_error`, and emits the event by itself."""

    name = "patient"
    priority = 15

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts

    async def before(self, stage_name: str, ctx: PipelineContext) -> None:
        ctx.data.setdefault("patient.failures", 0)

    async def after(self, stage_name: str, result: StageResult, ctx: PipelineContext) -> None:
        if result.status != "failed":
            ctx.data.pop("patient.failures", None)

    async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction:
        failures = ctx.data.get("patient.failures", 0)
        if not isinstance(error, OSError) or failures >= self.attempts - 1:
            return ErrorAction.FAIL
        delay = chance.randint(1, 3)
        data = {"stage": stage_name, "attempt": failures + 1, "delay_ms": delay, "error": str(error)}
        ctx.event_sink.try_emit("stage.retry_scheduled", {**data, "error_type": type(error).__name__})
        await asyncio.sleep(delay / 1000)
        ctx.data["patient.failures"] = failures + 1
        return ErrorAction.RETRY


@pytest.mark.promise("S5", "S6", "S11")
def test_an_interceptor_that_does_its_own_retries_gets_all_of_them() -> None:
    stages = [Stage(*[ConnectionError("away")] * count, {"after": count}) for count in (4, 2, 0)]
    pipeline = Pipeline()
    for index, stage in enumerate(stages):
        pipeline = pipeline.with_stage(f"s{index}", stage)
    queue = EventQueue()
    interceptors = get_default_interceptors()
    interceptors.append(PatientInterceptor(attempts=5))
    asyncio.run(pipeline.run(interceptors=interceptors, event_sink=queue))
    assert [stage.calls for stage in stages] == [5, 3, 1]
    told = [event.event for event in queue.take_all() if event.type == "stage.retry_scheduled"]
    assert sorted((event.stage, event.attempt) for event in told) == [
        *(("s0", 1), ("s0", 2), ("s0", 3), ("s0", 4), ("s1", 1), ("s1", 2))
    ]
    spent = Stage(ConnectionError("away"))
    assert isinstance(run(one(spent), [PatientInterceptor(attempts=2)]).failed.error, ConnectionError)
    assert spent.calls == 2


def test_a_hook_that_only_looks_finds_the_attempt_in_the_data() -> None:
    seen: list[tuple[int, str]] = []

    class Looking(BaseInterceptor):
        async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> None:
            seen.append((ctx.data.get("_retry.attempt", 0), str(ctx.request_id)))

    with virtual_clock():
        run(one(Stage(TimeoutError())), [RetryInterceptor(), Looking()], request_id="r-1")
    assert seen == [(0, "r-1"), (1, "r-1"), (2, "r-1")]


@pytest.mark.promise("S5", "S9")
def test_mocked_stages_whose_execute_takes_nothing() -> None:
    calls = 0

    async def flaky() -> dict[str, bool]:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError("passes")
        return {"success": True}

    async def wrong() -> None:
        nonlocal calls
        calls += 1
        raise ValueError("stays")

    stage = AsyncMock()
    stage.execute = flaky
    with virtual_clock():
        assert asyncio.run(run_with_retry(stage, RetryInterceptor(max_attempts=5)))["success"]
        assert calls == 3
        stage.execute = wrong
        with pytest.raises(ValueError, match="stays"):
            asyncio.run(run_with_retry(stage, RetryInterceptor(max_attempts=5)))
    assert calls == 4


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("strategy", "delays"),
    [
        (BackoffStrategy.EXPONENTIAL, [1000, 2000, 4000, 8000, 16000]),
        (BackoffStrategy.LINEAR, [1000, 2000, 3000, 4000, 5000]),
        (BackoffStrategy.CONSTANT, [1000] * 5),
    ],
)
def test_delays_can_be_asked_for_one_by_one(strategy: BackoffStrategy, delays: list[int]) -> None:
    retry = RetryInterceptor(backoff_strategy=strategy, jitter_strategy=JitterStrategy.NONE)
    assert [retry._calculate_delay("any", attempt) for attempt in range(5)] == delays
    spread = RetryInterceptor(jitter_strategy=JitterStrategy.DECORRELATED)
    assert all(1000 <= spread._calculate_delay("any", attempt) <= 3000 for attempt in range(5))


@pytest.mark.promise("S8", "S9")
@pytest.mark.parametrize("given", ["by the run", "by a stage"])
def test_a_stage_that_catches_its_errors_and_says_what_they_mean(given: str) -> None:
    class RateLimited(Exception):
        retry_after = 3

    class Call:
        name = "call"
        kind = StageKind.WORK

        def __init__(self, *errors: Exception) -> None:
            self.errors = list(errors)

        async def execute(self, ctx: StageContext) -> StageOutput:
            try:
                if self.errors:
                    raise self.errors.pop(0)
                return StageOutput.ok(response={"echo": ctx.inputs["request"]})
            except RateLimited as error:
                return StageOutput.retry(reason=str(error), retry_after_ms=error.retry_after * 1000)
            except ValueError as error:
                return StageOutput.fail(error=str(error))

    def pipeline(call: Call) -> Pipeline:
        if given == "by the run":
            return Pipeline().with_stage("call", call, StageKind.WORK)
        request = Pipeline().with_stage("request", Stage({"id": 17}), StageKind.WORK)
        return request.with_stage("call", call, StageKind.WORK, dependencies=("request",))

    data: dict[str, Any] = {"request": {"id": 17}} if given == "by the run" else {}
    interceptors = [CircuitBreakerInterceptor(), RetryInterceptor()]
    with virtual_clock() as clock:
        ended = run(pipeline(Call(RateLimited("slow down"))), interceptors, data=data)
        assert ended.result.data("call") == {"response": {"echo": {"id": 17}}}
        assert clock.waits == [3.0]
        assert str(run(pipeline(Call(ValueError("no amount"))), interceptors, data=data).failed.error) == "no amount"
        assert clock.waits == [3.0]


@pytest.mark.promise("S10")
def test_ten_attempts_are_ten_attempts_with_the_default_set() -> None:
    stage = Stage(ConnectionError(), retry_config={"max_attempts": 10, "backoff_strategy": "exponential"})
    with virtual_clock():
        run(one(stage), get_default_interceptors())
    assert stage.calls == 10

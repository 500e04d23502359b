"""Hooks and functions of one's own that fail, wait or answer wrongly: the stage's error stays, and all are told."""

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from tests.pipeline.scene import Stage, one, ran, run
from tests.pipeline.test_sinks_and_spans import spans  # noqa: F401 - a fixture

import redrive
from redrive.errors import PipelineError
from redrive.pipeline import (
    BaseInterceptor,
    ErrorAction,
    IdempotencyInterceptor,
    Pipeline,
    PipelineContext,
    RetryInterceptor,
    StageContext,
    StageOutput,
    StageReportedError,
    StageResult,
    StageRun,
    TracingInterceptor,
)
from redrive.pipeline.interceptors.idempotency import Key, OutputsInMemory
from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.events import StageRetryScheduled
from redrive.testing import virtual_clock


class Broken(BaseInterceptor):
    """Its `on_error` fails."""

    def __init__(self, priority: int = 100, error: BaseException | None = None) -> None:
        self.priority = priority
        self.error = error or LookupError("the hook is broken")

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        raise self.error


class Saying(BaseInterceptor):
    def __init__(self, *said: ErrorAction | None, fallback: StageOutput | None = None) -> None:
        self.said = list(said)
        self.fallback = fallback

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        ctx.fallback = self.fallback
        return self.said.pop(0) if self.said else None


def test_an_on_error_that_fails_does_not_hide_the_error_of_the_stage() -> None:
    stage = Stage(ConnectionError("away"))
    failed = run(one(stage), [RetryInterceptor(), Broken()]).failed
    assert isinstance(failed.error, LookupError)
    assert isinstance(failed.error.__cause__, ConnectionError)
    assert stage.calls == 1


def test_an_on_error_that_raises_the_error_again_fails_the_stage_with_it() -> None:
    error = ConnectionError("away")
    failed = run(one(Stage(error)), [RetryInterceptor(), Broken(error=error)]).failed
    assert failed.error is error
    assert error.__cause__ is None


def test_an_on_error_that_awaits_something_cancelled_fails_the_stage() -> None:
    failed = run(one(Stage(ConnectionError())), [Broken(error=asyncio.CancelledError())]).failed
    assert isinstance(failed.error, redrive.Permanent)


def test_after_an_on_error_that_fails_the_next_run_with_the_same_key_goes_on() -> None:
    stage = Stage(ConnectionError("away"), {"done": 1}, idempotency_key="k")
    idempotency = IdempotencyInterceptor()

    async def twice() -> None:
        async with asyncio.timeout(20):
            assert (await ran(one(stage), [Broken(priority=1), idempotency])).failed
            assert (await ran(one(stage), [Broken(priority=1), idempotency])).result.data("work") == {"done": 1}

    asyncio.run(twice())


def test_after_an_output_could_not_be_remembered_the_next_run_with_the_same_key_goes_on() -> None:
    class FailingOnce(OutputsInMemory):
        fails = True

        async def put(self, key: Key, output: StageOutput) -> None:
            if self.fails:
                self.fails = False
                raise ConnectionError("the store is away")
            await super().put(key, output)

    interceptors = [IdempotencyInterceptor(FailingOnce())]
    keyed = one(Stage({"done": 1}, idempotency_key="k"))

    async def twice() -> None:
        async with asyncio.timeout(20):
            assert isinstance((await ran(keyed, interceptors)).failed.error, ConnectionError)
            assert (await ran(keyed, interceptors)).result.data("work") == {"done": 1}

    asyncio.run(twice())


@pytest.mark.parametrize("hook", ["on_error", "after"])
def test_the_span_of_an_attempt_ends_whatever_other_hooks_do(spans: Any, hook: str) -> None:  # noqa: F811 - the fixture
    class Failing(BaseInterceptor):
        priority = 16 if hook == "on_error" else 30

        async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
            raise LookupError

        async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
            raise LookupError

    work = Stage(ConnectionError("away")) if hook == "on_error" else Stage()
    run(one(work), [TracingInterceptor(), Failing()])
    assert [span.name for span in spans.get_finished_spans()] == ["stage work"]
    assert trace.get_current_span().get_span_context().span_id == 0


def test_an_on_cancel_that_fails_keeps_no_other_from_being_told() -> None:
    told: list[str] = []

    class Telling(BaseInterceptor):
        def __init__(self, fails: bool) -> None:
            self.fails = fails

        def on_cancel(self, stage_name: str, ctx: StageRun) -> None:
            told.append(stage_name)
            if self.fails:
                raise LookupError("password=hunter2")

    hangs = Stage(lambda ctx: asyncio.Event().wait())
    failed = run(one(hangs).with_stage("bad", Stage(ValueError())), [Telling(True), Telling(False)]).failed
    assert failed.stage == "bad"
    assert told == ["work", "work"]


@pytest.mark.promise("S9")
def test_work_that_an_after_hook_refuses_is_not_done_again_and_is_compensated() -> None:
    compensated: list[str] = []
    told: list[str] = []

    async def compensate(ctx: StageContext, output: StageOutput) -> None:
        compensated.append(ctx.stage_name)

    class Refusing(BaseInterceptor):
        async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
            raise ConnectionError("the audit log is away")

    class Watching(BaseInterceptor):
        def __init__(self, priority: int) -> None:
            self.priority = priority

        async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
            told.append(f"{self.priority} after")

        async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction:
            told.append(f"{self.priority} {type(error).__name__}")
            return ErrorAction.RETRY

    stage = Stage(compensate=compensate)
    with virtual_clock():
        failed = run(one(stage), [RetryInterceptor(), Refusing(), Watching(50), Watching(200)]).failed
    assert stage.calls == 1
    assert isinstance(failed.error, ConnectionError)
    assert (compensated, failed.compensated) == (["work"], ("work",))
    # Each is told once: those inside of the output, those outside that it was refused.
    assert told == ["200 after", "50 ConnectionError"]


def test_what_an_interceptor_answered_instead_of_the_stage_is_not_compensated() -> None:
    compensated: list[str] = []

    async def compensate(ctx: StageContext, output: StageOutput) -> None:
        compensated.append(ctx.stage_name)

    class Cached(BaseInterceptor):
        async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
            return StageOutput.ok(cached=True) if stage_name == "work" else None

    pipeline = one(Stage(compensate=compensate)).with_stage("bad", Stage(ValueError()), dependencies=("work",))
    assert run(pipeline, [Cached()]).failed.compensated == ()
    assert compensated == []


@pytest.mark.promise("S11", "S12")
def test_a_retry_that_only_an_interceptor_wants_is_told_like_any_other() -> None:
    heard: list[Any] = []
    stage = Stage(ValueError("no"), ValueError("no"), None)
    stop = redrive.listen(heard.append)
    with virtual_clock() as clock:
        ended = run(one(stage), [Saying(ErrorAction.RETRY, ErrorAction.RETRY)])
    stop()
    told = ended.events.named("stage.retry_scheduled")
    assert [(event.attempt, event.delay_ms, event.error) for event in told] == [(1, 100, "no"), (2, 100, "no")]
    assert [event for event in heard if isinstance(event, StageRetryScheduled)] == told
    assert clock.waits == [0.1, 0.1]
    assert ended.events.named("stage.retry_succeeded")


@pytest.mark.promise("S8")
@pytest.mark.parametrize("status", ["fail", "retry"])
@pytest.mark.parametrize("by", ["value", "function", "interceptor"])
def test_a_fallback_that_fails_is_no_answer(status: str, by: str) -> None:
    said = StageOutput.fail("no answer either") if status == "fail" else StageOutput.retry("not yet")

    async def fall_back(ctx: StageContext, error: Exception) -> StageOutput:
        return said

    own: dict[str, Any] = {"value": said, "function": fall_back, "interceptor": None}
    after = Stage()
    pipeline = one(Stage(ValueError("first"), fallback=own[by])).with_stage("after", after, dependencies=("work",))
    ended = run(pipeline, [Saying(ErrorAction.FALLBACK, fallback=said)] if by == "interceptor" else [])
    assert isinstance(ended.failed.error, StageReportedError)
    assert isinstance(ended.failed.error.__cause__, ValueError)
    assert after.calls == 0
    assert "stage.fell_back" not in ended.events.names


def test_a_retry_that_is_granted_and_overruled_goes_back_to_the_budget() -> None:
    class Overruling(RetryInterceptor):
        async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction:
            return ErrorAction.FAIL

    budget = Budget(BudgetSettings(ratio=0.0, floor=2))
    shared = Dependency("shared", None, budget)
    stage = Stage(ConnectionError(), dependency=shared)
    interceptors = [redrive.pipeline.CircuitBreakerInterceptor(), Overruling()]
    with virtual_clock() as clock:
        for _ in range(3):
            run(one(stage), interceptors)
        assert budget.left(clock.now) == 2
    assert stage.calls == 3


async def key_of(ctx: StageContext) -> str:
    return "k"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: one(Stage(idempotency_key=key_of)), r"idempotency_key: .* use a text, or a plain function \(def\)"),
        (lambda: Pipeline().with_stage("a", Stage(), when=key_of), r"when: .* use a plain function"),  # type: ignore[arg-type]  # what is refused
    ],
)
def test_what_is_asked_without_waiting_cannot_be_async(build: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()


def test_a_coroutine_from_a_lambda_is_no_key_and_no_condition() -> None:
    keyed = Stage(idempotency_key=lambda ctx: key_of(ctx))
    failed = run(one(keyed), [IdempotencyInterceptor(), RetryInterceptor()]).failed
    assert "its idempotency_key returns a coroutine" in str(failed)
    asked = Stage()
    wrong: Any = lambda ctx: key_of(ctx)  # noqa: E731 - the shape that hides a coroutine
    failed = run(Pipeline().with_stage("work", asked, when=wrong)).failed
    assert "its when returns a coroutine" in str(failed)
    assert keyed.calls == asked.calls == 0


def test_hooks_that_cannot_work_are_refused_before_anything_runs() -> None:
    class Plain(BaseInterceptor):
        def before(self, stage_name: str, ctx: PipelineContext) -> None:  # type: ignore[override]  # what is refused
            return

    class Waits(BaseInterceptor):
        async def on_cancel(self, stage_name: str, ctx: PipelineContext) -> None:  # type: ignore[override]  # the same
            return

    class Nowhere(BaseInterceptor):
        priority = "x"  # type: ignore[assignment]  # the same

    stage = Stage()
    for interceptor, says in (
        (Plain(), "before of Plain is not a coroutine function; write: async def before"),
        (Waits(), "on_cancel of Waits must not be async; write: def on_cancel"),
        (Nowhere(), "Nowhere has the priority 'x'; use a number"),
    ):
        with pytest.raises(TypeError, match=says):
            run(one(stage), [interceptor])
    assert stage.calls == 0


def test_interceptors_with_settings_cannot_be_changed_after_they_were_made() -> None:
    retry = RetryInterceptor()
    with pytest.raises(AttributeError, match="a RetryInterceptor is immutable; create another one"):
        retry.max_attempts = 9
    assert retry == RetryInterceptor()

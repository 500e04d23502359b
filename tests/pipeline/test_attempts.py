"""Timeouts, circuits, cancellation and interceptors around each attempt: per stage and run, and nobody else's."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.scene import Stage, one, ran, run

import redrive
from redrive.determinism.clock import current_clock
from redrive.errors import CircuitOpenError, PipelineError
from redrive.pipeline import (
    BaseInterceptor,
    CircuitBreakerInterceptor,
    ErrorAction,
    EventQueue,
    IdempotencyInterceptor,
    JitterStrategy,
    Pipeline,
    PipelineContext,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageOutput,
    StageResult,
    StageRun,
    TimeoutInterceptor,
    get_default_interceptors,
)
from redrive.resilience.circuit import CircuitSettings
from redrive.testing import virtual_clock


def takes(seconds: float) -> Callable[[StageContext], Awaitable[None]]:
    async def work(ctx: StageContext) -> None:
        clock = current_clock()
        await clock.asleep_until(clock.monotonic() + seconds)

    return work


@pytest.mark.promise("S6")
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_parallel_stages_count_their_own_attempts(failures: list[int]) -> None:
    stages = [Stage(*[ConnectionError()] * count, StageOutput.ok(made=count)) for count in failures]
    pipeline = Pipeline()
    for index, stage in enumerate(stages):
        pipeline = pipeline.with_stage(f"s{index}", stage)
    with virtual_clock():
        ended = run(pipeline, [*get_default_interceptors(), RetryInterceptor(max_attempts=5)])
    assert [stage.calls for stage in stages] == [count + 1 for count in failures]
    for index, count in enumerate(failures):
        told = [event for event in ended.events.named("stage.retry_scheduled") if event.stage == f"s{index}"]
        assert [event.attempt for event in told] == list(range(1, count + 1))


@pytest.mark.promise("S6")
def test_what_an_interceptor_writes_belongs_to_one_stage_of_one_run() -> None:
    class Counting(BaseInterceptor):
        """Keeps its count where the run's data is, and waits by itself."""

        async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction:
            ctx.data["failures"] = ctx.data.get("failures", 0) + 1
            return ErrorAction.RETRY if ctx.data["failures"] < 3 else ErrorAction.FAIL

    stages = [Stage(ConnectionError()), Stage(ConnectionError())]
    pipeline = Pipeline().with_stage("a", stages[0]).with_stage("b", stages[1])
    given_data = {"order": 17}

    async def twice() -> None:
        for _ in range(2):
            ended = await ran(pipeline, [Counting()], data=given_data, on_failure="continue")
            assert list(ended.failed.failures) == ["a", "b"]

    with virtual_clock():
        asyncio.run(twice())
    assert [stage.calls for stage in stages] == [6, 6]
    assert given_data == {"order": 17}


@pytest.mark.promise("S7")
@pytest.mark.parametrize("by", ["stage", "interceptor"])
def test_every_attempt_is_cut_at_its_timeout_and_retried(by: str) -> None:
    own: dict[str, Any] = {"timeout_ms": 2000} if by == "stage" else {}
    stage = Stage(takes(100), takes(100), takes(1), **own)
    timeout = TimeoutInterceptor(None if by == "stage" else 2000)
    retry = RetryInterceptor(jitter_strategy=JitterStrategy.NONE)
    with virtual_clock() as clock:
        ended = run(one(stage), [timeout, retry])
    assert stage.calls == 3
    # 2 s, and after the first timeout half as much again; in between 1 s and 2 s of backoff, then the work itself.
    assert clock.now == 2 + 1 + 3 + 2 + 1
    assert [event.error_type for event in ended.events.named("stage.retry_scheduled")] == ["AttemptTimeoutError"] * 2


@pytest.mark.promise("S7")
def test_a_timeout_on_the_last_attempt_fails_the_stage_with_its_own_type() -> None:
    stage = Stage(takes(100), timeout_ms=50)
    with virtual_clock():
        failed = run(one(stage), [RetryInterceptor(max_attempts=4)]).failed
        assert stage.calls == 4
        assert isinstance(failed.error, redrive.AttemptTimeoutError)
        unasked = Stage(takes(100), timeout_ms=50)
        assert isinstance(run(one(unasked)).failed.error, TimeoutError)
        assert unasked.calls == 1


@pytest.mark.promise("S13")
def test_each_attempt_counts_once_and_the_circuit_stays_open_across_runs_until_its_probe() -> None:
    stage = Stage(ConnectionError("away"))
    pipeline = one(stage)
    interceptors = [CircuitBreakerInterceptor(), RetryInterceptor(jitter_strategy=JitterStrategy.NONE)]

    async def in_turn() -> None:
        clock = current_clock()
        assert isinstance((await ran(pipeline, interceptors)).failed.error, ConnectionError)
        assert stage.calls == 3
        failed = (await ran(pipeline, interceptors)).failed
        # The fifth failure opened it: the retries end there.
        assert stage.calls == 5
        report = redrive.report_of(failed.error)
        assert report is not None
        assert report.gave_up.kind == "circuit_open"
        for _ in range(3):
            refused = (await ran(pipeline, interceptors)).failed
            assert isinstance(refused.error, CircuitOpenError)
            assert "work" not in refused.results
            report = redrive.report_of(refused.error)
            assert report is not None
            assert (report.made, report.gave_up.kind) == (0, "circuit_open")
        assert stage.calls == 5
        await clock.asleep_until(clock.monotonic() + 31)
        # One probe: it fails, and the circuit is open again at once.
        await ran(pipeline, interceptors)
        assert stage.calls == 6
        await clock.asleep_until(clock.monotonic() + 31)
        stage.endings = (StageOutput.ok(),)
        assert (await ran(pipeline, interceptors)).result.status == "completed"
        assert (await ran(pipeline, get_default_interceptors())).result.status == "completed"

    with virtual_clock():
        asyncio.run(in_turn())


@pytest.mark.promise("S13")
def test_a_success_starts_the_count_of_failures_anew() -> None:
    stage = Stage(*[*[ConnectionError()] * 4, None] * 3)
    pipeline = one(stage)

    async def in_turn() -> None:
        for _ in range(3):
            ended = await ran(pipeline, [CircuitBreakerInterceptor(), RetryInterceptor(max_attempts=5)])
            assert ended.result.status == "completed"

    with virtual_clock():
        asyncio.run(in_turn())
    assert stage.calls == 15


@pytest.mark.promise("S13")
def test_a_success_that_began_before_the_failures_starts_the_count_anew_too() -> None:
    async def in_turn() -> None:
        release = asyncio.Event()

        async def wait(ctx: StageContext) -> None:
            await release.wait()

        stage = Stage(wait, ConnectionError())
        pipeline = one(stage)
        slow = asyncio.create_task(ran(pipeline, [CircuitBreakerInterceptor()]))
        await asyncio.sleep(0.001)
        for _ in range(4):
            await ran(pipeline, [CircuitBreakerInterceptor()])
        release.set()
        assert (await slow).result.status == "completed"
        for _ in range(4):
            assert isinstance((await ran(pipeline, [CircuitBreakerInterceptor()])).failed.error, ConnectionError)

    asyncio.run(in_turn())


@pytest.mark.promise("S13")
def test_failures_of_concurrent_runs_open_the_circuit_for_all_of_them() -> None:
    stage = Stage(lambda ctx: asyncio.sleep(0), ConnectionError())
    pipeline = one(stage)

    async def together() -> None:
        await asyncio.gather(*(ran(pipeline) for _ in range(9)))
        assert isinstance((await ran(pipeline)).failed.error, CircuitOpenError)

    with virtual_clock():
        asyncio.run(together())
    assert stage.calls >= 6


@pytest.mark.promise("S13")
def test_the_circuit_of_a_pipeline_outlives_the_list_of_interceptors() -> None:
    stage = Stage(ConnectionError())
    pipeline = one(stage)

    async def in_turn() -> None:
        for _ in range(5):
            await ran(pipeline, get_default_interceptors())
        assert isinstance((await ran(pipeline, get_default_interceptors())).failed.error, CircuitOpenError)

    with virtual_clock():
        asyncio.run(in_turn())
    assert stage.calls == 5


@pytest.mark.promise("S13")
def test_stages_that_name_a_dependency_share_its_circuit() -> None:
    where = redrive.resilience.Dependency("bank", redrive.resilience.Circuit("bank", CircuitSettings(failures=2)), None)
    failing, fine = Stage(ConnectionError(), dependency=where), Stage(dependency=where)
    with virtual_clock():
        run(one(failing))
        run(one(failing))
        assert isinstance(run(one(fine)).failed.error, CircuitOpenError)
    assert fine.calls == 0


@pytest.mark.promise("S13")
def test_a_client_error_opens_no_circuit() -> None:
    stage = Stage(ValueError())
    pipeline = one(stage)

    async def in_turn() -> None:
        for _ in range(8):
            assert isinstance((await ran(pipeline)).failed.error, ValueError)

    asyncio.run(in_turn())
    assert stage.calls == 8


@pytest.mark.promise("S14")
@pytest.mark.parametrize("how", ["task", "context"])
def test_cancelling_a_run_wakes_a_backoff_at_once_and_nothing_more_runs(how: str) -> None:
    stage, after = Stage(ConnectionError()), Stage()
    pipeline = one(stage).with_stage("after", after, dependencies=("work",))

    async def cancel_in_backoff() -> None:
        clock = current_clock()
        sink = EventQueue()
        context = PipelineContext(event_sink=sink)
        task = asyncio.create_task(pipeline.run(context, interceptors=[RetryInterceptor(base_delay_ms=30_000)]))
        await clock.asleep_until(clock.monotonic() + 0.001)
        assert stage.calls == 1
        began = clock.monotonic()
        if how == "task":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            context.cancel("no longer wanted")
            result = await task
            assert (result.status, result.reason) == ("cancelled", "no longer wanted")
        assert clock.monotonic() == began
        await clock.asleep_until(began + 1000)
        assert len(asyncio.all_tasks()) == 1
        ended = [one.event for one in sink.take_all() if one.type == "pipeline.ended"]
        assert [event.status for event in ended] == ["cancelled"]

    with virtual_clock():
        asyncio.run(cancel_in_backoff())
    assert (stage.calls, after.calls) == (1, 0)


@pytest.mark.promise("S14")
def test_a_stage_that_takes_no_notice_of_being_cancelled_has_no_followers() -> None:
    async def stubborn(ctx: StageContext) -> dict[str, int]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"still": 1}
        return {}

    after = Stage()
    pipeline = one(stubborn).with_stage("after", after, dependencies=("work",)).with_stage("bad", Stage(ValueError()))
    failed = run(pipeline).failed
    assert after.calls == 0
    assert list(failed.results) == ["work"]


@pytest.mark.promise("S14")
@pytest.mark.parametrize("how", ["by the caller", "by another stage"])
def test_a_stage_that_makes_a_failure_of_being_cancelled_is_not_tried_again(how: str) -> None:
    async def misled(ctx: StageContext) -> StageOutput:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ctx.attempt == 1 and how == "by the caller":
                return StageOutput.retry("the line went dead")
            raise ConnectionError("the line went dead") from None
        return StageOutput.ok()

    stage = Stage(misled)
    pipeline = one(stage)
    if how == "by another stage":
        pipeline = pipeline.with_stage("bad", Stage(ValueError()))

    async def end_it() -> None:
        running = asyncio.create_task(pipeline.run(interceptors=[RetryInterceptor()]))
        await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises((asyncio.CancelledError, PipelineFailedError)):
            await running
        assert len(asyncio.all_tasks()) == 1

    with virtual_clock() as clock:
        asyncio.run(end_it())
    assert (stage.calls, clock.waits) == (1, [])


def test_what_goes_wrong_while_a_run_is_ended_is_not_why_it_failed() -> None:
    async def untidy(ctx: StageContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("while tidying up")

    failed = run(Pipeline().with_stage("untidy", untidy).with_stage("bad", Stage(ValueError("first")))).failed
    assert list(failed.failures) == ["bad"]


def test_stages_that_never_wait_let_others_have_their_turn() -> None:
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def beside() -> None:
        ticking = asyncio.create_task(tick())
        pipeline = Pipeline()
        for index in range(200):
            pipeline = pipeline.with_stage(f"s{index}", Stage(), dependencies=(f"s{index - 1}",) if index else ())
        await pipeline.run()
        ticking.cancel()

    asyncio.run(beside())
    assert turns >= 10


def test_work_that_is_cancelled_from_inside_fails_its_stage() -> None:
    async def stage(ctx: StageContext) -> None:
        other = asyncio.ensure_future(asyncio.Event().wait())
        other.cancel()
        await other

    async def cancels_itself(ctx: StageContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    for work in (stage, cancels_itself):
        failed = run(one(work).with_stage("after", Stage(), dependencies=("work",))).failed
        assert failed.stage == "work"
        assert isinstance(failed.error, redrive.Permanent)


class Recording(BaseInterceptor):
    def __init__(self, name: str, priority: int, told: list[str]) -> None:
        self.name, self.priority, self.told = name, priority, told

    async def before(self, stage_name: str, ctx: PipelineContext) -> StageOutput | None:
        assert isinstance(ctx, StageRun)
        self.told.append(f"{self.name} before {ctx.attempt}")
        return None

    async def after(self, stage_name: str, result: StageResult, ctx: PipelineContext) -> None:
        self.told.append(f"{self.name} after {result.attempt} {result.status}")

    async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction | None:
        self.told.append(f"{self.name} on_error {type(error).__name__}")
        return None

    def on_cancel(self, stage_name: str, ctx: PipelineContext) -> None:
        self.told.append(f"{self.name} on_cancel")


def test_interceptors_see_each_attempt_in_the_order_of_their_priorities() -> None:
    told: list[str] = []
    interceptors = [Recording("inner", 60, told), RetryInterceptor(), Recording("outer", 1, told)]
    with virtual_clock():
        run(one(Stage(ConnectionError(), None)), interceptors)
    assert told == [
        *("outer before 1", "inner before 1", "outer on_error ConnectionError", "inner on_error ConnectionError"),
        *("outer before 2", "inner before 2", "inner after 2 completed", "outer after 2 completed"),
    ]


def test_the_retries_inside_a_sub_pipeline_may_take_longer_than_one_attempt() -> None:
    stage = Stage(ConnectionError(), takes(3600), {"done": 1})
    retry = RetryInterceptor(base_delay_ms=3000, jitter_strategy=JitterStrategy.NONE)
    with virtual_clock():
        result = run(one(one(stage, "inner"), "outer"), [TimeoutInterceptor(2000), retry]).result
    assert result.data("outer") == {"inner": {"done": 1}}
    assert stage.calls == 3


def test_interceptors_that_differ_are_told_apart_from_run_to_run() -> None:
    class Noting(TimeoutInterceptor):
        def __init__(self) -> None:
            super().__init__()
            self.seen = 0

        async def before(self, stage_name: str, ctx: PipelineContext) -> StageOutput | None:
            self.seen += 1
            return None

    pipeline = one(Stage())
    first, second = Noting(), Noting()
    run(pipeline, [first])
    run(pipeline, [second])
    assert (first.seen, second.seen) == (1, 1)
    assert pipeline.plan_with([TimeoutInterceptor(5)]) is pipeline.plan_with([TimeoutInterceptor(5)])
    assert pipeline.plan_with([TimeoutInterceptor(5)]) is not pipeline.plan_with([TimeoutInterceptor(6)])
    with pytest.raises(TypeError, match="derive its class from BaseInterceptor"):
        run(pipeline, [RetryInterceptor])  # type: ignore[list-item]


@pytest.mark.parametrize("hashable", [False, True])
@pytest.mark.parametrize("base", [BaseInterceptor, TimeoutInterceptor, IdempotencyInterceptor])
def test_interceptors_may_be_dataclasses_and_equal_ones_are_told_apart(base: Any, hashable: bool) -> None:
    class Counting(base):  # type: ignore[misc]  # any of them
        limit: int = 3

        def __post_init__(self) -> None:
            base.__init__(self)
            self.seen = list[str]()

        async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
            self.seen.append(stage_name)
            known: StageOutput | None = await super().before(stage_name, ctx)
            return known

    made: Any = dataclass(Counting, unsafe_hash=hashable)
    pipeline = one(Stage(idempotency_key="k"))
    first, second = made(), made()
    assert first == second
    for interceptor in (first, second):
        run(pipeline, [interceptor])
    assert (first.seen, second.seen) == (["work"], ["work"])


def test_interceptors_are_told_of_an_attempt_that_is_cancelled() -> None:
    told: list[str] = []
    pipeline = one(Stage(takes(100))).with_stage("bad", Stage(ValueError()))
    with virtual_clock():
        run(pipeline, [Recording("it", 60, told)])
    assert told[-1] == "it on_cancel"
    assert "it before 1" in told


def test_an_interceptor_may_answer_instead_of_the_stage_and_refuse_its_output() -> None:
    class Cached(BaseInterceptor):
        async def before(self, stage_name: str, ctx: PipelineContext) -> StageOutput | None:
            return StageOutput.ok(cached=True)

    class Strict(BaseInterceptor):
        async def after(self, stage_name: str, result: StageResult, ctx: PipelineContext) -> None:
            if "total" not in result.data:
                raise ValueError("no total")

    stage = Stage()
    assert run(one(stage), [Cached()]).result.data("work") == {"cached": True}
    assert stage.calls == 0
    assert str(run(one(stage), [Strict()]).failed.error) == "no total"


def test_an_interceptor_that_always_wants_a_retry_does_not_make_a_tight_loop() -> None:
    class Insisting(BaseInterceptor):
        async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction:
            return ErrorAction.RETRY

    stage = Stage(*[ValueError()] * 20, None)
    with virtual_clock() as clock:
        run(one(stage), [Insisting()])
    assert clock.waits == [0.1] * 20


@pytest.mark.parametrize("by", ["stage", "interceptor", "value"])
def test_a_fallback_answers_when_the_stage_has_failed_for_good(by: str) -> None:
    class Falling(BaseInterceptor):
        async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction:
            assert isinstance(ctx, StageRun)
            ctx.fallback = StageOutput.ok(from_cache=True)
            return ErrorAction.FALLBACK

    async def fall_back(ctx: StageContext, error: Exception) -> StageOutput:
        return StageOutput.ok(from_cache=isinstance(error, ConnectionError))

    own: dict[str, Any] = {"stage": fall_back, "value": {"from_cache": True}, "interceptor": None}
    stage = Stage(ConnectionError(), fallback=own[by])
    with virtual_clock():
        ended = run(one(stage), [RetryInterceptor(), *([Falling()] if by == "interceptor" else [])])
    assert stage.calls == 3
    assert ended.result.data("work") == {"from_cache": True}
    assert "stage.fell_back" in ended.events.names


def test_work_with_a_key_is_done_once_by_all_runs_together() -> None:
    release = asyncio.Event()

    async def charge(ctx: StageContext) -> dict[str, int]:
        await release.wait()
        return {"number": stage.calls}

    stage = Stage(ConnectionError(), charge, idempotency_key=lambda ctx: ctx.data["order"])
    pipeline = one(stage)
    idempotency = IdempotencyInterceptor()
    interceptors = [idempotency, RetryInterceptor()]

    async def together() -> None:
        runs = [asyncio.create_task(pipeline.run(data={"order": "17"}, interceptors=interceptors)) for _ in range(5)]
        await asyncio.sleep(0.01)
        release.set()
        results = await asyncio.gather(*runs)
        assert [result.data("work") for result in results] == [{"number": 2}] * 5
        await pipeline.run(data={"order": "18"}, interceptors=interceptors)
        cancelled = asyncio.create_task(pipeline.run(data={"order": "19"}, interceptors=interceptors))
        release.clear()
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        release.set()
        await pipeline.run(data={"order": "19"}, interceptors=interceptors)
        assert not idempotency._working

    with virtual_clock():
        asyncio.run(together())
    # A failure, then each order once; the one that was cancelled was tried again.
    assert stage.calls == 5


def test_context_variables_of_a_stage_stay_in_it() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="untouched")
    seen: list[str] = []

    async def touch(ctx: StageContext) -> None:
        seen.append(variable.get())
        variable.set(ctx.stage_name)
        await asyncio.sleep(0)
        assert variable.get() == ctx.stage_name

    pipeline = Pipeline().with_stage("a", touch).with_stage("b", touch, dependencies=("a",)).with_stage("c", touch)

    async def outer() -> None:
        variable.set("outside")
        await pipeline.run()
        assert variable.get() == "outside"

    asyncio.run(outer())
    assert seen == ["outside"] * 3


def test_what_is_not_a_coroutine_function_is_named() -> None:
    class Plain:
        def execute(self, ctx: StageContext) -> StageOutput:
            return StageOutput.ok()

    with pytest.raises(PipelineError, match=r"stage 'work': .*write: async def execute"):
        one(Plain())
    unseen = run(one(lambda ctx: StageOutput.ok()), [RetryInterceptor()]).failed
    assert "async def execute" in str(unseen)
    wrong = run(one(Stage(17))).failed
    assert "returned a int; return StageOutput.ok(name=value), a dict or None" in str(wrong)


def test_an_undeclared_output_cannot_be_read() -> None:
    async def peek(ctx: StageContext) -> None:
        assert "secret" not in ctx.inputs
        assert ctx.inputs.get("secret") is None
        ctx.inputs["secret"]

    with pytest.raises(PipelineFailedError, match="secret is not an input of peek"):
        asyncio.run(Pipeline().with_stage("secret", Stage({"value": 1})).with_stage("peek", peek).run())


@pytest.mark.parametrize("settings", [{"timeout_ms": 0}, {"timeout_ms": "soon"}])
def test_a_timeout_that_cannot_be_meant_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"timeout_ms: .* use milliseconds above 0"):
        TimeoutInterceptor(**settings)
    with pytest.raises(ValueError, match="stage 'work': timeout_ms"):
        one(Stage(**settings))

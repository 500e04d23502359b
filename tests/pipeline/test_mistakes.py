"""What is written by mistake is refused in one line, early; what is secret stays so; errors travel."""

import asyncio
import copy
import logging
import pickle
from collections.abc import Mapping
from functools import partial, wraps
from typing import Any

import pytest
from tests.pipeline.scene import Stage, gives, one, run

import redrive
from redrive import report_of
from redrive.errors import PipelineError
from redrive.pipeline import (
    BaseInterceptor,
    CircuitBreakerInterceptor,
    ErrorAction,
    GuardRetry,
    Pipeline,
    PipelineContext,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageOutput,
    StageReportedError,
    StageResult,
    StageRun,
)
from redrive.resilience.circuit import CircuitSettings
from redrive.testing import virtual_clock

SECRET = "password=hunter2"


@pytest.mark.parametrize("output", [StageOutput.skip(SECRET), StageOutput.cancel(SECRET), StageOutput.fail(SECRET)])
def test_no_event_shows_a_secret_of_a_reason(output: StageOutput) -> None:
    ended = run(one(Stage(output)))
    told = [event.event.reason for event in ended.events.taken if getattr(event.event, "reason", "")]
    told += [event.event.error for event in ended.events.taken if getattr(event.event, "error", "")]
    assert told
    assert not [text for text in told if "hunter2" in text]


def test_a_sink_that_fails_shows_no_secret_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
            raise OSError(f"refused: {data}, {SECRET}")

    with caplog.at_level(logging.DEBUG, "redrive"):
        asyncio.run(one(Stage(StageOutput.skip(SECRET))).run(event_sink=Broken()))
    assert "the event sink Broken failed" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("travel", [lambda error: pickle.loads(pickle.dumps(error)), copy.deepcopy, copy.copy])  # noqa: S301 - our own bytes
@pytest.mark.parametrize("nested", [False, True])
def test_errors_travel_with_all_they_carry(travel: Any, nested: bool) -> None:
    stage = Stage(StageOutput.retry("busy"))
    pipeline = one(Stage({"a": 1}), "first").with_stage("second", stage, dependencies=("first",))
    with virtual_clock():
        failed = run(one(pipeline) if nested else pipeline, [RetryInterceptor()]).failed
    failed.add_note("seen by the worker")
    there = travel(failed)
    assert isinstance(there, PipelineFailedError)
    assert (str(there), there.stage, there.compensated, there.__notes__) == (
        *(str(failed), failed.stage, failed.compensated),
        failed.__notes__,
    )
    root, root_there = failed.error, there.error
    if nested:
        assert isinstance(root, PipelineFailedError)
        assert isinstance(root_there, PipelineFailedError)
        root, root_there = root.error, root_there.error
    else:
        assert there.results.data("first") == {"a": 1}
    assert isinstance(root, StageReportedError)
    assert isinstance(root_there, StageReportedError)
    assert (root_there.output, str(root_there)) == (root.output, str(root))
    report, report_there = report_of(root), report_of(root_there)
    assert report is not None
    assert report_there is not None
    assert report_there.made == report.made == 3


def circuit_that_is_open() -> Exception:
    interceptors = [CircuitBreakerInterceptor(CircuitSettings(failures=1))]
    pipeline = one(Stage(ConnectionError()))
    run(pipeline, interceptors)
    return run(pipeline, interceptors).failed


def cut() -> Exception:
    with virtual_clock():
        return run(one(Stage(lambda ctx: asyncio.Event().wait(), timeout_ms=5)), [RetryInterceptor(2)]).failed


def forbidden_to_be_retried() -> Exception:
    @redrive.retry(never_on=ConnectionError)
    async def never(ctx: StageContext) -> None:
        raise ConnectionError

    @redrive.retry(attempts=2)
    async def all_of_it() -> None:
        await one(never).run()

    with pytest.raises(PipelineFailedError) as failed:
        asyncio.run(all_of_it())
    return failed.value


@pytest.mark.parametrize("make", [circuit_that_is_open, cut, forbidden_to_be_retried])
def test_errors_of_redrive_travel_with_those_that_carry_them(make: Any) -> None:
    failed = make()
    for there in (pickle.loads(pickle.dumps(failed)), copy.deepcopy(failed)):  # noqa: S301 - our own bytes
        assert (str(there), type(there.error), str(there.error)) == (str(failed), type(failed.error), str(failed.error))


class Works:
    async def execute(self, ctx: StageContext) -> None:
        return

    async def other(self, ctx: StageContext) -> None:
        return

    def wanted(self, ctx: StageContext) -> bool:
        return True


works = Works()
inner = one(Stage())


@pytest.mark.parametrize("stage", [Works, works, works.other, inner, gives(a=1)])
def test_pipelines_that_share_a_stage_can_be_put_together(stage: Any) -> None:
    # A bound method is another object each time it is looked up.
    again = works.other if stage == works.other else stage
    first = Pipeline("first").with_stage("shared", stage, when=works.wanted).with_stage("a", Stage())
    second = Pipeline("second").with_stage("shared", again, when=works.wanted).with_stage("b", Stage())
    assert first.compose(second).stages == ("shared", "a", "b")
    for other in (one(Works(), "shared"), one(inner.with_stage("more", Stage()), "shared")):
        with pytest.raises(PipelineError, match="different stages of this name"):
            first.compose(other)


class Sync:
    """Everything that must be async, and is not."""

    def execute(self, ctx: StageContext) -> StageOutput:
        return StageOutput.ok()

    def compensate(self, ctx: StageContext, output: StageOutput) -> None:
        return

    def fallback(self, ctx: StageContext, error: Exception) -> StageOutput:
        return StageOutput.ok()


async def generates(ctx: StageContext) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: one(Sync()), "its execute is not a coroutine function; write: async def execute"),
        (lambda: one(partial(Sync().execute)), "write: async def execute"),
        (lambda: one(Stage(compensate=Sync().compensate)), "compensate: .* use a coroutine function"),
        (lambda: one(Stage(fallback=Sync().fallback)), "fallback: .* use an output, or a coroutine function"),
        (lambda: Pipeline().with_stage("a", Stage(), dependencies=None), "dependencies: None is not allowed"),  # type: ignore[arg-type]
        (lambda: one(Stage()).compose(None), "compose: a NoneType is not allowed; use a Pipeline"),  # type: ignore[arg-type]
        (lambda: GuardRetry("a", fields=5), r"GuardRetry fields: 5 is not allowed; use a tuple of names"),  # type: ignore[arg-type]
        (lambda: GuardRetry("a", fields="title"), "GuardRetry fields: 'title' is not allowed"),  # type: ignore[arg-type]
        (lambda: asyncio.run(one(Stage()).run({"a": 1})), r"run: a dict is not a PipelineContext; write run\(data="),  # type: ignore[arg-type]
        (lambda: PipelineContext(data=[1]), "data: a list is not allowed; use a dict"),  # type: ignore[arg-type]
        (lambda: run(one(Stage()), data="abc"), "data: a str is not allowed"),
        (lambda: PipelineContext(event_sink=[]), "event_sink: a list is not allowed; use an EventQueue"),  # type: ignore[arg-type]
        (lambda: StageOutput.retry("x", -1), "retry_after_ms: -1 is not allowed; use milliseconds from 0"),
        (lambda: StageOutput.retry("x", 10**400), "retry_after_ms: a number that large is not allowed"),
        (lambda: StageOutput.retry("x", float("nan")), "retry_after_ms: nan is not allowed"),
        (lambda: StageOutput.retry("x", "5"), "retry_after_ms: '5' is not allowed"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(build: Any, says: str) -> None:
    with pytest.raises((PipelineError, TypeError, ValueError), match=says) as refused:
        build()
    assert "\n" not in str(refused.value)


def test_plain_functions_that_return_something_to_await_are_stages() -> None:
    async def work(ctx: StageContext) -> dict[str, int]:
        return {"a": 1}

    def wrapped(*args: Any, **kwargs: Any) -> object:
        return work(*args, **kwargs)

    def annotated(ctx: StageContext) -> "asyncio.Future[dict[str, int]]":
        return asyncio.ensure_future(work(ctx))

    def blocking(ctx: StageContext) -> dict[str, int]:
        return {"a": 1}

    @wraps(blocking)
    async def in_a_thread(ctx: StageContext) -> dict[str, int]:
        return await asyncio.to_thread(blocking, ctx)

    @wraps(work)
    def logged(ctx: StageContext) -> object:
        return work(ctx)

    for stage in (wrapped, annotated, in_a_thread, logged, lambda ctx: work(ctx), partial(work)):
        assert run(one(stage)).result.data("work") == {"a": 1}
    assert "async def execute" in str(run(one(lambda ctx: generates(ctx))).failed)


def test_a_fallback_and_a_compensation_that_turn_out_to_be_plain_are_named() -> None:
    plain = Stage(ValueError(), fallback=lambda ctx, error: {"a": 1})
    assert "write: async def fallback" in str(run(one(plain)).failed)
    compensated = one(Stage(compensate=lambda ctx, output: None)).with_stage(
        "bad", Stage(ValueError()), dependencies=("work",)
    )
    assert "write: async def compensate" in str(run(compensated).failed.compensation_failures["work"])


def test_inputs_are_read_by_name() -> None:
    async def lists(ctx: StageContext) -> None:
        list(ctx.inputs)

    assert "the outputs of the dependencies are in ctx.inputs.outputs" in str(run(one(lists)).failed)


@pytest.mark.promise("S9")
@pytest.mark.parametrize("named", [(Exception,), (StageReportedError,), ("any",)])
def test_a_stage_that_says_it_failed_failed_once_whatever_errors_are_named(named: Any) -> None:
    stage = Stage(StageOutput.fail("bad card"))
    pipeline = one(stage)
    for runs in range(1, 9):
        # And it says nothing against what the stage talks to: the circuit stays closed.
        run(pipeline, [CircuitBreakerInterceptor(), RetryInterceptor(retryable_errors=named)])
        assert stage.calls == runs


class Cached(BaseInterceptor):
    """As the documentation has it: hooks may say that their context is a StageRun, or less."""

    def __init__(self) -> None:
        self.answers: dict[str, StageOutput] = {}

    async def after(self, stage_name: str, result: StageResult, ctx: PipelineContext) -> None:
        self.answers[stage_name] = StageOutput.ok(result.data)

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction:
        ctx.fallback = self.answers.get(stage_name)
        return ErrorAction.FALLBACK if ctx.fallback else ErrorAction.FAIL


def test_an_interceptor_may_answer_with_what_it_remembers() -> None:
    cached = Cached()
    stage = Stage({"a": 1}, ValueError())
    run(one(stage), [cached])
    assert run(one(stage), [cached]).result.data("work") == {"a": 1}


class Answers(BaseInterceptor):
    def __init__(self, priority: int) -> None:
        self.priority = priority

    async def before(self, stage_name: str, ctx: StageRun) -> Any:
        return "cached"


async def answer(ctx: StageContext, error: Exception) -> Any:
    return 5


@pytest.mark.parametrize(
    ("stage", "interceptors", "who"),
    [
        (gives(n=1), [Answers(30)], "Answers.before, called for stage 'work', returned a str"),
        (gives(n=1), [Answers(1)], "Answers.before, called for stage 'work', returned a str"),
        (Stage(ConnectionError("away"), fallback=answer), [], "the fallback of stage 'work' returned a int"),
        (Stage("text"), [], "stage 'work' returned a str"),
    ],
)
def test_whoever_returned_what_is_no_output_is_named(stage: Any, interceptors: list[BaseInterceptor], who: str) -> None:
    error = run(one(stage), interceptors).failed.error
    assert str(error) == f"{who}; return StageOutput.ok(name=value), a dict or None"


def test_one_interceptor_is_no_list() -> None:
    said = r"interceptors: a RetryInterceptor is not a list; write \[\*get_default_interceptors\(\), RetryInterceptor\("
    with pytest.raises(TypeError, match=said):
        run(one(gives(n=1)), RetryInterceptor())  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match=said):
        redrive.register_pipeline(one(gives(n=1)).with_name("listed"), RetryInterceptor())  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (StageOutput.cancel("closed"), "StageOutput.cancel('closed')"),
        (StageOutput.fail("bad", {"why": 1, "n": 2}), "StageOutput.fail(why, n, 'bad')"),
        (StageOutput.ok(n=1), "StageOutput.ok(n)"),
        (StageOutput.skip(), "StageOutput.skip()"),
    ],
)
def test_an_output_is_shown_without_its_values(output: StageOutput, shown: str) -> None:
    assert repr(output) == shown

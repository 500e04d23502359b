"""The same pipelines on the engine: the same results, attempts and waits as in process, and what survives a crash."""

import asyncio
import pickle
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.scene import Ran, gives, ran
from tests.postgres_server import shared_server

import redrive
from redrive.errors import PipelineError
from redrive.explain.explanation import explain_text
from redrive.flows.events import AttemptFailed, StepSettled
from redrive.flows.graphs.graph import graph_named
from redrive.pipeline import (
    BaseInterceptor,
    GuardRetry,
    IdempotencyInterceptor,
    Pipeline,
    RetryInterceptor,
    StageContext,
    StageKind,
    StageOutput,
    StageReportedError,
    TimeoutInterceptor,
    get_default_interceptors,
)
from redrive.pipeline.durable.graph_conversion import graph_of
from redrive.pipeline.durable.validation import durable_plan
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app, virtual_clock

NOTHING: Mapping[str, Any] = MappingProxyType({})
DONE: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    DONE.clear()


def steady(attempts: int = 4, base_ms: int = 1000) -> RetryInterceptor:
    return RetryInterceptor(max_attempts=attempts, base_delay_ms=base_ms, jitter_strategy="none")  # type: ignore[arg-type]  # a word will do


def durably(
    pipeline: Pipeline, *interceptors: BaseInterceptor, data: Mapping[str, Any] = NOTHING, store: str = "memory://"
) -> FlowOutcome:
    async def story() -> FlowOutcome:
        async with flow_app(store) as app:
            redrive.register_pipeline(pipeline, [*get_default_interceptors(), *interceptors])
            return await app.outcome(await app.start(pipeline.call(data=data, request_id="r-1")))

    return asyncio.run(story())


def in_process(pipeline: Pipeline, *interceptors: BaseInterceptor, data: Mapping[str, Any] = NOTHING) -> Ran:
    with virtual_clock():
        return asyncio.run(ran(pipeline, [*get_default_interceptors(), *interceptors], data=dict(data)))


def given_by(stages: Ran) -> dict[str, Any]:
    return {name: None if one.status == "skip" else dict(one.data) for name, one in stages.result.items()}


def attempts_of(outcome: FlowOutcome) -> dict[str, int]:
    return {item.step: item.attempt for item in outcome.history.items.values()}


# The same as in process


class Made:
    """A stage that ends as it was made to; how often it has failed is told by the number of the attempt."""

    def __init__(self, how: str, fails: int, seen: dict[str, int]) -> None:
        self.how = how
        self.fails = fails
        self.seen = seen

    async def execute(self, ctx: StageContext) -> Any:
        self.seen[ctx.stage_name] = ctx.attempt
        if ctx.attempt <= self.fails:
            if self.how == "raises":
                raise ConnectionError("away")
            return StageOutput.retry("busy", retry_after_ms=2500 if ctx.attempt == 1 else None)
        if self.how == "skips":
            return StageOutput.skip("nothing to do")
        if self.how == "gives nothing":
            return None
        before = {name: ctx.inputs.get_from(name, "n", 0) for name in ctx.inputs.outputs}
        return StageOutput.ok(n=1 + sum(before.values()), before=before, got=ctx.inputs["items"])


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[tuple[str, ...], str, int, bool]]:
    """Dependencies, how it ends, how often it fails before, and whether a condition holds it back."""
    stages = []
    for number in range(draw(st.integers(1, 5))):
        before = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        how = draw(st.sampled_from(["gives", "raises", "asks", "skips", "gives nothing"]))
        fails = draw(st.integers(0, 4)) if how in ("raises", "asks") else 0
        stages.append((tuple(f"s{one}" for one in sorted(before)), how, fails, draw(st.integers(0, 5)) == 0))
    return stages


def built(plan: list[tuple[tuple[str, ...], str, int, bool]], seen: dict[str, int]) -> Pipeline:
    pipeline = Pipeline("made")
    for number, (before, how, fails, held) in enumerate(plan):
        when = (lambda ctx: ctx.data["items"] > 100) if held else None
        pipeline = pipeline.with_stage(f"s{number}", Made(how, fails, seen), dependencies=before, when=when)
    return pipeline


@pytest.mark.promise("S6", "S8")
@given(plans())
def test_results_attempts_and_times_are_those_of_a_run_in_process(
    plan: list[tuple[tuple[str, ...], str, int, bool]],
) -> None:
    here: dict[str, int] = {}
    there: dict[str, int] = {}
    ended = in_process(built(plan, here), steady(), data={"items": 3})
    outcome = durably(built(plan, there), steady(), data={"items": 3})
    if ended._failed is not None:
        assert outcome.status == "failed"
        # Two may fail at the same time, and then either may be the first.
        assert (type(outcome.error), str(outcome.error)) in ((ConnectionError, "away"), (StageReportedError, "busy"))
        assert outcome.duration == pytest.approx(ended.failed.results.elapsed)
        return
    assert outcome.result == given_by(ended)
    assert there == here
    assert outcome.duration == pytest.approx(ended.result.elapsed)


class Hangs:
    timeout_ms = 10_000
    retry_config = MappingProxyType({"max_attempts": 3, "base_delay_ms": 100, "jitter_strategy": "none"})

    async def execute(self, ctx: StageContext) -> None:
        await asyncio.Event().wait()


@pytest.mark.promise("S7", "S10")
def test_a_timeout_cuts_each_attempt_and_what_the_stage_says_goes_before_the_interceptors() -> None:
    pipeline = Pipeline("slow").with_stage("hang", Hangs())
    outcome = durably(pipeline, TimeoutInterceptor(1.0), steady(9))
    assert isinstance(outcome.error, redrive.AttemptTimeoutError)
    assert outcome.waits == [0.1, 0.2]
    # The first attempt gets 10 s, and those after a timeout half as much again.
    assert outcome.duration == pytest.approx(10 + 0.1 + 15 + 0.2 + 15)


@pytest.mark.promise("S8")
def test_the_time_that_a_stage_asks_for_is_waited_and_without_one_the_backoff() -> None:
    async def busy(ctx: StageContext) -> StageOutput:
        if ctx.attempt == 1:
            return StageOutput.retry("busy", retry_after_ms=5000)
        return StageOutput.retry("busy still") if ctx.attempt < 4 else StageOutput.ok(done=True)

    pipeline = Pipeline("busy").with_stage("work", busy)
    assert durably(pipeline, steady()).waits == [5.0, 2.0, 4.0]
    # Without a RetryInterceptor nothing is retried but what asks for it: as often as there, by default.
    outcome = durably(pipeline)
    assert (outcome.status, len(outcome.waits)) == ("failed", 2)
    assert durably(Pipeline("down").with_stage("work", Fails(ConnectionError("away")))).waits == []


class Fails:
    def __init__(self, how: Any, **attributes: Any) -> None:
        self.how = how
        vars(self).update(attributes)

    async def execute(self, ctx: StageContext) -> Any:
        if isinstance(self.how, Exception):
            raise self.how
        return self.how


@pytest.mark.promise("S9")
def test_a_stage_that_fails_has_failed_once_unless_it_wants_to_be_retried() -> None:
    outcome = durably(Pipeline("card").with_stage("charge", Fails(StageOutput.fail("bad card"))), steady())
    assert isinstance(outcome.error, StageReportedError)
    assert (str(outcome.error), outcome.error.output.error) == ("bad card", "bad card")
    assert attempts_of(outcome) == {"charge": 1}
    wants = Pipeline("card").with_stage("charge", Fails(StageOutput.fail("bad card"), retry_on_fail=True))
    assert attempts_of(durably(wants, steady())) == {"charge": 4}


def test_a_stage_knows_its_attempt_its_run_its_inputs_and_what_was_given() -> None:
    told: list[Any] = []

    async def ask(ctx: StageContext) -> None:
        told.append((ctx.attempt, ctx.request_id, ctx.feedback, ctx.inputs["cents"], ctx.inputs["price"]))
        told.append((ctx.idempotency_key, ctx.pipeline_run_id, ctx.stage_name))
        assert "gift" not in ctx.inputs
        with pytest.raises(KeyError, match="it was skipped"):
            ctx.inputs["gift"]
        with pytest.raises(TypeError):
            ctx.data["items"] = 4  # type: ignore[index]  # it cannot be changed
        if ctx.attempt == 1:
            raise ConnectionError("away")

    pipeline = (
        Pipeline("asking")
        .with_stage("price", gives(cents=300, price=1))
        .with_stage("gift", gives(card="yes"), when=lambda ctx: ctx.data["items"] > 5)
        .with_stage("ask", ask, dependencies=("price", "gift"))
    )
    outcome = durably(pipeline, steady(), data={"items": 3})
    assert outcome.result == {"price": {"cents": 300, "price": 1}, "gift": None, "ask": {}}
    assert [one[0] for one in told[::2]] == [1, 2]
    assert told[0][1:] == ("r-1", (), 300, {"cents": 300, "price": 1})
    assert told[1] == told[3] == (f"{outcome.flow_id}:ask", outcome.flow_id, "ask")


def test_a_stage_that_retries_nothing_leaves_the_retries_to_the_calls_inside_it() -> None:
    calls: list[int] = []

    @redrive.retry(attempts=3, retry_on=(ConnectionError,))
    async def call(attempt: int) -> None:
        calls.append(attempt)
        raise ConnectionError("away")

    async def inside(ctx: StageContext) -> None:
        await call(ctx.attempt)

    pipeline = Pipeline("nested").with_stage("work", inside)
    durably(pipeline)
    assert calls == [1, 1, 1]
    calls.clear()
    durably(pipeline, steady(3))
    assert calls == [1, 2, 3]


def test_a_condition_that_breaks_fails_the_stage_and_is_not_asked_again() -> None:
    def broken(ctx: StageContext) -> bool:
        DONE.append("asked")
        raise ConnectionError("no answer")

    outcome = durably(Pipeline("broken").with_stage("work", gives(n=1), when=broken), steady())
    assert str(outcome.error) == "stage 'work': its condition (when) failed: ConnectionError: no answer"
    assert DONE == ["asked"]


def test_a_stage_that_cancels_ends_the_flow_without_an_error_and_nothing_is_compensated() -> None:
    pipeline = (
        Pipeline("closed")
        .with_stage("hotel", Booking())
        .with_stage("door", Fails(StageOutput.cancel("closed today")), dependencies=("hotel",))
        .with_stage("hall", gives(n=1), dependencies=("door",))
    )
    outcome = durably(pipeline, steady())
    assert outcome.status == "cancelled"
    assert isinstance(outcome.error, redrive.FlowCancelledError)
    assert [line.event.error.message for line in outcome.lines if isinstance(line.event, AttemptFailed)] == [
        "closed today"
    ]
    assert DONE == ["hotel"]


# Compensation


class Booking:
    def __init__(self, fails: int = 0) -> None:
        self.fails = fails

    async def execute(self, ctx: StageContext) -> dict[str, str]:
        DONE.append(ctx.stage_name)
        return {"booking": f"{ctx.stage_name}-{ctx.data.get('guest', '')}"}

    async def compensate(self, ctx: StageContext, output: StageOutput) -> None:
        if ctx.attempt <= self.fails:
            raise ConnectionError("away")
        DONE.append(f"compensate {output.data['booking']} after {', '.join(ctx.inputs.outputs)}")


def trip(ending: Any, fails: int = 0) -> Pipeline:
    return (
        Pipeline("trip")
        .with_stage("hotel", Booking())
        .with_stage("car", Booking(fails), dependencies=("hotel",))
        .with_stage("bus", Booking(), dependencies=("car",), when=lambda ctx: False)
        .with_stage("flight", Fails(ending), dependencies=("car",))
    )


def test_what_was_done_is_compensated_newest_first_with_the_retries_of_its_stage() -> None:
    outcome = durably(trip(redrive.Permanent("no seats"), fails=2), steady(), data={"guest": "ann"})
    assert str(outcome.error) == "no seats"
    assert DONE == ["hotel", "car", "compensate car-ann after hotel", "compensate hotel-ann after "]
    assert outcome.waits == [1.0, 2.0]
    settled = {line.event.step: line.event.state for line in outcome.lines if isinstance(line.event, StepSettled)}
    assert settled == {"flight": "failed", "bus": "compensated", "car": "compensated", "hotel": "compensated"}


# Crashes and stores


async def to_its_end(app: FlowApp, pipeline: Pipeline) -> tuple[str, Any]:
    redrive.register_pipeline(pipeline, [steady(6)])
    outcome = await app.outcome(await app.start(pipeline.call(data={"items": 3})))
    return outcome.status, outcome.result if outcome.error is None else str(outcome.error)


@pytest.mark.promise("A14")
def test_a_crash_at_any_commit_changes_no_outcome_and_nothing_recorded_is_done_again() -> None:
    plan = [
        ((), "raises", 1, False),
        (("s0",), "asks", 1, False),
        (("s0",), "skips", 0, False),
        (("s1", "s2"), "gives", 0, False),
    ]
    pipeline = built(plan, {})
    runs = crash_everywhere(to_its_end, pipeline)
    assert runs[0].outcome == ("completed", given_by(in_process(pipeline, steady(), data={"items": 3})))
    assert sum(run.crashed for run in runs) > 10


@pytest.mark.promise("A14")
def test_a_crash_at_any_commit_of_a_flow_that_a_stage_cancels_changes_nothing() -> None:
    runs = crash_everywhere(to_its_end, trip(StageOutput.cancel("closed today")))
    assert {run.outcome[0] for run in runs} == {"cancelled"}
    assert not any(one.startswith("compensate") for one in DONE)


@pytest.mark.promise("A14")
def test_a_crash_at_any_commit_of_a_flow_that_is_compensated_changes_nothing_either() -> None:
    runs = crash_everywhere(to_its_end, trip(redrive.Permanent("no seats")))
    assert {run.outcome for run in runs} == {("failed", "no seats")}
    compensated = [one for one in DONE if one.startswith("compensate")]
    assert len(compensated) >= 2 * len(runs)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_store_carries_it_out(kind: str, tmp_path: Path) -> None:
    store = shared_server().fresh_database() if kind == "postgres" else f"sqlite:///{tmp_path}/app.db"
    plan = [((), "raises", 1, False), (("s0",), "asks", 2, False), (("s0",), "gives", 0, True)]
    outcome = durably(built(plan, {}), steady(), data={"items": 3, "who": "Zoë"}, store=store)
    assert outcome.result == given_by(in_process(built(plan, {}), steady(), data={"items": 3}))
    assert outcome.waits == [1.0, 2.5, 2.0]


# Starting


def test_a_registered_pipeline_keeps_its_settings_and_is_known_by_its_name() -> None:
    pipeline = built([((), "raises", 2, False)], {})

    async def story() -> None:
        async with flow_app() as app:
            redrive.register_pipeline(pipeline, [steady(base_ms=500)])
            by_name = await app.outcome(await app.start(graph_named("made").call({"data": {"items": 1}})))
            first = await app.start(pipeline.call(data={"items": 1}), key="k-1")
            again = await app.start(pipeline.call(data={"items": 1}), key="k-1")
            assert (again.id, again.is_new) == (first.id, False)
            assert (await app.outcome(first)).waits == by_name.waits == [0.5, 1.0]
            with pytest.raises(redrive.KeyTakenError):
                await app.start(pipeline.call(data={"items": 2}), key="k-1")
            late = await app.start(pipeline.call(data={"items": 1}), delay="2h", queue="slow", priority=3)
            record = await app.find(late.id)
            assert (record.queue, record.priority) == ("slow", 3)
            assert (await app.outcome(late)).duration >= 7200

    asyncio.run(story())


def test_a_pipeline_that_nobody_registered_runs_with_the_default_interceptors() -> None:
    async def story() -> None:
        async with flow_app() as app:
            pipeline = Pipeline("unknown").with_stage("work", gives(n=1))
            assert (await app.outcome(await app.start(pipeline.call()))).result == {"work": {"n": 1}}
            assert (await app.outcome(await app.start(graph_named("unknown").call()))).result == {"work": {"n": 1}}
            with pytest.raises(TypeError, match="data is a list; pass a dict"):
                await app.start(pipeline.call(data=[1]))  # type: ignore[arg-type]  # that is the point
            with pytest.raises(
                redrive.errors.SerializationError, match="pipeline 'unknown': data cannot be stored: JSON has no"
            ):
                await app.start(pipeline.call(data={"where": object()}))
            with pytest.raises(
                redrive.errors.SerializationError, match="pipeline 'unknown': request_id cannot be stored"
            ):
                await app.start(pipeline.call(request_id=object()))

    asyncio.run(story())


def test_pipelines_that_are_composed_get_a_name_and_run() -> None:
    whole = of(name="first").compose(Pipeline("other").with_stage("then", gives(n=2), dependencies=("first",)))
    with pytest.raises(PipelineError, match=r"pipeline 'refused\+other': this name is not allowed in a durable run"):
        durably(whole)
    assert durably(whole.with_name("whole")).result == {"first": {"n": 1}, "then": {"n": 2}}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            Decimal("1.5"),
            "a Decimal would come back as a str; pass a str, and convert it to a Decimal where it is used",
        ),
        ({1: 2}, "the key 1 of a dict would come back as text; use strings as keys"),
    ],
)
def test_what_json_does_not_keep_is_to_be_converted_since_a_stage_annotates_nothing(value: Any, said: str) -> None:
    outcome = durably(Pipeline("odd").with_stage("work", gives(value=value)))
    assert str(outcome.error) == f"stage 'work': its result cannot be stored: {said}"
    with pytest.raises(redrive.errors.SerializationError) as refused:
        durably(Pipeline("odd").with_stage("work", gives(n=1)), data={"value": value})
    assert str(refused.value) == f"pipeline 'odd': data cannot be stored: {said}"


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}])
def test_an_output_that_json_cannot_hold_fails_the_stage_at_once(value: Any) -> None:
    outcome = durably(Pipeline("odd").with_stage("work", gives(value=value)), steady())
    assert isinstance(outcome.error, redrive.errors.SerializationError)
    assert str(outcome.error).startswith("stage 'work': its result cannot be stored: ")
    assert attempts_of(outcome) == {"work": 1}


# What only a run in process can do


class Sees(BaseInterceptor):
    async def before(self, stage_name: str, ctx: Any) -> None:
        raise AssertionError("a durable run calls no hooks")


class Slower(RetryInterceptor):
    """Settings, and no hooks."""


def of(stage: Any = None, name: str = "work", **options: Any) -> Pipeline:
    return Pipeline("refused").with_stage(name, gives(n=1) if stage is None else stage, **options)


def guarded() -> Pipeline:
    guard = GuardRetry("work")
    return of().with_stage("check", gives(n=1), StageKind.GUARD, ("work",), guard_retry=guard)


REFUSED: list[tuple[Pipeline, list[BaseInterceptor], str]] = [
    (Pipeline().with_stage("work", gives(n=1)), [], "pipeline 'pipeline': workers find .* by its name; give it one"),
    (
        Pipeline("a b").with_stage("work", gives(n=1)),
        [],
        "pipeline 'a b': this name is not allowed in a durable run; use a .* in all: pipeline.with_name",
    ),
    (of(name="to do"), [], "stage 'to do': this name is not allowed in a durable run; use a letter, then"),
    (of(name="data"), [], "stage 'data': a durable run has an input of this name; rename the stage"),
    (of(name="request_id"), [], "stage 'request_id': a durable run has an input of this name"),
    (of(Booking(), "w" * 98), [], r"the name of its compensation, .*: this name is not allowed in a durable run"),
    (
        of(Booking()).with_stage("work.compensate", gives(n=1)),
        [],
        "stage 'work.compensate': this is the name of the compensation of 'work'; rename the stage",
    ),
    (of(of()), [], r"stage 'work': a durable run cannot nest pipelines; compose them: pipeline.compose\(...\)"),
    (guarded(), [], "stage 'check': guard_retry works only in process, .* leave it out, or do both in one stage"),
    (of(Fails(None, fallback={"n": 0})), [], "stage 'work': fallback works only in process; leave it out"),
    (of(Fails(None, dependency="d" * 201)), [], "stage 'work': dependency: .* at most 200 characters"),
    (
        of(Fails(None, retry_config={"retryable_errors": [lambda error: True]})),
        [],
        "stage 'work': its retry settings cannot be stored: .*; name exception classes in them",
    ),
    (of(), [Sees()], "interceptors: Sees has its own before, and a durable run does not call them; leave it out"),
    (of(), [IdempotencyInterceptor()], r"interceptors: IdempotencyInterceptor works only in process; .* key=\.\.\."),
]


@pytest.mark.parametrize(("pipeline", "interceptors", "said"), REFUSED, ids=lambda one: str(one)[:30])
def test_what_a_durable_run_cannot_do_is_refused_in_one_line_before_it_begins(
    pipeline: Pipeline, interceptors: list[BaseInterceptor], said: str
) -> None:
    with pytest.raises(PipelineError, match=said) as refused:
        redrive.register_pipeline(pipeline, interceptors)
    assert "\n" not in str(refused.value)


def test_settings_of_an_interceptor_are_taken_whoever_derived_it() -> None:
    pipeline = of(Fails(None, dependency="bank"))
    graph = graph_of("bank", durable_plan(pipeline, [*get_default_interceptors(), Slower(max_attempts=7)]))
    assert b'"attempts":7' in bytes(graph.steps[0].policy)
    assert graph.steps[0].dependency == "bank"
    # Without a circuit breaker there is no circuit in process, either.
    assert graph_of("bank", durable_plan(pipeline, [])).steps[0].dependency is None


def test_only_a_pipeline_is_registered() -> None:
    with pytest.raises(TypeError, match="register_pipeline takes a Pipeline, not 'checkout'"):
        redrive.register_pipeline("checkout")  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    "output",
    [
        StageOutput.fail("bad", {"why": 1, "deep": {"list": [1, None]}}),
        StageOutput.retry("busy", retry_after_ms=12.5),
        StageOutput.fail("bad"),
    ],
)
def test_what_a_stage_reported_is_the_same_in_process_durably_and_in_another_process(output: StageOutput) -> None:
    pipeline = Pipeline("reports").with_stage("work", Fails(output))
    error, here = durably(pipeline).error, in_process(pipeline).failed.error
    assert isinstance(error, StageReportedError)
    assert isinstance(here, StageReportedError)
    assert error.output == here.output == output
    for one in (error, here):
        assert pickle.loads(pickle.dumps(one)).output == output  # noqa: S301 - its own


def test_why_a_stage_cancelled_the_flow_is_told() -> None:
    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(
                Pipeline("closing").with_stage("door", Fails(StageOutput.cancel("closed today"))).call()
            )
            with pytest.raises(redrive.FlowCancelledError, match="was cancelled: closed today") as ended:
                await flow.result()
            assert (ended.value.flow_id, ended.value.why) == (flow.id, "closed today")
            told = await app.explain(flow.id)
            assert told.headline == "cancelled: closed today"
            text = explain_text(told)
            assert "attempt 1 cancelled the flow after 0s" in text
            assert "cancelled (closed today)" in text
            assert not re.search("fail|permanent|gave up|no longer", text)

    asyncio.run(story())


@pytest.mark.promise("X6")
def test_a_failed_compensation_of_a_pipeline_is_redriven() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            flow = await app.start(trip(redrive.Permanent("no seats"), fails=4).call())
            await app.outcome(flow)
            while (await app.explain(flow.id)).headline.find("could not be compensated") > 0:
                # Each redrive grants the attempts of the stage again.
                assert await app.redrive(flow.id, by="ann", why="mended") == [flow.id]
                await app.outcome(flow)
            return await app.outcome(flow)

    outcome = asyncio.run(story())
    settled = {line.event.step: line.event.state for line in outcome.lines if isinstance(line.event, StepSettled)}
    assert (settled["car"], settled["hotel"]) == ("compensated", "compensated")
    assert [one.partition(" after")[0] for one in DONE] == ["hotel", "car", "compensate hotel-", "compensate car-"]


@pytest.mark.parametrize(("fails", "left"), [(0, ""), (9, "car")])
def test_what_could_not_be_compensated_is_named_wherever_the_flow_is_said_to_be_compensated(
    fails: int, left: str
) -> None:
    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(trip(redrive.Permanent("no seats"), fails=fails).call())
            await app.outcome(flow)
            told = await app.explain(flow.id)
            how = "its completed steps were compensated"
            if left:
                how = "its completed steps were compensated, except car, whose compensation failed"
                assert "(compensated; could not be compensated: car)" in told.headline
                assert "the compensation goes on with car.compensate" in told.next_steps[0].text
            else:
                with pytest.raises(redrive.errors.InvalidStateError, match=f"{how}. Start another flow"):
                    await app.redrive(flow.id, by="ann", why="mended")
            assert [how in advice.text for advice in told.next_steps].count(True) == 1
            with pytest.raises(redrive.errors.InvalidStateError, match=how if left else "or were compensated"):
                await app.reset_step(flow.id, "flight", by="ann", why="mended")

    asyncio.run(story())

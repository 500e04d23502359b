"""What runs when: dependencies, conditions, skips, cancellations, failures, sub-pipelines; and what is refused."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.scene import Stage, gives, one, run

from redrive.errors import PipelineError
from redrive.pipeline import (
    GuardRetry,
    Pipeline,
    PipelineContext,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageKind,
    StageOutput,
    run_with_retry,
)
from redrive.testing import virtual_clock


def test_a_stage_reads_what_its_dependencies_gave_and_what_the_run_was_given() -> None:
    async def total(ctx: StageContext) -> dict[str, Any]:
        assert ctx.inputs["left"] == {"cents": 1}
        assert ctx.inputs["only_right"] == 7
        assert ctx.inputs.get_from("right", "cents") == 2
        assert ctx.data["order"] == ctx.inputs["order"] == 17
        with pytest.raises(KeyError, match="given by left and by right"):
            ctx.inputs["cents"]
        with pytest.raises(KeyError, match="nothing is not an input of total"):
            ctx.inputs["nothing"]
        with pytest.raises(KeyError, match=r"declare it: dependencies=\('other', ...\)"):
            ctx.inputs.get_from("other", "cents")
        with pytest.raises(TypeError):
            ctx.data["order"] = 18  # type: ignore[index]
        return {"total": 3}

    pipeline = (
        Pipeline()
        .with_stage("left", gives(cents=1))
        .with_stage("right", gives(cents=2, only_right=7))
        .with_stage("total", total, StageKind.TRANSFORM, dependencies=("left", "right"))
    )
    ended = run(pipeline, data={"order": 17})
    assert ended.result.data("total") == {"total": 3}
    assert ended.events.names[0] == "pipeline.started"
    assert ended.events.names[-1] == "pipeline.ended"


@given(st.data())
def test_every_stage_runs_once_after_all_that_it_depends_on(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 25))
    order: list[str] = []
    pipeline = Pipeline()
    needs: dict[str, list[str]] = {}

    async def note(ctx: StageContext) -> None:
        await asyncio.sleep(0)
        assert set(needs[ctx.stage_name]) <= set(order)
        order.append(ctx.stage_name)

    for index in range(size):
        needs[f"s{index}"] = data.draw(
            st.lists(st.sampled_from([f"s{n}" for n in range(index)]), unique=True) if index else st.just([])
        )
    for name in data.draw(st.permutations(list(needs))):
        pipeline = pipeline.with_stage(name, note, dependencies=needs[name])
    result = run(pipeline).result
    assert sorted(order) == sorted(needs)
    assert list(result) == order


def test_pipelines_cannot_be_changed() -> None:
    first = one(Stage())
    second = first.with_stage("more", Stage(), dependencies=("work",))
    assert (first.stages, second.stages) == (("work",), ("work", "more"))
    assert list(run(first).result) == ["work"]


def test_a_condition_skips_a_stage_and_those_that_depend_on_nothing_else() -> None:
    chain = Stage()
    joined: list[Any] = []

    async def join(ctx: StageContext) -> None:
        assert "gift" not in ctx.inputs
        with pytest.raises(KeyError, match="it was skipped"):
            ctx.inputs["gift"]
        joined.append(ctx.inputs["box"])

    pipeline = (
        Pipeline()
        .with_stage("box", gives(size=1))
        .with_stage("gift", Stage(), when=lambda ctx: bool(ctx.data["gift"]))
        .with_stage("card", chain, dependencies=("gift",))
        .with_stage("ship", join, dependencies=("box", "gift"))
    )
    ended = run(pipeline, data={"gift": False})
    assert (chain.calls, joined) == (0, [{"size": 1}])
    assert [event.stage for event in ended.events.named("stage.skipped")] == ["gift", "card"]
    assert ended.result["card"].status == "skip"


def test_a_stage_may_end_the_run_without_an_error() -> None:
    after = Stage()
    pipeline = one(Stage(StageOutput.cancel("nothing to do"))).with_stage("after", after, dependencies=("work",))
    ended = run(pipeline.with_stage("slow", Stage(lambda ctx: asyncio.Event().wait())))
    assert (ended.result.status, ended.result.reason, after.calls) == ("cancelled", "nothing to do", 0)


def test_the_first_failure_cancels_the_rest_and_carries_what_was_done() -> None:
    cancelled: list[str] = []

    async def slow(ctx: StageContext) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(ctx.stage_name)
            raise

    async def fail(ctx: StageContext) -> None:
        await asyncio.sleep(0)
        raise ValueError("bad card")

    after = Stage()
    pipeline = (
        Pipeline()
        .with_stage("price", gives(cents=100))
        .with_stage("slow", slow)
        .with_stage("pay", fail, dependencies=("price",))
        .with_stage("ship", after, dependencies=("pay",))
    )
    failed = run(pipeline).failed
    assert (failed.stage, str(failed.error), cancelled, after.calls) == ("pay", "bad card", ["slow"], 0)
    assert failed.results.data("price") == {"cents": 100}
    assert (list(failed.results), failed.results.status) == (["price"], "failed")
    assert str(failed) == "stage 'pay' failed after 1 attempt (permanent): ValueError: bad card"


def test_the_run_may_go_on_with_what_does_not_need_the_stage_that_failed() -> None:
    blocked, free = Stage(), Stage()
    pipeline = (
        Pipeline()
        .with_stage("bad", Stage(ValueError()))
        .with_stage("worse", Stage(KeyError()))
        .with_stage("blocked", blocked, dependencies=("bad",))
        .with_stage("good", Stage())
        .with_stage("free", free, dependencies=("good",))
    )
    failed = run(pipeline, on_failure="continue").failed
    assert (blocked.calls, free.calls) == (0, 1)
    assert list(failed.failures) == ["bad", "worse"]
    assert list(failed.results) == ["good", "free"]
    assert "also failed: worse" in str(failed)


def test_a_pipeline_is_a_stage_of_another() -> None:
    flaky = Stage(ConnectionError(), StageOutput.ok(number="R-1"))
    payment = (
        Pipeline("payment").with_stage("check", gives(ok=True)).with_stage("charge", flaky, dependencies=("check",))
    )

    async def ship(ctx: StageContext) -> dict[str, Any]:
        return {"receipt": ctx.inputs["payment"]["charge"]["number"]}

    pipeline = (
        Pipeline()
        .with_stage("price", gives(cents=100))
        .with_stage("payment", payment, dependencies=("price",))
        .with_stage("ship", ship, dependencies=("payment",))
    )
    with virtual_clock():
        ended = run(pipeline, [RetryInterceptor(max_attempts=2)])
    assert ended.result.data("ship") == {"receipt": "R-1"}
    # The stage inside was retried, not the whole of it.
    assert flaky.calls == 2
    assert [event.stage for event in ended.events.named("stage.retry_scheduled")] == ["charge"]
    ids = [event.pipeline_run_id for event in ended.events.named("pipeline.started")]
    assert ids == [ended.result.run_id, f"{ended.result.run_id}/payment"]


def test_a_failure_inside_fails_the_stage_around_it_once() -> None:
    inner = Stage(ConnectionError("away"))
    with virtual_clock():
        failed = run(Pipeline().with_stage("outer", one(inner)), [RetryInterceptor(max_attempts=3)]).failed
    assert inner.calls == 3
    assert isinstance(failed.error, PipelineFailedError)
    assert isinstance(failed.error.error, ConnectionError)


def test_composed_pipelines_have_the_stages_of_both() -> None:
    shared = Stage()
    left = Pipeline("left").with_stage("shared", shared).with_stage("a", Stage(), dependencies=("shared",))
    right = Pipeline("right").with_stage("shared", shared).with_stage("b", Stage(), dependencies=("shared",))
    both = left.compose(right)
    assert (both.name, both.stages) == ("left+right", ("shared", "a", "b"))
    run(both)
    assert shared.calls == 1
    with pytest.raises(PipelineError, match="stage 'shared': the pipelines have different stages of this name"):
        left.compose(Pipeline().with_stage("shared", Stage()))


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Pipeline(), "the pipeline has no stages"),
        (
            lambda: one(Stage()).with_stage("a", Stage(), dependencies=("b",)),
            "'a': depends on 'b', which is not a stage",
        ),
        (
            lambda: (
                Pipeline().with_stage("a", Stage(), dependencies=("b",)).with_stage("b", Stage(), dependencies=["a"])
            ),
            "stages wait for each other: a cycle: a needs b needs a|stages wait for each other: a cycle: b needs a",
        ),
        (lambda: one(Stage()).with_stage("work", Stage()), "already has a stage of this name"),
        (lambda: one(Stage()).with_stage("a", Stage(), dependencies="work"), r"a tuple of names: \('work',\)"),
        (lambda: one(Stage()).with_stage("a", Stage(), dependencies=("work", "work")), "each once"),
        (lambda: one(17), "17 is not a stage"),
        (lambda: one(Stage(), ""), "stage name: '' is not allowed"),
        (lambda: Pipeline().with_stage("a", Stage(), "wrok"), "StageKind.WORK"),
        (lambda: Pipeline().with_stage("a", Stage(), when=True), r"a plain function \(def\)"),  # type: ignore[arg-type]
        (lambda: one(Stage(compensate="later")), "compensate: 'later' is not allowed"),
        (lambda: one(Stage(fallback=17)), "fallback: 17 is not allowed"),
        (lambda: one(Stage(dependency=17)), "dependency: 17 is not allowed"),
        (lambda: one(Stage(retry_on_fail="yes")), "use True or False"),
        (lambda: one(Stage(idempotency_key=17)), "idempotency_key: 17"),
        (
            lambda: one(Stage()).with_stage("g", Stage(), "work", ("work",), guard_retry=GuardRetry("work")),
            "only for a stage of StageKind.GUARD",
        ),
        (
            lambda: one(Stage()).with_stage("g", Stage(), "guard", guard_retry=GuardRetry("work")),
            "not one of its dependencies",
        ),
    ],
)
def test_a_pipeline_that_cannot_be_meant_is_refused_in_one_line(build: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says) as refused:
        build().build()
    assert "\n" not in str(refused.value)


def test_a_context_serves_one_run_at_a_time() -> None:
    async def twice() -> None:
        context = PipelineContext()
        slow = one(Stage(lambda ctx: asyncio.sleep(0.01)))
        first = asyncio.create_task(slow.run(context))
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="another run is using this context"):
            await slow.run(context)
        await first
        await slow.run(context)
        with pytest.raises(TypeError, match="give them to PipelineContext"):
            await slow.run(PipelineContext(), data={})
        with pytest.raises(ValueError, match="on_failure"):
            await slow.run(on_failure="stop")  # type: ignore[arg-type]

    asyncio.run(twice())


def test_one_stage_alone_gives_its_data_or_raises_its_error() -> None:
    async def double(ctx: StageContext) -> dict[str, int]:
        return {"twice": 2 * ctx.data["number"]}

    assert asyncio.run(run_with_retry(double, number=21)) == {"twice": 42}
    with pytest.raises(ValueError, match="bad input"):
        asyncio.run(run_with_retry(Stage(ValueError("bad input")), RetryInterceptor()))


def test_reprs_show_no_data() -> None:
    output = StageOutput.fail("login failed: password=hunter22", {"card": "4111111111111111"})
    assert repr(output) == "StageOutput.fail(card, 'login failed: password=***')"
    assert "17" not in repr(PipelineContext(data={"order": 17}, pipeline_run_id="run"))

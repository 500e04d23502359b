"""However a stage ends, the run ends too: nothing hangs, nothing that was done is forgotten, everyone is told."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.pipeline.scene import Stage, one, ran, run

import redrive
from redrive.determinism.clock import current_clock
from redrive.pipeline import (
    EventQueue,
    GuardRetry,
    Pipeline,
    PipelineContext,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageKind,
    StageOutput,
    TimeoutInterceptor,
)
from redrive.pipeline.sub_pipeline import SubPipeline
from redrive.testing import virtual_clock


class Ends(BaseException):
    """Not a failure: it ends the program, or a test."""


def takes(seconds: float) -> Callable[[StageContext], Awaitable[None]]:
    async def work(ctx: StageContext) -> None:
        clock = current_clock()
        await clock.asleep_until(clock.monotonic() + seconds)

    return work


class Booking:
    """Books at once; its compensation notes that it ran, and ends as told."""

    def __init__(self, book: list[str], compensate: Any = None) -> None:
        self.book = book
        self.how = compensate

    async def execute(self, ctx: StageContext) -> None:
        self.book.append(ctx.stage_name)

    async def compensate(self, ctx: StageContext, output: StageOutput) -> None:
        if self.how is not None:
            await self.how()
        self.book.append(f"not {ctx.stage_name}")


async def hang(ctx: StageContext | None = None) -> None:
    await asyncio.Event().wait()


async def await_something_cancelled(ctx: StageContext | None = None) -> None:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone.cancel()
    await gone


def cancel_this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return task


def cancellations_left() -> int:
    """What libraries ask to tell the end of their task from their own doing."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@pytest.mark.parametrize("ending", [Ends("now"), GeneratorExit("now"), KeyboardInterrupt("now"), SystemExit(3)])
@pytest.mark.parametrize("where", ["alone", "beside others", "in a pipeline inside"])
def test_what_is_no_failure_goes_through_after_the_others_were_ended(ending: BaseException, where: str) -> None:
    stage = Stage(ending)
    tidied: list[str] = []

    async def tidy(ctx: StageContext) -> None:
        try:
            await hang()
        finally:
            tidied.append(ctx.stage_name)

    pipeline = one(one(stage) if where == "in a pipeline inside" else stage)
    if where == "beside others":
        pipeline = pipeline.with_stage("beside", tidy).with_stage("after", Stage(), dependencies=("work",))

    async def watched() -> None:
        sink = EventQueue()
        with pytest.raises(type(ending)) as raised:
            # Not wait_for: an interrupt in a task of its own ends the loop.
            async with asyncio.timeout(20):
                await pipeline.run(event_sink=sink, interceptors=[RetryInterceptor()])
        assert raised.value is ending
        assert len(asyncio.all_tasks()) == 1
        ended = [event.event.status for event in sink.take_all() if event.type == "pipeline.ended"]
        assert ended[-1] == "failed"

    asyncio.run(watched())
    assert stage.calls == 1
    assert tidied == (["beside"] if where == "beside others" else [])


def test_a_run_that_is_closed_ends_its_stages() -> None:
    async def close_it() -> None:
        running = one(hang).run()
        running.send(None)
        await asyncio.sleep(0)
        running.close()
        await asyncio.sleep(0.001)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(close_it())


def test_an_end_while_the_others_are_being_ended_is_not_lost() -> None:
    async def ends_badly(ctx: StageContext) -> None:
        try:
            await hang()
        finally:
            raise Ends

    with pytest.raises(Ends):
        run(one(ends_badly).with_stage("bad", Stage(ValueError())))


@pytest.mark.parametrize("inside_of", [1, 2])
def test_what_a_pipeline_inside_did_is_compensated_when_another_stage_fails_half_way(inside_of: int) -> None:
    book: list[str] = []
    inside: Any = Pipeline().with_stage("a", Booking(book)).with_stage("b", takes(5), dependencies=("a",))
    for _ in range(inside_of):
        inside = one(inside, "s")
    with virtual_clock():
        ended = run(inside.with_stage("x", fails_after(1)))
    assert book == ["a", "not a"]
    assert ended.failed.compensated == ("s/" * inside_of + "a",)
    assert [event.stage for event in ended.events.named("stage.compensated")] == ["a"]


def test_a_pipeline_inside_that_is_ended_while_it_compensates_is_compensated_by_the_run() -> None:
    book: list[str] = []
    slow = Booking(book, lambda: takes(5)(None))  # type: ignore[arg-type]  # it does not look at its context
    inside = (
        Pipeline()
        .with_stage("a", Booking(book))
        .with_stage("b", slow, dependencies=("a",))
        .with_stage("c", Booking(book), dependencies=("b",))
        .with_stage("bad", Stage(ValueError()), dependencies=("c",))
    )
    with virtual_clock():
        ended = run(one(inside, "s").with_stage("x", fails_after(1)))
    assert book == ["a", "b", "c", "not c", "not b", "not a"]
    assert (ended.failed.stage, ended.failed.compensated) == ("x", ("s/c", "s/b", "s/a"))
    assert "stage.compensation_failed" not in ended.events.names


def fails_after(seconds: float) -> Any:
    async def fail(ctx: StageContext) -> None:
        await takes(seconds)(ctx)
        raise ValueError("no")

    return fail


def test_what_a_pipeline_inside_did_is_compensated_when_it_is_cut() -> None:
    book: list[str] = []
    inside = Pipeline().with_stage("a", Booking(book)).with_stage("b", takes(500), dependencies=("a",))
    limited = SubPipeline(one(inside))
    vars(limited)["timeout_ms"] = 1000
    with virtual_clock():
        failed = run(one(limited, "s"), [TimeoutInterceptor()]).failed
    assert isinstance(failed.error, redrive.AttemptTimeoutError)
    assert book == ["a", "not a"]
    assert failed.compensated[0].endswith("work/a")


@pytest.mark.promise("S14")
@pytest.mark.parametrize("why", ["failure", "cancel"])
def test_work_that_finishes_while_the_run_is_ended_was_done(why: str) -> None:
    compensated: list[str] = []
    paid = asyncio.Event()

    async def pay(ctx: StageContext) -> StageOutput:
        try:
            await hang()
        except asyncio.CancelledError:
            paid.set()
        return StageOutput.ok(receipt=7)

    async def compensate(ctx: StageContext, output: StageOutput) -> None:
        compensated.append(f"{ctx.stage_name} {output.data['receipt']}")

    after = Stage()
    other = Stage(ValueError() if why == "failure" else StageOutput.cancel("enough"))
    pipeline = one(Stage(pay, compensate=compensate), "pay").with_stage("after", after, dependencies=("pay",))
    ended = run(pipeline.with_stage("other", other))
    assert paid.is_set()
    assert after.calls == 0
    if why == "failure":
        assert ended.failed.compensated == ("pay",)
        assert ended.failed.results.data("pay") == {"receipt": 7}
        assert compensated == ["pay 7"]
    else:
        assert ended.result.data("pay") == {"receipt": 7}
        assert compensated == []
    assert [event.stage for event in ended.events.named("stage.completed")] == ["pay"]


def saga(book: list[str], second: Any) -> Pipeline:
    return (
        Pipeline()
        .with_stage("first", Booking(book))
        .with_stage("second", Booking(book, second), dependencies=("first",))
        .with_stage("bad", Stage(ValueError("no")), dependencies=("second",))
    )


def test_a_compensation_that_awaits_something_cancelled_keeps_no_other_from_it() -> None:
    book: list[str] = []
    failed = run(saga(book, await_something_cancelled)).failed
    assert failed.compensated == ("first",)
    assert "was cancelled" in str(failed.compensation_failures["second"])
    assert book[-1] == "not first"


def test_a_compensation_that_ends_the_program_does_so_once_the_others_were_compensated() -> None:
    book: list[str] = []

    async def end() -> None:
        raise Ends

    with pytest.raises(Ends) as ended:
        run(saga(book, end))
    failed = ended.value.__cause__
    assert isinstance(failed, PipelineFailedError)
    assert (failed.compensated, list(failed.compensation_failures)) == (("first",), ["second"])
    assert book[-1] == "not first"


@pytest.mark.promise("S14")
def test_a_run_that_is_cancelled_while_it_compensates_says_what_is_left() -> None:
    book: list[str] = []

    async def cancel_it() -> None:
        sink = EventQueue()
        running = asyncio.create_task(saga(book, hang).run(event_sink=sink))
        await takes(1)(None)  # type: ignore[arg-type]  # it does not look at its context
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await running
        failed = cancelled.value.__cause__
        assert isinstance(failed, PipelineFailedError)
        assert list(failed.compensation_failures) == ["second", "first"]
        left = [event.event.stage for event in sink.take_all() if event.type == "stage.compensation_failed"]
        assert left == ["second", "first"]

    with virtual_clock():
        asyncio.run(cancel_it())
    assert book == ["first", "second"]


@pytest.mark.parametrize("how", ["output", "context"])
@pytest.mark.parametrize("followed", [True, False])
def test_a_cancellation_without_a_reason_is_one(how: str, followed: bool) -> None:
    context = PipelineContext(event_sink=EventQueue())

    async def cancel(ctx: StageContext) -> StageOutput:
        if how == "context":
            context.cancel(None)  # type: ignore[arg-type]  # what a caller has at hand
            return StageOutput.ok()
        return StageOutput.cancel(None)  # type: ignore[arg-type]  # the same

    pipeline = one(cancel).with_stage("b", Stage(), dependencies=("work",)) if followed else one(cancel)
    result = asyncio.run(pipeline.run(context))
    assert (result.status, result.reason) == ("cancelled", "")


@pytest.mark.promise("S14")
def test_a_run_whose_context_was_cancelled_before_does_not_begin() -> None:
    context = PipelineContext()
    context.cancel("too late")
    stage = Stage()
    result = asyncio.run(one(stage).run(context))
    assert (result.status, result.reason, stage.calls) == ("cancelled", "too late", 0)


@pytest.mark.promise("S14")
def test_a_run_can_be_cancelled_from_another_thread_at_once() -> None:
    context = PipelineContext()
    too_late = threading.Event()
    # Once the loop is asleep; nothing else wakes it.
    cancel, watch = threading.Timer(0.05, context.cancel, ("from afar",)), threading.Timer(4, too_late.set)

    async def sleep(ctx: StageContext) -> None:
        cancel.start()
        watch.start()
        await asyncio.sleep(8)

    result = asyncio.run(one(sleep).run(context))
    watch.cancel()
    assert (result.status, result.reason) == ("cancelled", "from afar")
    assert not too_late.is_set()


@pytest.mark.parametrize("what", ["a cancelled future", "its condition"])
def test_every_stage_that_fails_is_told_of(what: str) -> None:
    def broken(ctx: StageContext) -> bool:
        raise KeyError("flag")

    if what == "its condition":
        pipeline = Pipeline().with_stage("work", Stage(), when=broken)
    else:
        pipeline = one(Stage(await_something_cancelled))
    ended = run(pipeline, [RetryInterceptor()])
    assert ended.failed.stage == "work"
    assert [event.stage for event in ended.events.named("stage.failed")] == ["work"]


def test_a_fallback_answers_for_a_stage_that_awaits_something_cancelled() -> None:
    stage = Stage(await_something_cancelled, fallback={"from": "cache"})
    ended = run(one(stage))
    assert ended.result.data("work") == {"from": "cache"}
    assert [event.error_type for event in ended.events.named("stage.fell_back")] == ["Permanent"]


def test_of_a_stage_that_cancels_itself_nothing_is_left_for_its_fallback() -> None:
    async def cancel_itself(ctx: StageContext) -> None:
        cancel_this_task()
        await asyncio.sleep(0)

    async def fall_back(ctx: StageContext, error: Exception) -> dict[str, int]:
        return {"left": cancellations_left()}

    assert run(one(Stage(cancel_itself, fallback=fall_back))).result.data("work") == {"left": 0}


def test_stages_that_are_ended_with_the_run_are_told_of() -> None:
    ended = run(one(hang).with_stage("bad", Stage(ValueError())))
    assert [event.stage for event in ended.events.named("stage.cancelled")] == ["work"]
    assert [event.stage for event in ended.events.named("stage.failed")] == ["bad"]


@pytest.mark.parametrize("waits", ["at once", "never"])
def test_a_stage_that_cancels_its_own_task_and_gives_an_output_harms_no_other(waits: str) -> None:
    async def cancel_and_go_on(ctx: StageContext) -> None:
        cancel_this_task()
        if waits == "at once":
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(0)

    async def goes_on(ctx: StageContext) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"left": cancellations_left()}

    result = run(one(cancel_and_go_on).with_stage("next", goes_on, dependencies=("work",))).result
    assert result.data("next") == {"left": 0}


def test_a_pipeline_inside_goes_on_after_a_failure_as_the_run_does() -> None:
    later = Stage()
    inside = one(Stage(ValueError())).with_stage("a", takes(1)).with_stage("b", later, dependencies=("a",))
    with virtual_clock():
        failed = run(one(inside, "s"), on_failure="continue").failed
    assert later.calls == 1
    assert isinstance(failed.error, PipelineFailedError)
    assert list(failed.error.results) == ["a", "b"]


def test_the_message_names_the_way_to_the_failure_and_its_cause_however_deep() -> None:
    pipeline = one(Stage(ValueError("the root of it")), "last")
    for depth in range(60):
        pipeline = one(pipeline, f"s{depth}")
    failed = run(pipeline).failed
    assert "ValueError: the root of it" in str(failed)
    assert str(failed).startswith("stage 's59/…/s5/s4/s3/s2/s1/s0/last' failed")


class Drafts:
    """What a provider that deduplicates by key would be asked for."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def execute(self, ctx: StageContext) -> dict[str, int]:
        self.keys.append(ctx.idempotency_key)
        if ctx.attempt == 1 and len(self.keys) == 1:
            raise ConnectionError
        return {"draft": len(self.keys)}


@pytest.mark.parametrize("inside", [False, True])
def test_work_that_a_guard_sent_back_has_another_key_and_is_told_why_in_a_pipeline_too(inside: bool) -> None:
    drafts = Drafts()
    told: list[int] = []

    async def note(ctx: StageContext) -> None:
        told.append(len(ctx.feedback))

    async def judge(ctx: StageContext) -> StageOutput:
        return StageOutput.ok() if len(told) == 3 else StageOutput.fail("again")

    write: Any = Pipeline().with_stage("draft", drafts).with_stage("note", note, dependencies=("draft",))
    if not inside:
        pipeline = write
    else:
        pipeline = one(write, "draft")
    again = GuardRetry("draft", attempts=9)
    pipeline = pipeline.with_stage(
        "judge", judge, StageKind.GUARD, ("draft",) if inside else ("note",), guard_retry=again
    )
    with virtual_clock():
        run(pipeline, [RetryInterceptor()])
    assert drafts.keys[0] == drafts.keys[1]
    assert len(set(drafts.keys)) == 3
    assert told == ([0, 1, 2] if inside else [0, 0, 0])


def test_refused_work_is_not_given_again_by_what_remembers_it() -> None:
    writer = Stage({"draft": 1}, {"draft": 2}, idempotency_key="essay")

    async def judge(ctx: StageContext) -> StageOutput:
        return StageOutput.ok() if ctx.inputs["draft"] == 2 else StageOutput.fail("again")

    pipeline = one(writer, "write").with_stage(
        "judge", judge, StageKind.GUARD, ("write",), guard_retry=GuardRetry("write")
    )
    ended = run(pipeline, [redrive.pipeline.IdempotencyInterceptor()])
    assert ended.result.data("write") == {"draft": 2}


def test_a_stage_that_returns_one_dict_again_and_again_makes_progress() -> None:
    mine: dict[str, int] = {"draft": 0}

    async def write(ctx: StageContext) -> dict[str, int]:
        mine["draft"] += 1
        return mine

    async def judge(ctx: StageContext) -> StageOutput:
        return StageOutput.ok() if ctx.inputs["draft"] == 3 else StageOutput.fail("again")

    again = GuardRetry("write", attempts=9)
    pipeline = one(write, "write").with_stage("judge", judge, StageKind.GUARD, ("write",), guard_retry=again)
    assert run(pipeline).result.data("write") == {"draft": 3}


def test_what_a_stage_does_with_its_inputs_is_not_what_others_read() -> None:
    async def edit(ctx: StageContext) -> None:
        ctx.inputs["a"]["x"] = 99
        assert ctx.inputs["a"] is ctx.inputs["a"]

    async def both() -> None:
        pipeline = one(Stage({"x": 1}), "a").with_stage("b", edit, dependencies=("a",))
        ended = await ran(pipeline)
        assert ended.result.data("a") == {"x": 1}

    asyncio.run(both())

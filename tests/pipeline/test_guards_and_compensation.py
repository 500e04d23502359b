"""Guards that send a stage back to work, and sagas that take back what was done."""

import asyncio
from typing import Any, cast

import pytest
from tests.pipeline.scene import Stage, gives, run

import redrive
from redrive.determinism.clock import current_clock
from redrive.pipeline import (
    Feedback,
    GuardRetry,
    IdempotencyInterceptor,
    Pipeline,
    PipelineFailedError,
    RetryInterceptor,
    StageContext,
    StageKind,
    StageOutput,
)
from redrive.pipeline.interceptors.idempotency import Key, OutputsInMemory
from redrive.testing import virtual_clock


class Writer:
    """Writes a better draft each time it is told what was wrong."""

    def __init__(self, improves: bool = True) -> None:
        self.improves = improves
        self.feedback: list[tuple[Feedback, ...]] = []

    async def execute(self, ctx: StageContext) -> StageOutput:
        self.feedback.append(ctx.feedback)
        return StageOutput.ok(quality=len(self.feedback) if self.improves else 1)


def editor(wanted: int, takes: float = 0.0) -> Any:
    async def read(ctx: StageContext) -> StageOutput:
        clock = current_clock()
        await clock.asleep_until(clock.monotonic() + takes)
        quality = ctx.inputs["quality"]
        return StageOutput.ok() if quality >= wanted else StageOutput.fail("too dull", {"wanted": wanted})

    return read


def reviewed(writer: Writer, wanted: int, retry: GuardRetry, takes: float = 0.0) -> Pipeline:
    return (
        Pipeline()
        .with_stage("write", writer, StageKind.AGENT)
        .with_stage(
            "polish", lambda ctx: asyncio.sleep(0, {"quality": ctx.inputs["write"]["quality"]}), dependencies=["write"]
        )
        .with_stage("edit", editor(wanted, takes), StageKind.GUARD, ("polish",), guard_retry=retry)
        .with_stage("count", Stage(), dependencies=("write",))
        .with_stage("print", Stage(), dependencies=("edit", "polish"))
    )


def test_a_guard_sends_a_stage_back_with_its_feedback_until_it_is_content() -> None:
    writer = Writer()
    ended = run(reviewed(writer, 3, GuardRetry("write", attempts=5)), [RetryInterceptor()])
    assert ended.result.data("polish") == {"quality": 3}
    assert [len(told) for told in writer.feedback] == [0, 1, 2]
    last = writer.feedback[-1][-1]
    assert (last.guard, last.error, last.data, last.rejected, last.round) == (
        *("edit", "too dull"),
        *({"wanted": 3}, {"quality": 2}, 2),
    )
    assert [event.round for event in ended.events.named("guard.retry_scheduled")] == [1, 2]
    # Whatever builds on the draft waits until the guard has passed it.
    names = [event.stage for event in ended.events.named("stage.started")]
    assert names.index("count") > max(index for index, name in enumerate(names) if name == "edit")
    assert names.count("count") == names.count("print") == 1


@pytest.mark.parametrize(
    ("retry", "improves", "takes", "drafts", "reason"),
    [
        (GuardRetry("write", attempts=3), True, 0.0, 3, "attempts"),
        (GuardRetry("write", attempts=1), True, 0.0, 1, "attempts"),
        (GuardRetry("write", attempts=50, time_limit_ms=5000), True, 2.0, 4, "time"),
        (GuardRetry("write", attempts=50), False, 0.0, 2, "no progress"),
        (GuardRetry("write", attempts=50, same_output=4), False, 0.0, 4, "no progress"),
        (GuardRetry("write", attempts=50, fields=("style",)), True, 0.0, 2, "no progress"),
    ],
)
def test_it_ends_by_attempts_by_time_and_when_nothing_changes(
    retry: GuardRetry, improves: bool, takes: float, drafts: int, reason: str
) -> None:
    writer = Writer(improves)
    with virtual_clock():
        ended = run(reviewed(writer, 99, retry, takes))
    assert ended.failed.stage == "edit"
    assert str(ended.failed.error) == "too dull"
    assert len(writer.feedback) == drafts
    assert [event.reason for event in ended.events.named("guard.retry_ended")] == [reason]
    assert "print" not in ended.failed.results


def test_guards_of_the_same_work_are_all_asked_again() -> None:
    writer = Writer()
    asked: list[str] = []

    def guard(wanted: int) -> Any:
        async def judge(ctx: StageContext) -> StageOutput:
            asked.append(ctx.stage_name)
            return StageOutput.ok() if ctx.inputs["quality"] >= wanted else StageOutput.fail("no")

        return judge

    again = GuardRetry("write", attempts=9)
    pipeline = (
        Pipeline()
        .with_stage("write", writer)
        .with_stage("spelling", guard(2), StageKind.GUARD, ("write",), guard_retry=again)
        .with_stage("style", guard(3), StageKind.GUARD, ("write",), guard_retry=again)
        .with_stage("print", Stage(), dependencies=("write",))
    )
    result = run(pipeline).result
    assert asked == ["spelling", "spelling", "style", "spelling", "style"]
    assert (result.data("write"), list(result)[-1]) == ({"quality": 3}, "print")


def test_an_error_of_the_guard_itself_is_no_verdict() -> None:
    writer = Writer()
    guard = Stage(ValueError("broken"))
    pipeline = Pipeline().with_stage("write", writer)
    pipeline = pipeline.with_stage("edit", guard, StageKind.GUARD, ("write",), guard_retry=GuardRetry("write"))
    assert run(pipeline).failed.stage == "edit"
    assert len(writer.feedback) == 1


@pytest.mark.parametrize(
    "settings", [{"stage": ""}, {"attempts": 0}, {"same_output": 1}, {"time_limit_ms": 0}, {"attempts": True}]
)
def test_settings_that_cannot_be_meant_are_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"GuardRetry {next(iter(settings))}: "):
        GuardRetry(**{"stage": "write", **settings})


class Booking:
    """Books something, and can take it back."""

    def __init__(self, book: list[str], compensation_fails: int = 0) -> None:
        self.book = book
        self.compensation_fails = compensation_fails

    async def execute(self, ctx: StageContext) -> StageOutput:
        self.book.append(ctx.stage_name)
        return StageOutput.ok({f"{ctx.stage_name}_id": len(self.book)})

    async def compensate(self, ctx: StageContext, output: StageOutput) -> None:
        if self.compensation_fails:
            self.compensation_fails -= 1
            raise ConnectionError("away")
        assert f"{ctx.stage_name}_id" in output.data
        self.book.remove(ctx.stage_name)
        self.book.append(f"not {ctx.stage_name}")


def trip(book: list[str], last: Any, **hotel: Any) -> Pipeline:
    return (
        Pipeline()
        .with_stage("flight", Booking(book))
        .with_stage("hotel", Booking(book, **hotel), dependencies=("flight",))
        .with_stage("note", gives(text="to do"), dependencies=("hotel",))
        .with_stage("car", last, dependencies=("note",))
    )


def test_when_a_run_fails_what_was_done_is_compensated_newest_first() -> None:
    book: list[str] = []
    ended = run(trip(book, Stage(ValueError("no cars"))))
    assert book == ["not hotel", "not flight"]
    assert ended.failed.compensated == ("hotel", "flight")
    assert [event.stage for event in ended.events.named("stage.compensated")] == ["hotel", "flight"]
    assert ended.failed.results.data("flight") == {"flight_id": 1}


def test_nothing_is_compensated_while_retries_may_still_help_and_when_the_run_is_cancelled() -> None:
    book: list[str] = []
    with virtual_clock():
        run(trip(book, Stage(ConnectionError(), None)), [RetryInterceptor()])
    assert book == ["flight", "hotel"]
    run(trip(book, Stage(StageOutput.cancel())))
    assert book == ["flight", "hotel"] * 2


def test_a_compensation_is_retried_as_its_stage_is_and_one_that_fails_keeps_none_from_it() -> None:
    book: list[str] = []
    with virtual_clock():
        failed = run(trip(book, Stage(ValueError()), compensation_fails=2), [RetryInterceptor()]).failed
        assert (failed.compensated, failed.compensation_failures) == (("hotel", "flight"), {})
        book.clear()
        ended = run(trip(book, Stage(ValueError()), compensation_fails=99), [RetryInterceptor()])
    assert book == ["hotel", "not flight"]
    assert ended.failed.compensated == ("flight",)
    assert isinstance(ended.failed.compensation_failures["hotel"], ConnectionError)
    assert "could not be compensated: hotel" in str(ended.failed)
    assert [event.error_type for event in ended.events.named("stage.compensation_failed")] == ["ConnectionError"]


def test_what_a_sub_pipeline_did_is_compensated_with_the_rest() -> None:
    book: list[str] = []
    inner = Pipeline().with_stage("flight", Booking(book)).with_stage("hotel", Booking(book), dependencies=("flight",))
    pipeline = Pipeline().with_stage("ticket", Booking(book)).with_stage("trip", inner, dependencies=("ticket",))
    failed = run(pipeline.with_stage("car", Stage(ValueError()), dependencies=("trip",))).failed
    assert book == ["not hotel", "not flight", "not ticket"]
    assert failed.compensated == ("trip/hotel", "trip/flight", "ticket")


def test_a_sub_pipeline_that_fails_compensates_its_own() -> None:
    book: list[str] = []
    inner = trip(book, Stage(ValueError()))
    failed = run(
        Pipeline().with_stage("ticket", Booking(book)).with_stage("trip", inner, dependencies=["ticket"])
    ).failed
    assert book == ["not hotel", "not flight", "not ticket"]
    assert isinstance(failed.error, PipelineFailedError)
    assert failed.error.compensated == ("hotel", "flight")
    assert failed.compensated == ("trip/hotel", "trip/flight", "ticket")


def keyed_trip(book: list[str], **hotel: Any) -> Pipeline:
    keyed = Booking(book, **hotel)
    vars(keyed)["idempotency_key"] = "order 17"
    car = Stage(ConnectionError("no cars"), None)
    return Pipeline().with_stage("hotel", keyed).with_stage("car", car, dependencies=("hotel",))


@pytest.mark.parametrize("compensation_fails", [0, 1])
def test_work_with_a_key_that_was_compensated_is_done_again(compensation_fails: int) -> None:
    book: list[str] = []
    pipeline = keyed_trip(book, compensation_fails=compensation_fails)
    pipeline = pipeline.with_stage("last", Stage(ValueError(), None), dependencies=("car",))
    interceptors = [IdempotencyInterceptor(), RetryInterceptor()]
    with virtual_clock():
        assert run(pipeline, interceptors).failed.compensated == ("hotel",)
        for _ in range(2):
            assert run(pipeline, interceptors).result.data("hotel") == {"hotel_id": 2}
    assert book == ["not hotel", "hotel"]


def test_a_run_that_is_tried_again_does_again_what_it_has_compensated() -> None:
    book: list[str] = []
    pipeline, interceptors = keyed_trip(book), [IdempotencyInterceptor()]
    with virtual_clock():
        result = asyncio.run(redrive.retry(attempts=3)(pipeline.run)(interceptors=interceptors))
    assert result.status == "completed"
    assert book == ["not hotel", "hotel"]


def test_what_cannot_be_forgotten_is_not_compensated() -> None:
    class NeverForgets(OutputsInMemory):
        async def forget(self, key: Key) -> None:
            raise ConnectionError("the store is away")

    book: list[str] = []
    failed = run(keyed_trip(book), [IdempotencyInterceptor(NeverForgets())]).failed
    assert isinstance(failed.compensation_failures["hotel"], ConnectionError)
    assert book == ["hotel"]


def test_a_store_that_cannot_forget_is_refused_only_for_what_may_be_compensated() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.outputs: dict[Key, StageOutput] = {}

        async def get(self, key: Key) -> StageOutput | None:
            return self.outputs.get(key)

        async def put(self, key: Key, output: StageOutput) -> None:
            self.outputs[key] = output

    interceptors = [IdempotencyInterceptor(cast("Any", Remembers()))]
    book: list[str] = []
    with pytest.raises(TypeError, match=r"'hotel' can be compensated, but Remembers cannot forget .* async def forget"):
        run(keyed_trip(book), interceptors)
    assert book == []
    charge = Stage(idempotency_key="order 17")
    for _ in range(2):
        run(Pipeline().with_stage("charge", charge), interceptors)
    assert charge.calls == 1


def test_what_a_fallback_answered_for_has_nothing_to_compensate() -> None:
    compensated: list[str] = []

    async def compensate(ctx: StageContext, output: StageOutput) -> None:
        compensated.append(ctx.stage_name)

    stage = Stage(ValueError(), fallback={"cached": True}, compensate=compensate)
    run(Pipeline().with_stage("a", stage).with_stage("b", Stage(ValueError()), dependencies=("a",)))
    assert compensated == []

"""Where events go: strict, bounded queues, sinks that fail, and OpenTelemetry spans."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.pipeline.scene import Stage, one, run

from redrive.errors import EventRefusedError
from redrive.pipeline import (
    BaseInterceptor,
    ErrorAction,
    EventQueue,
    Pipeline,
    PipelineContext,
    RetryInterceptor,
    StageContext,
    TracingInterceptor,
)
from redrive.testing import virtual_clock


@pytest.mark.parametrize(
    ("type_", "data", "says"),
    [
        ("stage.exploded", {}, "'stage.exploded' is not an event"),
        ("stage.retry_scheduled", {"stage": "a"}, "missing required field"),
        ("stage.retry_scheduled", {"stage": "a", "attempt": "1", "delay_ms": 5, "error": ""}, "Expected `int`"),
        ("stage.compensated", {"stage": "a", "color": "red"}, "unknown field `color`"),
    ],
)
def test_a_queue_takes_only_events_that_are_what_they_say(type_: str, data: dict[str, Any], says: str) -> None:
    queue = EventQueue()
    with pytest.raises(EventRefusedError, match=says):
        queue.try_emit(type_, data)
    assert (len(queue), queue.refused) == (0, 1)


@pytest.mark.promise("S11")
def test_an_interceptor_of_ones_own_may_emit_the_events_too_and_add_its_own() -> None:
    class Paused(msgspec.Struct, forbid_unknown_fields=True):
        seconds: float

    class Waiting(BaseInterceptor):
        async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction:
            data = {"stage": stage_name, "attempt": 1, "delay_ms": 5, "error": str(error)}
            ctx.event_sink.try_emit("stage.retry_scheduled", data)
            ctx.event_sink.try_emit("custom.paused", {"seconds": 0.005})
            return ErrorAction.RETRY

    queue = EventQueue(types={"custom.paused": Paused})
    with virtual_clock():
        asyncio.run(one(Stage(ValueError("no"), None)).run(event_sink=queue, interceptors=[Waiting()]))
    taken = {event.type: event.event for event in queue.take_all()}
    assert taken["stage.retry_scheduled"].error == "no"
    assert taken["custom.paused"] == Paused(0.005)
    assert taken["stage.retry_succeeded"].attempt == 2


def test_a_full_queue_drops_the_newest_and_counts_them() -> None:
    queue = EventQueue(limit=3)
    asyncio.run(one(Stage()).with_stage("b", Stage()).run(event_sink=queue))
    assert (len(queue), queue.dropped) == (3, 3)
    assert queue.take_all()[0].type == "pipeline.started"
    queue.try_emit("stage.compensated", {"stage": "a"})
    assert len(queue) == 1
    with pytest.raises(ValueError, match="limit: 0 is not allowed"):
        EventQueue(limit=0)


def test_events_can_be_awaited() -> None:
    async def follow() -> list[str]:
        queue = EventQueue()
        running = asyncio.create_task(one(Stage()).run(event_sink=queue))
        names: list[str] = []
        while not names or names[-1] != "pipeline.ended":
            names.append((await queue.get()).type)
        await running
        return names

    assert asyncio.run(follow()) == ["pipeline.started", "stage.started", "stage.completed", "pipeline.ended"]


def test_a_sink_that_fails_harms_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
            raise OSError("disk full")

    with caplog.at_level(logging.ERROR, "redrive"):
        assert asyncio.run(one(Stage()).run(event_sink=Broken())).status == "completed"
    assert "the event sink Broken failed; the run continues" in caplog.text


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # An application sets its provider once for good; a test takes it back.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def test_each_attempt_is_a_span_around_what_the_stage_does(spans: InMemorySpanExporter) -> None:
    async def work(ctx: StageContext) -> None:
        with trace.get_tracer("app").start_as_current_span("query"):
            pass
        if ctx.attempt == 1:
            raise ConnectionError("no route to https://u:hunter2@api/")

    with virtual_clock():
        run(Pipeline().with_stage("pay", work), [TracingInterceptor(), RetryInterceptor()])
    first_query, first, second_query, second = spans.get_finished_spans()
    assert (first.name, second.name) == ("stage pay", "stage pay")
    assert [attributes(span)["redrive.attempt"] for span in (first, second)] == [1, 2]
    assert [attributes(span)["redrive.outcome"] for span in (first, second)] == ["failed", "completed"]
    assert attributes(first)["error.type"] == "ConnectionError"
    assert first.status.description == "no route to https://***@api/"
    assert "hunter2" not in first.to_json()
    assert first_query.parent is not None
    assert first.context is not None
    assert first_query.parent.span_id == first.context.span_id
    assert second_query.parent is not None
    assert second.context is not None
    assert second_query.parent.span_id == second.context.span_id


def test_the_span_of_a_cancelled_attempt_is_ended(spans: InMemorySpanExporter) -> None:
    hangs = Stage(lambda ctx: asyncio.Event().wait())
    run(one(hangs).with_stage("bad", Stage(ValueError())))
    assert {attributes(span)["redrive.outcome"] for span in spans.get_finished_spans()} == {"failed", "cancelled"}


def test_without_a_provider_there_are_no_spans() -> None:
    assert not TracingInterceptor().in_use()

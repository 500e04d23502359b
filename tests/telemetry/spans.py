"""Spans that tests have collected, and what must be true of all of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from redrive.integrations.opentelemetry import export


class Traced:
    """The spans of a test, which are collected in memory."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._collected = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._collected))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return sorted(self._collected.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def check(self) -> None:
        """No span was written twice, and each one that names a parent has it."""
        ids = Counter(id_of(span) for span in self.spans)
        assert set(ids.values()) <= {1}, [span.name for span in self.spans if ids[id_of(span)] > 1]
        orphans = [span.name for span in self.spans if span.parent is not None and span.parent.span_id not in ids]
        assert not orphans


@contextmanager
def traced(sampler: Sampler | None = None) -> Iterator[Traced]:
    collected = Traced(sampler)
    stop = export(collected.provider, MeterProvider())
    try:
        yield collected
    finally:
        stop()
        collected.provider.shutdown()


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def said(spans: Iterable[ReadableSpan | Event], name: str) -> list[object]:
    """An attribute of each of them."""
    return [(span.attributes or {}).get(f"redrive.{name}") for span in spans]


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]

"""A span for each flow, item and attempt, in one trace whichever workers run them.

The span of an attempt begins and ends with it. Those of items and flows may outlive any worker, so the worker that ends
one writes the whole span, from the beginning that the log tells. Their ids are computed, so that the spans of attempts
can name their parents before these are written.
"""

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from redrive.failures.redaction import redact
from redrive.integrations.opentelemetry.span_ids import (
    ComputedIds,
    attempt_span_id,
    flow_span_id,
    item_span_id,
    trace_id_of,
)
from redrive.telemetry.traceparent import TraceContext, read_traceparent
from redrive.telemetry.work import AttemptEnded, AttemptRef, FlowEnded, FlowRef, ItemEnded, ItemRef, Wait, Work

SCOPE = "redrive.flows"
LONGEST_REASON = 200
_EVENTS = {"snooze": "snoozed", "deferred": "deferred", "redrive": "redriven"}
"""Why an item waits -> the name of the span's event; all else is a retry."""


class FlowTracer:
    """Makes the spans of this process. Nothing is traced while the application has no tracer provider."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._given = provider
        self._provider: trace.TracerProvider | None = None
        self._tracer: trace.Tracer | None = None
        self._ids: ComputedIds | None = None
        self._live: dict[str, Span] = {}
        """Delivery token -> the span of an attempt that runs here."""

    # What the engine asks

    def current_traceparent(self) -> str | None:
        current = trace.get_current_span().get_span_context()
        if not current.is_valid:
            return None
        return TraceContext(current.trace_id, current.span_id, current.trace_flags & 3).write()

    def attempt_began(self, attempt: AttemptRef, at: float) -> str | None:
        if self._find_tracer() is None:
            return None
        if attempt.endpoint:
            # Its span is written when the answer is there, or the report, which another worker may receive.
            flow = self._flow_context(attempt.item.flow)
            return flow._replace(span_id=attempt_span_id(attempt.delivery)).write()
        span = self._start_attempt(attempt, at)
        made = span.get_span_context()
        if not made.is_valid:
            # Nobody would say when to forget it.
            return None
        self._live[attempt.delivery] = span
        return TraceContext(made.trace_id, made.span_id, made.trace_flags & 3).write()

    def enter(self, delivery: str, traceparent: str) -> None:
        span, given = self._live.get(delivery), read_traceparent(traceparent)
        if span is None and given is not None:
            # In a process of its own.
            span = NonRecordingSpan(_span_context(given))
        if span is not None:
            contexts.attach(trace.set_span_in_context(span))

    def forget(self, delivery: str) -> None:
        self._live.pop(delivery, None)

    # What the engine tells

    def hear(self, work: Work) -> None:
        if self._find_tracer() is None:
            return
        if isinstance(work, AttemptEnded):
            self._end_attempt(work)
        elif isinstance(work, ItemEnded):
            self._write_item(work)
        else:
            self._write_flow(work)

    def _end_attempt(self, ended: AttemptEnded) -> None:
        span = self._live.pop(ended.attempt.delivery, None) or self._start_attempt(ended.attempt, ended.began)
        if ended.category:
            span.set_attribute("redrive.error.category", ended.category)
        if ended.status is not None:
            span.set_attribute("http.response.status_code", ended.status)
        _finish(span, ended.outcome, ended.ended, ended.error_type)

    def _write_item(self, ended: ItemEnded) -> None:
        item = ended.item
        attributes = {**_item_attributes(item), "redrive.attempts": ended.attempts}
        flow = self._flow_context(item.flow)
        span = self._start(f"item {item.step}", item_span_id(item), flow, flow, ended.began, attributes)
        _add_waits(span, ended.waits, _EVENTS, "retry scheduled")
        _finish(span, ended.outcome, ended.ended, ended.error_type, ended.kind)

    def _write_flow(self, ended: FlowEnded) -> None:
        flow = ended.flow
        known, parent = self._flow_context(flow), _parent_of(flow)
        links = []
        if flow.round:
            links.append(Link(_span_context(known._replace(span_id=flow_span_id(flow, flow.round - 1)))))
        name = f"flow {flow.definition}"
        span = self._start(name, known.span_id, known, parent, ended.began, _flow_attributes(flow), links=links)
        _add_waits(span, ended.waits, {}, None)
        _finish(span, ended.outcome, ended.ended, ended.error_type, ended.kind)

    # Spans

    def _start_attempt(self, attempt: AttemptRef, at: float) -> Span:
        item, flow = attempt.item, self._flow_context(attempt.item.flow)
        parent, links = flow._replace(span_id=item_span_id(item)), []
        if attempt.earlier is not None:
            links.append(Link(_span_context(flow._replace(span_id=attempt_span_id(attempt.earlier)))))
        return self._start(
            f"attempt {item.step}",
            attempt_span_id(attempt.delivery),
            flow,
            parent,
            at,
            {**_item_attributes(item), "redrive.attempt": attempt.number, **_request_attributes(attempt.endpoint)},
            SpanKind.CLIENT if attempt.endpoint else SpanKind.INTERNAL,
            links,
        )

    def _start(
        self,
        name: str,
        span_id: int,
        flow: TraceContext,
        parent: TraceContext | None,
        at: float,
        attributes: dict[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
        links: Iterable[Link] = (),
    ) -> Span:
        """Start a span with this id under the parent; None: it is the root of its trace."""
        assert self._tracer is not None  # noqa: S101 - it was looked for first
        if self._ids is None and parent is None:
            # Not the SDK's tracer: ids cannot be computed, but the trace can be the same.
            parent = flow
        # Not the current context: what runs at the moment is the worker.
        context = contexts.Context()
        if parent is not None:
            context = trace.set_span_in_context(NonRecordingSpan(_span_context(parent)), context)
        with nullcontext() if self._ids is None else self._ids.fixed(flow.trace_id, span_id):
            return self._tracer.start_span(
                name, context, kind=kind, attributes=attributes, links=list(links), start_time=_nanoseconds(at)
            )

    def _flow_context(self, flow: FlowRef) -> TraceContext:
        """The context of the flow's span, which may not be written yet."""
        parent = _parent_of(flow)
        if parent is not None:
            return parent._replace(span_id=flow_span_id(flow))
        trace_id, sampler = trace_id_of(flow), getattr(self._tracer, "sampler", None)
        # The same in every worker: samplers go by the id of the trace.
        asked = None if sampler is None else sampler.should_sample(None, trace_id, f"flow {flow.definition}")
        return TraceContext(trace_id, flow_span_id(flow), int(asked is None or asked.decision.is_sampled()))

    def _find_tracer(self) -> trace.Tracer | None:
        """None while the application has set no tracer provider."""
        provider = self._given or trace.get_tracer_provider()
        if provider is not self._provider:
            self._provider, self._tracer, self._ids = provider, None, None
            if not isinstance(provider, trace.ProxyTracerProvider):
                tracer: Any = provider.get_tracer(SCOPE)
                self._tracer, generator = tracer, getattr(tracer, "id_generator", None)
                if generator is not None:
                    self._ids = generator if isinstance(generator, ComputedIds) else ComputedIds(generator)
                    tracer.id_generator = self._ids
        return self._tracer


def _parent_of(flow: FlowRef) -> TraceContext | None:
    return None if flow.traceparent is None else read_traceparent(flow.traceparent)


def _span_context(known: TraceContext) -> SpanContext:
    return SpanContext(known.trace_id, known.span_id, is_remote=True, trace_flags=TraceFlags(known.flags))


def _flow_attributes(flow: FlowRef) -> dict[str, Any]:
    return {"redrive.flow": flow.id, "redrive.definition": flow.definition, "redrive.queue": flow.queue}


def _item_attributes(item: ItemRef) -> dict[str, Any]:
    attributes = {**_flow_attributes(item.flow), "redrive.step": item.step, "redrive.item": item.number}
    if item.position:
        attributes["redrive.item.position"] = item.position
    if item.compensates:
        attributes["redrive.compensates"] = item.compensates
    return attributes


def _request_attributes(endpoint: str) -> dict[str, Any]:
    """Name the server of an HTTP step. Its path is left out: those of many webhooks are secrets."""
    if not endpoint:
        return {}
    attributes: dict[str, Any] = {"http.request.method": "POST"}
    # What is no URL has no server; the attempt fails and says so.
    with suppress(ValueError):
        url = urlsplit(endpoint)
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
        if url.hostname and port:
            attributes |= {"server.address": url.hostname, "server.port": port, "url.scheme": url.scheme}
    return attributes


def _add_waits(span: Span, waits: Iterable[Wait], names: dict[str, str], otherwise: str | None) -> None:
    for wait in waits:
        attributes: dict[str, Any] = {"redrive.wait.kind": wait.kind}
        if wait.until is not None:
            attributes["redrive.wait.seconds"] = max(0.0, wait.until - wait.at)
        if wait.reason:
            attributes["redrive.wait.reason"] = redact(wait.reason, LONGEST_REASON)
        span.add_event(names.get(wait.kind) or otherwise or wait.kind, attributes, _nanoseconds(wait.at))


def _finish(span: Span, outcome: str, at: float, error: str, kind: str = "") -> None:
    span.set_attribute("redrive.outcome", outcome)
    if kind:
        span.set_attribute("redrive.failure.kind", kind)
    if error:
        span.set_attribute("error.type", error)
    if outcome in ("failed", "timed_out", "lost"):
        # Not the message of the error, which may hold anything.
        span.set_status(Status(StatusCode.ERROR, error or outcome))
    span.end(_nanoseconds(at))


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)

"""The metrics of durable work: the same ones through OpenTelemetry and through Prometheus."""

import asyncio
from typing import Any

import pytest
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

from redrive import RetryPolicy, Workflow, action, workflow
from redrive.integrations import opentelemetry, prometheus
from redrive.telemetry.events import CircuitChanged
from redrive.telemetry.metrics import FLOWS, METRICS
from redrive.telemetry.queue_counts import Counts, QueueCounts, refresh_counts
from redrive.telemetry.stream import emit
from redrive.testing import flow_app


@action(name="metered.charge", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def charge(fails: bool) -> None:
    if fails:
        raise ConnectionError("no answer")


@workflow(name="metered.Order")
class Order(Workflow):
    async def run(self, fails: bool) -> None:
        await charge(fails)


@pytest.mark.promise("L7")
def test_both_exporters_count_attempts_retries_dead_letters_durations_and_what_waits() -> None:
    reader, registry = InMemoryMetricReader(), CollectorRegistry()
    meters = MeterProvider([reader])
    stops = [opentelemetry.export(TracerProvider(), meters), prometheus.export(registry)]

    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(Order.call(False)))
            await app.outcome(await app.start(Order.call(True)))
            await app.start(Order.call(False), delay="1h")
            await refresh_counts()
            _check(registry, reader)

    try:
        asyncio.run(story())
    finally:
        for stop in stops:
            stop()
        meters.shutdown()


def _check(registry: CollectorRegistry, reader: InMemoryMetricReader) -> None:
    told = _collected(reader)
    expected: dict[tuple[str, tuple[str, ...]], float] = {
        ("redrive_attempts_total", ("metered.charge", "succeeded")): 1,
        ("redrive_attempts_total", ("metered.charge", "failed")): 2,
        ("redrive_attempt_seconds_count", ("metered.charge", "succeeded")): 1,
        ("redrive_attempt_seconds_count", ("metered.charge", "failed")): 2,
        ("redrive_flow_seconds_count", ("workflow:metered.Order", "failed")): 1,
        ("redrive_retries_total", ("metered.charge", "ConnectionError")): 1,
        ("redrive_given_up_calls_total", ("metered.charge", "exhausted")): 1,
        ("redrive_dead_letters_total", ("workflow:metered.Order", "exhausted")): 1,
        ("redrive_flows", ("default", "waiting")): 1,
    }
    labels = {one.name: one.labels for one in (*METRICS, FLOWS)}
    for (name, values), number in expected.items():
        base = name.removesuffix("_total").removesuffix("_sum").removesuffix("_count")
        found = registry.get_sample_value(name, dict(zip(labels[base], values, strict=True)))
        assert found == pytest.approx(number), name
        assert told[name, values] == pytest.approx(number), name


def _collected(reader: InMemoryMetricReader) -> dict[tuple[str, tuple[str, ...]], float]:
    """The numbers, under the names that Prometheus has for them."""
    told: dict[tuple[str, tuple[str, ...]], float] = {}
    data = reader.get_metrics_data()
    assert data is not None
    names = {one.name.replace("redrive_", "redrive.").removesuffix("_seconds"): one for one in (*METRICS, FLOWS)}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        known = names[metric.name]
        for point in metric.data.data_points:
            values = tuple(str((point.attributes or {})[label]) for label in known.labels)
            if known.kind == "histogram":
                told[known.name + "_sum", values], told[known.name + "_count", values] = point.sum, point.count  # type: ignore[union-attr]
            else:
                name = known.name + ("_total" if known.kind == "counter" else "")
                told[name, values] = point.value  # type: ignore[union-attr]
    return told


def test_a_queue_that_is_empty_again_is_counted_as_zero() -> None:
    counted = [{("mail", "ready"): 2}, {}]

    async def read() -> Counts:
        return counted.pop(0)

    async def story() -> None:
        counts = QueueCounts(read)
        await counts.refresh()
        assert counts.latest == {("mail", "ready"): 2}
        await counts.refresh()
        assert counts.latest == {("mail", "ready"): 0}

    asyncio.run(story())


def test_a_circuit_that_changes_while_the_gauges_are_collected_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of metrics is another thread than the one that runs the work."""
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    stop = opentelemetry.export(TracerProvider(), meters)
    changed = iter(f"bank {number}" for number in range(100))

    def observed(*args: Any) -> Observation:
        emit(CircuitChanged(dependency=next(changed), before="closed", after="open", failures=1))
        return Observation(*args)

    monkeypatch.setattr("redrive.integrations.opentelemetry.metrics.Observation", observed)
    try:
        emit(CircuitChanged(dependency="mail", before="closed", after="open", failures=1))
        assert _collected(reader)["redrive_circuit_state", ("mail", "open")] == 1
    finally:
        stop()
        meters.shutdown()

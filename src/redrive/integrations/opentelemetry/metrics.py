"""The metrics of Prometheus, through OpenTelemetry."""

from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from redrive.telemetry.events import Event
from redrive.telemetry.metrics import FLOWS, METRICS, Measurement, Metric, measure_event, measure_work
from redrive.telemetry.queue_counts import latest_counts
from redrive.telemetry.stream import listen
from redrive.telemetry.work import Work, listen_to_work

SCOPE = "redrive"


def export_metrics(provider: MeterProvider | None = None) -> Callable[[], None]:
    """Record every event of this process. Returns a function that stops it."""
    meter = (provider or metrics.get_meter_provider()).get_meter(SCOPE)
    made: dict[str, Any] = {}
    states: dict[str, dict[tuple[str, ...], float]] = {one.name: {} for one in METRICS if one.kind == "gauge"}
    stopped = False

    def observed(metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            if stopped:
                return []
            known = latest_counts() if metric is FLOWS else states[metric.name]
            # A copy: this is another thread, and a circuit of another dependency may change meanwhile.
            states_now = list(known.items())
            return [Observation(value, dict(zip(metric.labels, key, strict=True))) for key, value in states_now]

        return observe

    for one in (*METRICS, FLOWS):
        name, unit = one.name.replace("redrive_", "redrive.", 1), "s" if one.name.endswith("_seconds") else "1"
        if one.kind == "counter":
            made[one.name] = meter.create_counter(name, unit, one.about)
        elif one.kind == "histogram":
            made[one.name] = meter.create_histogram(name.removesuffix("_seconds"), unit, one.about)
        else:
            meter.create_observable_gauge(name, [observed(one)], unit, one.about)

    def record(measured: Iterable[Measurement]) -> None:
        for metric, labels, value in measured:
            if metric.kind == "gauge":
                states[metric.name][labels] = value
                continue
            attributes = dict(zip(metric.labels, labels, strict=True))
            if metric.kind == "counter":
                made[metric.name].add(value, attributes)
            else:
                made[metric.name].record(value, attributes)

    def count(event: Event) -> None:
        record(measure_event(event))

    def count_work(work: Work) -> None:
        record(measure_work(work))

    stops = (listen(count), listen_to_work(count_work))

    def stop() -> None:
        nonlocal stopped
        stopped = True
        for one in stops:
            one()

    return stop

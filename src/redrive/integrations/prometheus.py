"""Exports events as Prometheus metrics (`pip install 'redrive[metrics]'`).

from redrive.integrations.prometheus import export
export()
"""

from collections.abc import Callable, Iterable
from typing import Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError("Prometheus metrics need the extra 'metrics': pip install 'redrive[metrics]'") from error

from redrive.telemetry.events import Event
from redrive.telemetry.metrics import FLOWS, METRICS, Measurement, measure_event, measure_work
from redrive.telemetry.queue_counts import latest_counts
from redrive.telemetry.stream import listen
from redrive.telemetry.work import Work, listen_to_work

__all__ = ["export"]

_KINDS = {"counter": Counter, "histogram": Histogram, "gauge": Gauge}


class _Flows(Collector):
    """The flows that have not finished, as the stores know them."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [GaugeMetricFamily(FLOWS.name, FLOWS.about, labels=FLOWS.labels)]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(FLOWS.name, FLOWS.about, labels=FLOWS.labels)
        for labels, number in latest_counts().items():
            family.add_metric(labels, number)
        return [family]


def export(registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Record every event of this process in `registry`. Returns a function that stops it and removes the metrics."""
    made: dict[str, Any] = {
        one.name: _KINDS[one.kind](one.name, one.about, one.labels, registry=registry) for one in METRICS
    }
    flows = _Flows()
    registry.register(flows)

    def record(measured: Iterable[Measurement]) -> None:
        for metric, labels, value in measured:
            child = made[metric.name].labels(*labels)
            if metric.kind == "counter":
                child.inc(value)
            elif metric.kind == "histogram":
                child.observe(value)
            else:
                child.set(value)

    def count(event: Event) -> None:
        record(measure_event(event))

    def count_work(work: Work) -> None:
        record(measure_work(work))

    stop_listening, stop_listening_to_work = listen(count), listen_to_work(count_work)

    def stop() -> None:
        stop_listening()
        stop_listening_to_work()
        for metric in (*made.values(), flows):
            registry.unregister(metric)

    return stop

"""Exports durable work as OpenTelemetry spans and metrics (`pip install 'redrive[tracing]'`).

from redrive.integrations.opentelemetry import export
export()
"""

from collections.abc import Callable

try:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
except ImportError as error:
    raise ImportError("OpenTelemetry needs the extra 'tracing': pip install 'redrive[tracing]'") from error

from redrive.integrations.opentelemetry.metrics import export_metrics
from redrive.integrations.opentelemetry.spans import FlowTracer
from redrive.telemetry.tracing import install_tracer
from redrive.telemetry.work import listen_to_work

__all__ = ["export"]


def export(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> Callable[[], None]:
    """Send spans and metrics of this process's durable work to the providers, by default to the global ones.

    Returns a function that stops it.
    """
    tracer = FlowTracer(tracer_provider)
    stops = (install_tracer(tracer), listen_to_work(tracer.hear), export_metrics(meter_provider))

    def stop() -> None:
        for one in stops:
            one()

    return stop

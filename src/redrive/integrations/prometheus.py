"""Events as Prometheus metrics (`pip install redrive[metrics]`).

from redrive.integrations.prometheus import export
export()
"""

from collections.abc import Callable

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ImportError as error:
    raise ImportError("Prometheus metrics need the extra 'metrics': pip install 'redrive[metrics]'") from error

from redrive.policies.decision import RetryAt
from redrive.telemetry.events import (
    AttemptFailed,
    CallRecovered,
    CallRefused,
    CircuitChanged,
    Event,
    FlowParked,
    StageAttempted,
    StageRetryScheduled,
    StageRetrySucceeded,
)
from redrive.telemetry.stream import listen

__all__ = ["export"]


CIRCUIT_PHASES = ("closed", "half_open", "open")


def export(registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Count every event of this process in `registry`; what is returned ends that."""
    retries = Counter(
        "redrive_retries", "Retries scheduled after a failed attempt.", ["operation", "error_type"], registry=registry
    )
    recovered = Counter(
        "redrive_recovered_calls", "Calls that succeeded after a failed attempt.", ["operation"], registry=registry
    )
    given_up = Counter("redrive_given_up_calls", "Calls that gave up.", ["operation", "kind"], registry=registry)
    refused = Counter("redrive_refused_calls", "Calls refused by an open circuit.", ["dependency"], registry=registry)
    waits = Histogram("redrive_retry_wait_seconds", "Waits before a retry.", ["operation"], registry=registry)
    parked = Counter(
        "redrive_parked_flows", "Flows whose code no longer fits their log.", ["definition"], registry=registry
    )
    circuit = Gauge(
        "redrive_circuit_state", "1 for the phase the circuit is in.", ["dependency", "phase"], registry=registry
    )
    stage_retries = Counter(
        "redrive_retry_attempts", "Retries of pipeline stages.", ["stage", "error_type"], registry=registry
    )
    stage_recoveries = Counter(
        "redrive_retry_success", "Stages that succeeded by a retry.", ["stage", "attempt"], registry=registry
    )
    stage_delays = Histogram(
        "redrive_retry_delay_seconds", "Waits before a retry of a stage.", ["stage"], registry=registry
    )
    stage_attempts = Histogram(
        "redrive_stage_attempt_seconds", "How long attempts at stages took.", ["stage", "outcome"], registry=registry
    )
    metrics = (
        *(retries, recovered, given_up, refused, waits, parked, circuit),
        *(stage_retries, stage_recoveries, stage_delays, stage_attempts),
    )

    def count(event: Event) -> None:
        if isinstance(event, StageAttempted):
            stage_attempts.labels(event.stage, event.outcome).observe(event.seconds)
        elif isinstance(event, StageRetryScheduled):
            stage_retries.labels(event.stage, event.error_type).inc()
            stage_delays.labels(event.stage).observe(event.delay_ms / 1000)
        elif isinstance(event, StageRetrySucceeded):
            stage_recoveries.labels(event.stage, str(event.attempt)).inc()
        elif isinstance(event, AttemptFailed):
            operation = event.label or event.operation
            if isinstance(event.decision, RetryAt):
                retries.labels(operation, event.failure.type).inc()
                waits.labels(operation).observe(event.decision.because.wait)
            else:
                given_up.labels(operation, event.decision.kind).inc()
        elif isinstance(event, CallRecovered):
            recovered.labels(event.label or event.operation).inc()
        elif isinstance(event, CallRefused):
            refused.labels(event.dependency).inc()
        elif isinstance(event, FlowParked):
            parked.labels(event.definition).inc()
        elif isinstance(event, CircuitChanged):
            for phase in CIRCUIT_PHASES:
                circuit.labels(event.dependency, phase).set(phase == event.after)

    stop_listening = listen(count)

    def stop() -> None:
        stop_listening()
        for metric in metrics:
            registry.unregister(metric)

    return stop

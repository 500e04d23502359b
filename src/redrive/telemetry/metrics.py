"""The metrics of redrive, and what each event adds to them. Exporters write them in the form of their library."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from redrive.policies.decision import RetryAt
from redrive.telemetry.events import (
    AttemptFailed,
    CallRecovered,
    CallRefused,
    CircuitChanged,
    CircuitRecovery,
    Event,
    FlowFailed,
    FlowParked,
    StageAttempted,
    StageRetryScheduled,
    StageRetrySucceeded,
)
from redrive.telemetry.work import AttemptEnded, FlowEnded, Work

CIRCUIT_PHASES = ("closed", "half_open", "open")


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "histogram", "gauge"]
    about: str
    labels: tuple[str, ...]


class Measurement(NamedTuple):
    """A number to add to a counter, to observe in a histogram, or to set a gauge to."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


RETRIES = Metric("redrive_retries", "counter", "Retries scheduled after a failed attempt.", ("operation", "error_type"))
RECOVERED = Metric("redrive_recovered_calls", "counter", "Calls that succeeded after a failed attempt.", ("operation",))
GIVEN_UP = Metric("redrive_given_up_calls", "counter", "Calls that gave up.", ("operation", "kind"))
REFUSED = Metric("redrive_refused_calls", "counter", "Calls refused by an open circuit or a limit.", ("dependency",))
RETRY_WAITS = Metric("redrive_retry_wait_seconds", "histogram", "Waits before a retry.", ("operation",))
PARKED = Metric("redrive_parked_flows", "counter", "Flows that were parked.", ("definition",))
DEAD_LETTERS = Metric("redrive_dead_letters", "counter", "Flows that failed for good.", ("definition", "kind"))
ATTEMPTS = Metric("redrive_attempts", "counter", "Attempts at durable work, by how they ended.", ("step", "outcome"))
ATTEMPT_TIMES = Metric(
    "redrive_attempt_seconds", "histogram", "Duration of attempts at durable work.", ("step", "outcome")
)
FLOW_TIMES = Metric(
    "redrive_flow_seconds", "histogram", "Time from a flow's start to its end.", ("definition", "outcome")
)
CIRCUIT = Metric("redrive_circuit_state", "gauge", "1 for the circuit's current phase.", ("dependency", "phase"))
RECOVERY = Metric(
    "redrive_circuit_recovery_rate",
    "gauge",
    "Calls per second that a recovering dependency gets; 0 when it does not recover.",
    ("dependency",),
)
STAGE_RETRIES = Metric("redrive_retry_attempts", "counter", "Retries of pipeline stages.", ("stage", "error_type"))
STAGE_RECOVERIES = Metric(
    "redrive_retry_success", "counter", "Stages that succeeded after a retry.", ("stage", "attempt")
)
STAGE_WAITS = Metric("redrive_retry_delay_seconds", "histogram", "Waits before a retry of a stage.", ("stage",))
STAGE_TIMES = Metric(
    "redrive_stage_attempt_seconds", "histogram", "Duration of attempts at stages.", ("stage", "outcome")
)
METRICS = (
    *(RETRIES, RECOVERED, GIVEN_UP, REFUSED, RETRY_WAITS, PARKED, DEAD_LETTERS, ATTEMPTS, ATTEMPT_TIMES, FLOW_TIMES),
    *(CIRCUIT, RECOVERY, STAGE_RETRIES, STAGE_RECOVERIES, STAGE_WAITS, STAGE_TIMES),
)

FLOWS = Metric("redrive_flows", "gauge", "Flows in the store that have not finished.", ("queue", "status"))
"""Read from the store when the metrics are collected, not counted."""


def measure_event(event: Event) -> Iterator[Measurement]:
    if isinstance(event, StageAttempted):
        yield Measurement(STAGE_TIMES, (event.stage, event.outcome), event.seconds)
    elif isinstance(event, StageRetryScheduled):
        yield Measurement(STAGE_RETRIES, (event.stage, event.error_type), 1)
        yield Measurement(STAGE_WAITS, (event.stage,), event.delay_ms / 1000)
    elif isinstance(event, StageRetrySucceeded):
        yield Measurement(STAGE_RECOVERIES, (event.stage, str(event.attempt)), 1)
    elif isinstance(event, AttemptFailed):
        operation = event.label or event.operation
        if isinstance(event.decision, RetryAt):
            yield Measurement(RETRIES, (operation, event.failure.type), 1)
            yield Measurement(RETRY_WAITS, (operation,), event.decision.because.wait)
        else:
            yield Measurement(GIVEN_UP, (operation, event.decision.kind), 1)
    elif isinstance(event, CallRecovered):
        yield Measurement(RECOVERED, (event.label or event.operation,), 1)
    elif isinstance(event, CallRefused):
        yield Measurement(REFUSED, (event.dependency,), 1)
    elif isinstance(event, FlowParked):
        yield Measurement(PARKED, (event.definition,), 1)
    elif isinstance(event, FlowFailed):
        yield Measurement(DEAD_LETTERS, (event.definition, event.kind), 1)
    elif isinstance(event, CircuitChanged):
        for phase in CIRCUIT_PHASES:
            yield Measurement(CIRCUIT, (event.dependency, phase), float(phase == event.after))
    elif isinstance(event, CircuitRecovery):
        yield Measurement(RECOVERY, (event.dependency,), event.rate)


def measure_work(work: Work) -> Iterator[Measurement]:
    if isinstance(work, AttemptEnded):
        labels = (work.attempt.item.step, work.outcome)
        yield Measurement(ATTEMPTS, labels, 1)
        yield Measurement(ATTEMPT_TIMES, labels, work.ended - work.began)
    elif isinstance(work, FlowEnded):
        yield Measurement(FLOW_TIMES, (work.flow.definition, work.outcome), work.ended - work.began)

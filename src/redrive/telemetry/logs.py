"""Logs events to the stdlib logger "redrive": one line each, with the details as extra fields and without secrets."""

import logging
from typing import Any

from redrive.policies.decision import RetryAt
from redrive.telemetry.events import (
    AttemptFailed,
    CallRecovered,
    CallRefused,
    CircuitChanged,
    Event,
    FallbackUsed,
    FlowFailed,
    FlowParked,
    StageAttempted,
    StageRetryExhausted,
    StageRetryScheduled,
    StageRetrySucceeded,
)

logger = logging.getLogger("redrive")
# Without a handler, Python prints warnings to stderr if the application has not configured logging.
logger.addHandler(logging.NullHandler())


def log_event(event: Event) -> None:
    """Log one event. Each detail is an extra field of the record, for structured loggers."""
    if isinstance(event, StageAttempted):
        # For metrics only: a line for each successful attempt would be too much.
        return
    if isinstance(event, AttemptFailed):
        level = logging.INFO if isinstance(event.decision, RetryAt) else logging.WARNING
    elif isinstance(event, CallRecovered | StageRetryScheduled | StageRetrySucceeded):
        level = logging.INFO
    elif isinstance(event, FlowFailed):
        level = logging.ERROR
    else:
        level = logging.WARNING
    if not logger.isEnabledFor(level) or not _has_handler():
        return
    message, fields = _describe(event)
    logger.log(level, message, extra={name: value for name, value in fields.items() if value is not None})


def _has_handler() -> bool:
    """Whether a record would reach a handler; building records for nobody would slow down each failed attempt."""
    current: logging.Logger | None = logger
    while current is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in current.handlers):
            return True
        current = current.parent if current.propagate else None
    return False


def _describe(event: Event) -> tuple[str, dict[str, Any]]:
    if isinstance(event, AttemptFailed):
        return _describe_failed_attempt(event)
    if isinstance(event, CallRecovered):
        return (
            f"{event.operation}: succeeded on attempt {event.attempts} after {event.elapsed:.3f} s",
            {
                "operation": event.operation,
                "attempt": event.attempts,
                "elapsed_s": round(event.elapsed, 6),
                "dependency": event.dependency,
                "correlation_id": event.correlation_id,
            },
        )
    if isinstance(event, CallRefused):
        return (
            f"{event.operation}: not called, the circuit of {event.dependency} is open for {event.retry_in:.3g} s more",
            {
                "operation": event.operation,
                "dependency": event.dependency,
                "circuit": "open",
                "retry_in_s": round(event.retry_in, 6),
                "correlation_id": event.correlation_id,
            },
        )
    if isinstance(event, FallbackUsed):
        aged = "" if event.age is None else f" ({event.age:.3g} s old)"
        return (
            f"{event.operation}: gave up, answered with the fallback: {event.fallback}{aged}",
            {
                "operation": event.operation,
                "fallback": event.fallback,
                "age_s": event.age,
                "dependency": event.dependency,
                "correlation_id": event.correlation_id,
            },
        )
    if isinstance(event, FlowFailed):
        return _describe_failed_flow(event)
    if isinstance(event, FlowParked):
        return (
            f"{event.definition} {event.flow_id}: parked: {event.problem}; then: redrive flows resume {event.flow_id} "
            "--why WHY",
            {"flow_id": event.flow_id, "definition": event.definition, "problem": event.problem},
        )
    if isinstance(event, StageRetryScheduled | StageRetrySucceeded | StageRetryExhausted):
        return _describe_stage(event)
    if isinstance(event, StageAttempted):
        return f"stage {event.stage}: attempt {event.outcome}", {"stage": event.stage}
    return _describe_circuit(event)


def _describe_failed_attempt(event: AttemptFailed) -> tuple[str, dict[str, Any]]:
    failure, decision = event.failure, event.decision
    limit = "unlimited" if event.attempts is None else str(event.attempts)
    what = f"{failure.type}: {failure.message}" if failure.message else failure.type or failure.kind
    if isinstance(decision, RetryAt):
        then = f"next attempt in {decision.because.wait:.3f} s"
    else:
        then = f"giving up ({decision.kind}): {decision.because.detail}"
    fields = {
        "operation": event.operation,
        "attempt": event.attempt,
        "max_attempts": event.attempts,
        "error_class": failure.category,
        "error_type": failure.type,
        "error": failure.message,
        "reason": failure.reason,
        "status": failure.status,
        "retry_after_s": failure.retry_after,
        "retry_after_note": failure.retry_after_note or None,
        "wait_s": round(decision.because.wait, 6) if isinstance(decision, RetryAt) else None,
        "gave_up": None if isinstance(decision, RetryAt) else decision.kind,
        "elapsed_s": round(event.elapsed, 6),
        "dependency": event.dependency,
        "correlation_id": event.correlation_id,
    }
    return f"{event.operation}: attempt {event.attempt}/{limit} failed ({failure.category}): {what}; {then}", fields


def _describe_failed_flow(event: FlowFailed) -> tuple[str, dict[str, Any]]:
    where = f" in {event.step}" if event.step else ""
    return (
        f"{event.definition} {event.flow_id}: failed for good{where} ({event.kind}): {event.error}; "
        f"see redrive explain {event.flow_id}",
        {
            "flow_id": event.flow_id,
            "definition": event.definition,
            "step": event.step or None,
            "gave_up": event.kind,
            "error": event.error,
            "errors": list(event.errors),
            "payload": event.payload,
        },
    )


def _describe_stage(
    event: StageRetryScheduled | StageRetrySucceeded | StageRetryExhausted,
) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = {
        "stage": event.stage,
        "pipeline_run_id": event.pipeline_run_id,
        "request_id": event.request_id,
    }
    if isinstance(event, StageRetrySucceeded):
        seconds = event.total_time_ms / 1000
        return (
            f"stage {event.stage}: succeeded on attempt {event.attempt} after {seconds:.3f} s",
            fields | {"attempt": event.attempt, "elapsed_s": seconds},
        )
    fields |= {"error": event.error, "error_type": event.error_type}
    what = f"{event.error_type}: {event.error}" if event.error else event.error_type
    if isinstance(event, StageRetryScheduled):
        wait = event.delay_ms / 1000
        return (
            f"stage {event.stage}: attempt {event.attempt} failed: {what}; next attempt in {wait:.3f} s",
            fields | {"attempt": event.attempt, "wait_s": wait},
        )
    return (
        f"stage {event.stage}: gave up after {event.attempts} attempts ({event.reason}): {what}",
        fields | {"attempt": event.attempts, "elapsed_s": event.total_time_ms / 1000, "gave_up": event.reason},
    )


def _describe_circuit(event: CircuitChanged) -> tuple[str, dict[str, Any]]:
    why = f" after {event.failures} consecutive failures" if event.failures and event.after == "open" else ""
    return (
        f"circuit of {event.dependency}: {event.before} -> {event.after}{why}",
        {"dependency": event.dependency, "circuit": event.after, "circuit_before": event.before},
    )

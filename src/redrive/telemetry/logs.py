"""Logs events to the stdlib logger "redrive": one line each, with the details as extra fields and without secrets."""

import logging
from typing import Any

from redrive.policies.decision import RetryAt
from redrive.telemetry.events import (
    AttemptFailed,
    CallRecovered,
    CallRefused,
    CircuitChanged,
    CircuitRecovery,
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


def place(flow_id: str, step: str = "", attempt: object = None) -> str:
    """What a line about durable work begins with: `flow 0198… step charge attempt 2`."""
    where = f"flow {flow_id}"
    if step:
        where += f" step {step}"
    return where if attempt is None else f"{where} attempt {attempt}"


def log_flow(level: int, flow_id: str, message: str, *args: object, step: str = "", attempt: int | None = None) -> None:
    """Log a line about a flow, which names the flow, and has its id as a field; also the step and the attempt."""
    fields = {"flow_id": flow_id, "step": step or None, "attempt": attempt}
    known = {name: value for name, value in fields.items() if value is not None}
    logger.log(level, f"%s: {message}", place(flow_id, step, attempt), *args, extra=known, stacklevel=2)


def log_event(event: Event) -> None:
    """Log one event. Each detail is an extra field of the record, for structured loggers."""
    if isinstance(event, StageAttempted):
        # For metrics only: a line for each successful attempt would be too much.
        return
    if isinstance(event, CircuitRecovery) and event.app_closed:
        # For metrics only: the recovery has not ended.
        return
    if isinstance(event, AttemptFailed):
        level = logging.INFO if isinstance(event.decision, RetryAt) else logging.WARNING
    elif isinstance(event, CallRecovered | CircuitRecovery | StageRetryScheduled | StageRetrySucceeded):
        level = logging.INFO
    elif isinstance(event, CircuitChanged):
        level = logging.INFO if event.app_closed else logging.WARNING
    elif isinstance(event, FlowFailed):
        level = logging.ERROR
    else:
        level = logging.WARNING
    if not logger.isEnabledFor(level) or not has_handler():
        return
    message, fields = _describe(event)
    logger.log(level, message, extra={name: value for name, value in fields.items() if value is not None})


def has_handler() -> bool:
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
        if event.limit:
            why = f"the limit of {event.dependency} is reached: {event.limit}"
        else:
            why = f"the circuit of {event.dependency} is open for {event.retry_in:.3g} s more"
        return (
            f"{event.operation}: not called, {why}",
            {
                "operation": event.operation,
                "dependency": event.dependency,
                **({"limit": event.limit} if event.limit else {"circuit": "open"}),
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
            f"{place(event.flow_id)}: {event.definition} is parked: {event.problem}; then: "
            f"redrive flows resume {event.flow_id} --why WHY",
            {"flow_id": event.flow_id, "definition": event.definition, "problem": event.problem},
        )
    if isinstance(event, StageRetryScheduled | StageRetrySucceeded | StageRetryExhausted):
        return _describe_stage(event)
    if isinstance(event, StageAttempted):
        return f"stage {event.stage}: attempt {event.outcome}", {"stage": event.stage}
    if isinstance(event, CircuitRecovery):
        return _describe_recovery(event)
    return _describe_circuit(event)


def _describe_failed_attempt(event: AttemptFailed) -> tuple[str, dict[str, Any]]:
    failure, decision = event.failure, event.decision
    number = str(event.attempt) if event.attempts is None else f"{event.attempt}/{event.attempts}"
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
    if event.flow_id is None:
        where = f"{event.operation}: attempt {number} failed"
    else:
        where = f"{place(event.flow_id, event.operation, number)}: failed"
        fields |= {"flow_id": event.flow_id, "step": event.operation}
    return f"{where} ({failure.category}): {what}; {then}", fields


def _describe_failed_flow(event: FlowFailed) -> tuple[str, dict[str, Any]]:
    failed = f"; the compensation of {', '.join(event.uncompensated)} failed" if event.uncompensated else ""
    return (
        f"{place(event.flow_id, event.step)}: {event.definition} failed for good ({event.kind}): {event.error}"
        f"{failed}; see redrive explain {event.flow_id}",
        {
            "flow_id": event.flow_id,
            "definition": event.definition,
            "step": event.step or None,
            "gave_up": event.kind,
            "error": event.error,
            "errors": list(event.errors),
            "uncompensated": list(event.uncompensated) or None,
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
    if event.by_hand:
        why = f", {event.by_hand}"
    if event.app_closed:
        return (
            f"circuit of {event.dependency}: it was {event.before.replace('_', ' ')} when its worker or app stopped",
            {"dependency": event.dependency, "circuit_before": event.before},
        )
    return (
        f"circuit of {event.dependency}: {event.before} -> {event.after}{why}",
        {"dependency": event.dependency, "circuit": event.after, "circuit_before": event.before},
    )


def _describe_recovery(event: CircuitRecovery) -> tuple[str, dict[str, Any]]:
    rate = f"{event.rate:.3g} calls a second"
    what = {
        "began": f"the recovery began, with {rate}",
        "slowed": f"a failure slowed the recovery to {rate}",
        "failed": "the recovery failed: the dependency is down again",
        "ended": "the recovery ended, and no call is held back any more",
    }[event.stage]
    return (
        f"circuit of {event.dependency}: {what}",
        {"dependency": event.dependency, "recovery": event.stage, "rate": round(event.rate, 3)},
    )

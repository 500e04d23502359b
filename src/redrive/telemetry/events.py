"""Events as frozen records. They hold no secrets: failures are redacted when they are created."""

import msgspec

from redrive.failures.failure import Failure
from redrive.policies.decision import Decision
from redrive.resilience.circuit import CircuitChange, Phase, Stage


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt failed. The decision is a RetryAt, or the GiveUp that ends the call."""

    operation: str
    attempt: int
    """From 1."""
    attempts: int | None
    """Maximum attempts; None: no limit."""
    failure: Failure
    decision: Decision
    elapsed: float
    """Seconds since the first attempt began."""
    dependency: str | None = None
    correlation_id: str | None = None
    label: str = ""
    """The operation's name in metrics, without parts that differ from call to call; empty: same as `operation`."""
    flow_id: str | None = None
    """The flow whose step the operation is; None for a call that no flow made."""


class CallRecovered(msgspec.Struct, frozen=True, kw_only=True):
    """A call succeeded after at least one failed attempt."""

    operation: str
    attempts: int
    """The number of the attempt that succeeded."""
    elapsed: float
    dependency: str | None = None
    correlation_id: str | None = None
    label: str = ""
    """The operation's name in metrics, without parts that differ from call to call; empty: same as `operation`."""


class CallRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A call was not made because the circuit of its dependency is open, or a limit of it is reached."""

    operation: str
    dependency: str
    retry_in: float
    """Seconds until the next probe, or until the limit has room."""
    limit: str = ""
    """The limit that is reached, such as "500 requests per minute"; empty for a circuit."""
    correlation_id: str | None = None


class FallbackUsed(msgspec.Struct, frozen=True, kw_only=True):
    """A call gave up, and its fallback answered instead."""

    operation: str
    fallback: str
    """The kind of fallback: "value", "callable", "last good value" or "queue"."""
    age: float | None = None
    """The age of a last good value in seconds."""
    dependency: str | None = None
    correlation_id: str | None = None


class FlowFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A flow failed for good and is now a dead letter."""

    flow_id: str
    definition: str
    kind: str
    """Why: a GiveUp kind, "poison", or "workflow" if the flow's own code failed."""
    step: str
    """The step that failed; empty if the flow's own code failed."""
    error: str
    errors: tuple[str, ...]
    """The error of each failed attempt of that step."""
    payload: str
    """A summary of the flow's input."""
    uncompensated: tuple[str, ...] = ()
    """The steps whose compensation failed: what they did is still there."""


class FlowParked(msgspec.Struct, frozen=True, kw_only=True):
    """A flow cannot continue with the current code. It waits until someone fixes the code and resumes the flow."""

    flow_id: str
    definition: str
    problem: str
    """Where, and how, the code deviates from the flow's log."""


class CircuitChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The circuit of a dependency changed from one phase to another."""

    dependency: str
    before: Phase
    after: Phase
    failures: int
    """Consecutive failures that caused the change."""
    app_closed: bool = False
    """Whether the circuit only ended with its app, which says nothing about the dependency."""
    by_hand: str = ""
    """Who opened or closed it, and why; "" where it did so by itself."""


class CircuitRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency that is back after an outage gets calls at a rate that grows while they succeed."""

    dependency: str
    stage: Stage
    """ "began" with a good probe, "slowed" by a failed call, "failed" if the dependency is down again, "ended" once no
    call is held back any more."""
    rate: float
    """Calls per second that are let through; 0 once it has ended."""
    app_closed: bool = False
    """Whether the circuit only ended with its app."""


class StageRetryScheduled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt at a pipeline stage failed, and a retry is scheduled."""

    stage: str
    attempt: int
    """The attempt that failed, from 1."""
    delay_ms: int
    error: str
    error_type: str = ""
    pipeline_run_id: str | None = None
    request_id: str | None = None


class StageRetrySucceeded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage succeeded after at least one failed attempt."""

    stage: str
    attempt: int
    """The attempt that succeeded."""
    total_time_ms: int
    """From the start of the first attempt."""
    pipeline_run_id: str | None = None
    request_id: str | None = None


class StageRetryExhausted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage failed for good after more than one attempt."""

    stage: str
    attempts: int
    total_time_ms: int
    error: str
    error_type: str = ""
    reason: str = ""
    """The GiveUp kind: "exhausted", "permanent", "circuit_open", …"""
    pipeline_run_id: str | None = None
    request_id: str | None = None


class StageAttempted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at a stage ended. Emitted only if the metrics interceptor is used."""

    stage: str
    outcome: str
    """ "completed", "skipped", "cancelled" or "failed"."""
    seconds: float


Event = (
    AttemptFailed
    | CallRecovered
    | CallRefused
    | FallbackUsed
    | CircuitChanged
    | CircuitRecovery
    | FlowFailed
    | FlowParked
    | StageRetryScheduled
    | StageRetrySucceeded
    | StageRetryExhausted
    | StageAttempted
)


def circuit_events(change: CircuitChange) -> list[Event]:
    """Return the events that report a change of a circuit."""
    events: list[Event] = []
    if change.before != change.after:
        events.append(
            CircuitChanged(
                dependency=change.dependency,
                before=change.before,
                after=change.after,
                failures=change.failures,
                by_hand=change.by_hand,
            )
        )
    if change.recovery is not None:
        events.append(CircuitRecovery(dependency=change.dependency, stage=change.recovery, rate=change.rate))
    return events

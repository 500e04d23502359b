"""What happened, as frozen records. Their texts hold no secrets: failures are redacted when they are made."""

import msgspec

from redrive.failures.failure import Failure
from redrive.policies.decision import Decision
from redrive.resilience.circuit import Phase


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt failed, and this was decided about it: a RetryAt, or the GiveUp that ends the call."""

    operation: str
    attempt: int
    """From 1."""
    attempts: int | None
    """Attempts allowed in all; None: no limit."""
    failure: Failure
    decision: Decision
    elapsed: float
    """Seconds since the first attempt began."""
    dependency: str | None = None
    correlation_id: str | None = None
    label: str = ""
    """The operation as metrics name it, without what differs from call to call; empty: as `operation` has it."""


class CallRecovered(msgspec.Struct, frozen=True, kw_only=True):
    """A call succeeded after at least one failed attempt."""

    operation: str
    attempts: int
    """The attempt that succeeded."""
    elapsed: float
    dependency: str | None = None
    correlation_id: str | None = None
    label: str = ""
    """The operation as metrics name it, without what differs from call to call; empty: as `operation` has it."""


class CallRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A call was not made because the circuit of its dependency is open."""

    operation: str
    dependency: str
    retry_in: float
    """Seconds until the next probe."""
    correlation_id: str | None = None


class FallbackUsed(msgspec.Struct, frozen=True, kw_only=True):
    """A call gave up, and its fallback answered instead."""

    operation: str
    fallback: str
    """Which kind: "value", "callable", "last good value", "queue"."""
    age: float | None = None
    """Seconds since a last good value was fresh."""
    dependency: str | None = None
    correlation_id: str | None = None


class FlowFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A durable flow failed for good: it is a dead letter now."""

    flow_id: str
    definition: str
    kind: str
    """Why: a kind of giving up, "poison", or "workflow" where the flow's own code failed."""
    step: str
    """The step that failed; empty where the flow's own code did."""
    error: str
    errors: tuple[str, ...]
    """Of each failed attempt of that step."""
    payload: str
    """A summary of what it was started with."""


class FlowParked(msgspec.Struct, frozen=True, kw_only=True):
    """A durable flow cannot go on with the code as it is now: it waits until someone mends that and resumes it."""

    flow_id: str
    definition: str
    problem: str
    """What the code does otherwise than the flow's log says, and where."""


class CircuitChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The circuit of a dependency went from one phase to another."""

    dependency: str
    before: Phase
    after: Phase
    failures: int
    """Consecutive failures that led to it."""


class StageRetryScheduled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage of a pipeline failed and will be tried again."""

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
    """A stage was tried more than once, and failed for good."""

    stage: str
    attempts: int
    total_time_ms: int
    error: str
    error_type: str = ""
    reason: str = ""
    """The kind of giving up: "exhausted", "permanent", "circuit_open", …"""
    pipeline_run_id: str | None = None
    request_id: str | None = None


class StageAttempted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at a stage ended; told where the metrics interceptor is in use."""

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
    | FlowFailed
    | FlowParked
    | StageRetryScheduled
    | StageRetrySucceeded
    | StageRetryExhausted
    | StageAttempted
)

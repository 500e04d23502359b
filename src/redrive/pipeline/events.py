"""The events of a run as typed records; a sink gets each as its name and a mapping of its fields."""

from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.telemetry.events import StageRetryExhausted, StageRetryScheduled, StageRetrySucceeded


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run that the event belongs to."""

    pipeline_run_id: str | None = None
    request_id: str | None = None


class RunStarted(RunEvent, frozen=True, kw_only=True):
    stages: int


class RunEnded(RunEvent, frozen=True, kw_only=True):
    status: str
    """ "completed", "failed" or "cancelled"."""
    total_time_ms: int
    reason: str = ""


class StageStarted(RunEvent, frozen=True, kw_only=True):
    stage: str


class StageCompleted(RunEvent, frozen=True, kw_only=True):
    stage: str
    attempts: int
    total_time_ms: int


class StageSkipped(RunEvent, frozen=True, kw_only=True):
    stage: str
    reason: str


class StageFailed(RunEvent, frozen=True, kw_only=True):
    stage: str
    attempts: int
    total_time_ms: int
    error: str
    error_type: str


class StageCancelled(RunEvent, frozen=True, kw_only=True):
    """The run was cancelled, or another stage failed."""

    stage: str
    attempts: int
    total_time_ms: int


class StageFellBack(RunEvent, frozen=True, kw_only=True):
    """The stage failed, and its fallback gave the output."""

    stage: str
    error: str
    error_type: str


class GuardRetryScheduled(RunEvent, frozen=True, kw_only=True):
    """A guard rejected an output and sent the stage back."""

    guard: str
    stage: str
    round: int
    error: str


class GuardRetryEnded(RunEvent, frozen=True, kw_only=True):
    """A guard failed, and its stage is not sent back again."""

    guard: str
    stage: str
    rounds: int
    reason: str
    """ "attempts", "time" or "no progress"."""


class StageCompensated(RunEvent, frozen=True, kw_only=True):
    stage: str


class StageCompensationFailed(RunEvent, frozen=True, kw_only=True):
    stage: str
    error: str
    error_type: str


EVENT_TYPES: Mapping[str, type[msgspec.Struct]] = {
    "pipeline.started": RunStarted,
    "pipeline.ended": RunEnded,
    "stage.started": StageStarted,
    "stage.completed": StageCompleted,
    "stage.skipped": StageSkipped,
    "stage.failed": StageFailed,
    "stage.cancelled": StageCancelled,
    "stage.fell_back": StageFellBack,
    "stage.retry_scheduled": StageRetryScheduled,
    "stage.retry_succeeded": StageRetrySucceeded,
    "stage.retry_exhausted": StageRetryExhausted,
    "stage.compensated": StageCompensated,
    "stage.compensation_failed": StageCompensationFailed,
    "guard.retry_scheduled": GuardRetryScheduled,
    "guard.retry_ended": GuardRetryEnded,
}

EVENT_NAMES: Mapping[type[msgspec.Struct], str] = {kind: name for name, kind in EVENT_TYPES.items()}


def fields_of(event: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in msgspec.structs.asdict(event).items() if value is not None}

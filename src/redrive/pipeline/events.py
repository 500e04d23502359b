"""The events of a run, each a typed record with its name; sinks get them as that name and a mapping of fields."""

from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.telemetry.events import StageRetryExhausted, StageRetryScheduled, StageRetrySucceeded


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run it is about."""

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
    """It was ended with the run, or because another stage failed."""

    stage: str
    attempts: int
    total_time_ms: int


class StageFellBack(RunEvent, frozen=True, kw_only=True):
    """It failed for good, and something else answered in its place."""

    stage: str
    error: str
    error_type: str


class GuardRetryScheduled(RunEvent, frozen=True, kw_only=True):
    """A guard sent a stage back to work."""

    guard: str
    stage: str
    round: int
    error: str


class GuardRetryEnded(RunEvent, frozen=True, kw_only=True):
    """A guard failed, and the stage is not sent back any more."""

    guard: str
    stage: str
    rounds: int
    reason: str
    """ "attempts", "time" or "no progress"."""


class StageUndone(RunEvent, frozen=True, kw_only=True):
    stage: str


class StageUndoFailed(RunEvent, frozen=True, kw_only=True):
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
    "stage.undone": StageUndone,
    "stage.undo_failed": StageUndoFailed,
    "guard.retry_scheduled": GuardRetryScheduled,
    "guard.retry_ended": GuardRetryEnded,
}

EVENT_NAMES: Mapping[type[msgspec.Struct], str] = {kind: name for name, kind in EVENT_TYPES.items()}


def fields_of(event: msgspec.Struct) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in msgspec.structs.asdict(event).items() if value is not None}

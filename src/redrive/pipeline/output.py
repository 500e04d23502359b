"""`StageOutput`, which a stage returns, and `StageResult`, the record of one attempt that interceptors see."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from redrive.failures.redaction import redact

MAX_RETRY_AFTER_MS = 366 * 86_400_000


class StageStatus(StrEnum):
    """How a stage ended."""

    OK = "ok"
    SKIP = "skip"
    CANCEL = "cancel"
    FAIL = "fail"
    RETRY = "retry"


class StageOutput(msgspec.Struct, frozen=True):
    """How a stage ended, and its data for the stages that depend on it. Create it with `ok`, `skip`, `cancel`, …"""

    status: StageStatus
    data: Mapping[str, Any] = {}
    error: str = ""
    """Why the stage failed, was skipped, wants a retry or cancels the run."""
    retry_after_ms: float | None = None
    """How long to wait before the retry; None leaves the wait to the retry settings."""

    @classmethod
    def ok(cls, data: Mapping[str, Any] | None = None, /, **values: Any) -> "StageOutput":
        """The stage succeeded: `ok(total=3)`, or `ok({"total": 3})`."""
        if data is None:
            return cls(StageStatus.OK, values)
        return cls(StageStatus.OK, {**data, **values})

    @classmethod
    def skip(cls, reason: str = "") -> "StageOutput":
        """There was nothing to do; dependent stages get no data from this one."""
        return cls(StageStatus.SKIP, error=reason_text(reason))

    @classmethod
    def cancel(cls, reason: str = "") -> "StageOutput":
        """End the whole run now, without an error."""
        return cls(StageStatus.CANCEL, error=reason_text(reason))

    @classmethod
    def fail(cls, error: str = "", data: Mapping[str, Any] | None = None) -> "StageOutput":
        """The stage failed, and a retry will not help. A guard puts details for `ctx.feedback` into `data`."""
        return cls(StageStatus.FAIL, dict(data or {}), str(error) or "the stage reported a failure")

    @classmethod
    def retry(cls, reason: str = "", retry_after_ms: float | None = None) -> "StageOutput":
        """The attempt failed; retry it after `retry_after_ms`, or when the retry settings say."""
        if retry_after_ms is not None:
            if isinstance(retry_after_ms, bool) or not isinstance(retry_after_ms, int | float):
                raise TypeError(f"retry_after_ms: {retry_after_ms!r} is not allowed; use milliseconds from 0")
            if not 0 <= retry_after_ms <= MAX_RETRY_AFTER_MS:
                shown = "a number that large" if retry_after_ms > 0 else f"{max(retry_after_ms, -1e300):g}"
                raise ValueError(f"retry_after_ms: {shown} is not allowed; use milliseconds from 0, at most a year's")
        return cls(StageStatus.RETRY, error=str(reason) or "the stage asked for a retry", retry_after_ms=retry_after_ms)

    def __repr__(self) -> str:
        # Values may be secret, and a repr ends up in logs: show the names only, and the error redacted.
        about = [repr(redact(self.error, 200))] if self.error else []
        return f"StageOutput.{self.status.value}({', '.join([*map(str, self.data), *about])})"


class StageResult(msgspec.Struct, frozen=True):
    """One attempt that ended, as `after` sees it."""

    name: str
    status: Literal["completed", "failed", "skipped", "cancelled"]
    attempt: int
    started_at: float
    """Seconds since 1970."""
    ended_at: float
    data: Mapping[str, Any] = {}
    error: str | None = None


RESULT_STATUS: Mapping[StageStatus, Literal["completed", "failed", "skipped", "cancelled"]] = {
    StageStatus.OK: "completed",
    StageStatus.SKIP: "skipped",
    StageStatus.CANCEL: "cancelled",
    StageStatus.FAIL: "failed",
    StageStatus.RETRY: "failed",
}


def reason_text(reason: Any) -> str:
    """Return a reason as text; users may pass any object, or None for no reason."""
    return "" if reason is None else str(reason)


def as_output(returned: Any, stage_name: str, source: str = "stage {}") -> StageOutput:
    """Convert what a stage returned: a StageOutput, a mapping of data, or None.

    source: names whatever returned it in the error message, with {} for the stage.
    """
    if isinstance(returned, StageOutput):
        return returned
    if returned is None:
        return EMPTY_OUTPUT
    if isinstance(returned, Mapping):
        # A copy, so that later changes to the stage's own dict do not change its output.
        return StageOutput(StageStatus.OK, dict(returned))
    raise TypeError(
        f"{source.format(repr(stage_name))} returned a {type(returned).__name__}; return StageOutput.ok(name=value), a "
        "dict or None"
    )


EMPTY_OUTPUT = StageOutput(StageStatus.OK)

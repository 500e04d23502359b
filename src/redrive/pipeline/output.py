"""What a stage gives back: `StageOutput`, and the record of one attempt that interceptors get to see."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from redrive.failures.redaction import redact

MOST_MILLISECONDS = 366 * 86_400_000


class StageStatus(StrEnum):
    """How a stage ended."""

    OK = "ok"
    SKIP = "skip"
    CANCEL = "cancel"
    FAIL = "fail"
    RETRY = "retry"


class StageOutput(msgspec.Struct, frozen=True):
    """How a stage ended, and what it has for those that depend on it. Make it with `ok`, `skip`, `cancel`, …"""

    status: StageStatus
    data: Mapping[str, Any] = {}
    error: str = ""
    """Why it failed, was skipped, wants a retry or cancels the run."""
    retry_after_ms: float | None = None
    """How long to wait before the retry it asks for; None: as long as the retry settings say."""

    @classmethod
    def ok(cls, data: Mapping[str, Any] | None = None, /, **values: Any) -> "StageOutput":
        """Done: `ok(total=3)`, or `ok({"total": 3})`."""
        if data is None:
            return cls(StageStatus.OK, values)
        return cls(StageStatus.OK, {**data, **values})

    @classmethod
    def skip(cls, reason: str = "") -> "StageOutput":
        """There was nothing to do; those that depend on it get no data from here."""
        return cls(StageStatus.SKIP, error=reason_text(reason))

    @classmethod
    def cancel(cls, reason: str = "") -> "StageOutput":
        """End the whole run now, without an error."""
        return cls(StageStatus.CANCEL, error=reason_text(reason))

    @classmethod
    def fail(cls, error: str = "", data: Mapping[str, Any] | None = None) -> "StageOutput":
        """It failed, and trying again will not help. `data` is what a guard has to say about it."""
        return cls(StageStatus.FAIL, dict(data or {}), str(error) or "the stage says that it failed")

    @classmethod
    def retry(cls, reason: str = "", retry_after_ms: float | None = None) -> "StageOutput":
        """It failed, and is to be tried again: after that time, or as the retry settings say."""
        if retry_after_ms is not None:
            if isinstance(retry_after_ms, bool) or not isinstance(retry_after_ms, int | float):
                raise TypeError(f"retry_after_ms: {retry_after_ms!r} is not allowed; use milliseconds from 0")
            if not 0 <= retry_after_ms <= MOST_MILLISECONDS:
                shown = "a number that large" if retry_after_ms > 0 else f"{max(retry_after_ms, -1e300):g}"
                raise ValueError(f"retry_after_ms: {shown} is not allowed; use milliseconds from 0, at most a year's")
        return cls(StageStatus.RETRY, error=str(reason) or "the stage asks for a retry", retry_after_ms=retry_after_ms)

    def __repr__(self) -> str:
        # Data and texts are the user's own: a repr that ends in a log must not show what is secret in them.
        about = [repr(redact(self.error, 200))] if self.error else []
        return f"StageOutput.{self.status.value}({', '.join([*map(str, self.data), *about])})"


class StageResult(msgspec.Struct, frozen=True):
    """One attempt that ended, as `after` gets to see it."""

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
    """A reason as users write it: any object; None says nothing."""
    return "" if reason is None else str(reason)


def as_output(returned: Any, stage_name: str, who: str = "stage {}") -> StageOutput:
    """What a stage returned: a StageOutput, a mapping of data, or nothing. `who`: with the stage as {}."""
    if isinstance(returned, StageOutput):
        return returned
    if returned is None:
        return NOTHING_GIVEN
    if isinstance(returned, Mapping):
        # A copy: what the stage does with its own later is not what it gave.
        return StageOutput(StageStatus.OK, dict(returned))
    raise TypeError(
        f"{who.format(repr(stage_name))} returned a {type(returned).__name__}; return StageOutput.ok(name=value), a "
        "dict or None"
    )


NOTHING_GIVEN = StageOutput(StageStatus.OK)

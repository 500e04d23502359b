"""The exceptions of pipelines.

Exception
├── ValueError
│   └── PipelineError    an invalid pipeline, found when it is built
├── RelayedError
│   └── PipelineFailedError   a stage failed and is not retried any more; carries the results so far
└── ResultRejectedError
    └── StageReportedError    a stage returned StageOutput.fail or StageOutput.retry
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from redrive.errors import RelayedError, ResultRejectedError
from redrive.failures.failure import Failure, JudgedError
from redrive.failures.redaction import redact
from redrive.pipeline.output import StageOutput, StageStatus
from redrive.pipeline.redacted_text import error_text
from redrive.pipeline.results import PipelineResult
from redrive.policies.report import ATTRIBUTE, Report, report_of

# How many names of nested pipelines a message shows.
MAX_NAMES = 8


class StageReportedError(ResultRejectedError, JudgedError):
    """The stage returned StageOutput.fail or StageOutput.retry."""

    # Defaults for an error that is rebuilt from the log of a flow, where fields without a JSON form are missing.
    _failure: Failure | None = None
    _status: str = StageStatus.FAIL.value
    _data: Mapping[str, Any] = MappingProxyType({})
    _retry_after_ms: float | None = None

    def __init__(self, output: StageOutput, failure: Failure | None = None) -> None:
        """`failure`: the classification for callers without a stage's retrier: a durable run, a call around the run."""
        super().__init__(output)
        self.args = (output.error,)
        # The log of a flow keeps these beside the text.
        self._status = output.status.value
        self._data = dict(output.data)
        self._retry_after_ms = output.retry_after_ms
        self._failure = failure

    @classmethod
    def by(cls, output: StageOutput, *, retry_on_fail: bool) -> "StageReportedError":
        """Return the error for an output with the status fail or retry."""
        return cls(output, failure_of_output(output, retry_on_fail=retry_on_fail))

    def judged(self) -> Failure | None:
        return self._failure

    @property
    def output(self) -> StageOutput:
        known = getattr(self, "result", None)
        if isinstance(known, StageOutput):
            return known
        return StageOutput(StageStatus(self._status), self._data, str(self), self._retry_after_ms)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.output, self._failure), _attached_to(self)


def failure_of_output(output: StageOutput, *, retry_on_fail: bool) -> Failure:
    """Classify a failure that a stage reported by its output."""
    retry = retry_on_fail or output.status is StageStatus.RETRY
    return Failure(
        category="transient" if retry else "permanent",
        reason="the stage asked for a retry" if retry else "the stage reported a failure",
        kind="result",
        type=StageReportedError.__name__,
        message=redact(output.error),
        retry_after=None if output.retry_after_ms is None else output.retry_after_ms / 1000,
        asks_for_retry=retry,
        marked_permanent=not retry,
    )


class PipelineFailedError(RelayedError):
    """A stage failed and is not retried any more. `results` has the outputs so far.

    A guarded call around the run classifies this error as it would classify the error of the stage.
    """

    def __init__(
        self,
        results: PipelineResult,
        failures: Mapping[str, Exception],
        compensated: tuple[str, ...] = (),
        compensation_failures: Mapping[str, BaseException] | None = None,
    ) -> None:
        self.results = results
        """The outputs of the stages that ended."""
        self.failures = dict(failures)
        """The error of each stage that failed, in the order in which they failed."""
        self.stage, self.error = next(iter(self.failures.items()))
        """The stage that failed first, and its error."""
        inner = {name: error for name, error in self.failures.items() if isinstance(error, PipelineFailedError)}
        self._own_compensation = tuple(compensated), dict(compensation_failures or {})
        self.compensated: tuple[str, ...] = (
            *(f"{name}/{one}" for name, error in inner.items() for one in error.compensated),
            *compensated,
        )
        """The stages that were compensated, in that order: newest first. Stages of a nested pipeline are named as in
        "trip/hotel"."""
        self.compensation_failures: dict[str, BaseException] = {
            f"{name}/{one}": why for name, error in inner.items() for one, why in error.compensation_failures.items()
        } | self._own_compensation[1]
        """The stages that could not be compensated, each with the error: someone has to look at them."""
        self.retries_were_made = all(_was_retried(error) for error in self.failures.values())
        super().__init__(self._message())

    @property
    def stands_for(self) -> BaseException:
        """The error of the stage; if several failed, an ExceptionGroup of their errors."""
        return self.error if len(self.failures) == 1 else ExceptionGroup("failed stages", [*self.failures.values()])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.results, self.failures, *self._own_compensation), _attached_to(self)

    def _message(self) -> str:
        # Of nested pipelines, name the path and the innermost error, instead of quoting each message in the next.
        names, error = [self.stage], self.error
        while isinstance(error, PipelineFailedError):
            names.append(error.stage)
            error = error.error
        if len(names) > MAX_NAMES:
            names[1 : 1 - MAX_NAMES] = ["…"]
        report = report_of(error)
        how = "" if report is None else f" after {report.made} attempt{'s'[: report.made != 1]} ({_why(report)})"
        others = "" if len(self.failures) == 1 else f"; also failed: {', '.join(list(self.failures)[1:])}"
        left = (
            ""
            if not self.compensation_failures
            else f"; could not be compensated: {', '.join(self.compensation_failures)}"
        )
        return f"stage {'/'.join(names)!r} failed{how}: {type(error).__name__}: {error_text(error)}{others}{left}"


def _why(report: Report) -> str:
    kind = report.gave_up.kind
    # The only limit that is not visible in the stage's settings.
    return f"{kind}: {report.gave_up.because.detail}" if kind == "retry_after" else kind


def _was_retried(error: Exception) -> bool:
    return error.retries_were_made if isinstance(error, PipelineFailedError) else report_of(error) is not None


def _attached_to(error: Exception) -> dict[str, Any]:
    """Return the notes and the report of an error, which go with it to another process."""
    return {name: value for name, value in vars(error).items() if name in ("__notes__", ATTRIBUTE)}

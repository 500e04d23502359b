"""What a pipeline raises.

Exception
├── ValueError
│   └── PipelineError    a pipeline that cannot be meant, found when it is built
├── RelayedError
│   └── PipelineFailedError   a stage failed for good; carries the results there are
└── ResultRejectedError
    └── StageReportedError    a stage returned StageOutput.fail or StageOutput.retry
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from redrive.errors import RelayedError, ResultRejectedError
from redrive.failures.failure import Failure, JudgedError
from redrive.pipeline.output import StageOutput, StageStatus
from redrive.pipeline.shown import message_of
from redrive.policies.report import ATTRIBUTE, Report, report_of

if TYPE_CHECKING:
    from redrive.pipeline.results import PipelineResult

# Of the pipelines inside each other that a message names.
MOST_NAMES = 8


class StageReportedError(ResultRejectedError, JudgedError):
    """The stage itself said that it failed, or asked for a retry, by what it returned."""

    # Of one that was read from the log of a flow, what had no plain form is not there.
    _failure: Failure | None = None
    _status: str = StageStatus.FAIL.value
    _data: Mapping[str, Any] = MappingProxyType({})
    _retry_after_ms: float | None = None

    def __init__(self, output: StageOutput, failure: Failure | None = None) -> None:
        """`failure`: for whoever has nobody else to ask: a durable run, or a call around the whole run."""
        super().__init__(output)
        self.args = (output.error,)
        # What the log of a flow keeps of it, beside the text.
        self._status = output.status.value
        self._data = dict(output.data)
        self._retry_after_ms = output.retry_after_ms
        self._failure = failure

    def judged(self) -> Failure | None:
        return self._failure

    @property
    def output(self) -> StageOutput:
        known = getattr(self, "result", None)
        if isinstance(known, StageOutput):
            return known
        return StageOutput(StageStatus(self._status), self._data, str(self), self._retry_after_ms)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.output, self._failure), _kept_with(self)


class PipelineFailedError(RelayedError):
    """A stage failed for good. What was done until then is in `results`.

    A guarded call around the run judges it as it would judge the error of the stage.
    """

    def __init__(
        self,
        results: "PipelineResult",
        failures: Mapping[str, Exception],
        undone: tuple[str, ...] = (),
        undo_failures: Mapping[str, BaseException] | None = None,
    ) -> None:
        self.results = results
        """The outputs of the stages that were done."""
        self.failures = dict(failures)
        """The error of each stage that failed, the first one first."""
        self.stage, self.error = next(iter(self.failures.items()))
        """The stage that failed first, and its error."""
        inside = {name: error for name, error in self.failures.items() if isinstance(error, PipelineFailedError)}
        self._own_undo = tuple(undone), dict(undo_failures or {})
        self.undone: tuple[str, ...] = (
            *(f"{name}/{one}" for name, error in inside.items() for one in error.undone),
            *undone,
        )
        """The stages that were undone, in the order in which that happened: newest first; those of a pipeline inside
        as "trip/hotel"."""
        self.undo_failures: dict[str, BaseException] = {
            f"{name}/{one}": why for name, error in inside.items() for one, why in error.undo_failures.items()
        } | self._own_undo[1]
        """The stages whose undo failed, with its error: someone has to look at them."""
        self.retries_were_made = all(_was_retried(error) for error in self.failures.values())
        super().__init__(self._in_one_line())

    @property
    def stands_for(self) -> BaseException:
        """The error of the stage; of several, their group."""
        return self.error if len(self.failures) == 1 else ExceptionGroup("failed stages", [*self.failures.values()])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.results, self.failures, *self._own_undo), _kept_with(self)

    def _in_one_line(self) -> str:
        names, error = [self.stage], self.error
        while isinstance(error, PipelineFailedError):
            # The names of pipelines inside each other, and the error it is all about: not each message in the next.
            names.append(error.stage)
            error = error.error
        if len(names) > MOST_NAMES:
            names[1 : 1 - MOST_NAMES] = ["…"]
        report = report_of(error)
        how = "" if report is None else f" after {report.made} attempt{'s'[: report.made != 1]} ({_why(report)})"
        others = "" if len(self.failures) == 1 else f"; failed too: {', '.join(list(self.failures)[1:])}"
        left = "" if not self.undo_failures else f"; could not be undone: {', '.join(self.undo_failures)}"
        what = f"{type(error).__name__}: {message_of(error)}"
        return f"stage {'/'.join(names)!r} failed{how}: {what}{others}{left}"


def _why(report: Report) -> str:
    kind = report.gave_up.kind
    # The one limit that no setting of the stage shows.
    return f"{kind}: {report.gave_up.because.detail}" if kind == "retry_after" else kind


def _was_retried(error: Exception) -> bool:
    return error.retries_were_made if isinstance(error, PipelineFailedError) else report_of(error) is not None


def _kept_with(error: Exception) -> dict[str, Any]:
    """What goes with an error to another process: its notes and its report."""
    return {name: value for name, value in vars(error).items() if name in ("__notes__", ATTRIBUTE)}

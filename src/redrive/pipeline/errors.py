"""What a pipeline raises.

Exception
├── ValueError
│   └── PipelineError    a pipeline that cannot be meant, found when it is built
├── PipelineFailed       a stage failed for good; carries the results there are
└── ResultRejected
    └── StageReported    a stage returned StageOutput.fail or StageOutput.retry
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from redrive.failures.signals import ResultRejected
from redrive.pipeline.output import StageOutput
from redrive.pipeline.shown import message_of
from redrive.retry.report import report_of

if TYPE_CHECKING:
    from redrive.pipeline.results import PipelineResult


class PipelineError(ValueError):
    """A pipeline that cannot be meant: says which stage, what is wrong and what to write instead."""


class StageReported(ResultRejected):
    """The stage itself said that it failed, or asked for a retry, by what it returned."""

    def __init__(self, output: StageOutput) -> None:
        super().__init__(output)
        self.args = (output.error,)

    @property
    def output(self) -> StageOutput:
        output: StageOutput = self.result
        return output


class PipelineFailed(Exception):
    """A stage failed for good. What was done until then is in `results`."""

    def __init__(
        self,
        results: "PipelineResult",
        failures: Mapping[str, Exception],
        undone: tuple[str, ...] = (),
        undo_failures: Mapping[str, Exception] | None = None,
    ) -> None:
        self.results = results
        """The outputs of the stages that were done."""
        self.failures = dict(failures)
        """The error of each stage that failed, the first one first."""
        self.stage, self.error = next(iter(self.failures.items()))
        """The stage that failed first, and its error."""
        self.undone = undone
        """The stages that were undone, in the order in which that happened: newest first."""
        self.undo_failures = dict(undo_failures or {})
        """The stages whose undo failed, with its error: someone has to look at them."""
        super().__init__(self._in_one_line())

    def _in_one_line(self) -> str:
        report = report_of(self.error)
        how = "" if report is None else f" after {report.made} attempt{'s'[: report.made != 1]} ({report.gave_up.kind})"
        others = "" if len(self.failures) == 1 else f"; failed too: {', '.join(list(self.failures)[1:])}"
        left = "" if not self.undo_failures else f"; could not be undone: {', '.join(self.undo_failures)}"
        what = f"{type(self.error).__name__}: {message_of(self.error)}"
        return f"stage {self.stage!r} failed{how}: {what}{others}{left}"

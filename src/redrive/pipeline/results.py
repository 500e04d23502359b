"""`PipelineResult`: the outputs of a run's stages, and how the run ended."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from redrive.pipeline.output import StageOutput

RunStatus = Literal["completed", "failed", "cancelled"]


class PipelineResult(Mapping[str, StageOutput]):
    """The outputs of the stages that ended, by name, in the order in which they ended."""

    def __init__(
        self, run_id: str, status: RunStatus, outputs: Mapping[str, StageOutput], elapsed: float, reason: str = ""
    ) -> None:
        self.run_id = run_id
        self.status = status
        self.elapsed = elapsed
        """Seconds from the start of the run to its end."""
        self.reason = reason
        """Why the run was cancelled."""
        self._outputs = dict(outputs)

    @property
    def cancelled(self) -> bool:
        return self.status == "cancelled"

    def data(self, stage: str) -> Mapping[str, Any]:
        """Return the data of a stage: `result.data("total")["cents"]`."""
        return self._outputs[stage].data

    def __getitem__(self, stage: str) -> StageOutput:
        return self._outputs[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        return f"PipelineResult({self.status}, {len(self)} stages, {self.elapsed:.3f} s)"

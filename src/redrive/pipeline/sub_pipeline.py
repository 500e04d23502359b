"""A pipeline as a stage of another."""

from typing import TYPE_CHECKING, Any

from redrive.pipeline.context import PipelineContext, StageContext, in_round
from redrive.pipeline.output import StageOutput
from redrive.pipeline.stage import StageKind

if TYPE_CHECKING:
    from redrive.pipeline.pipeline import Pipeline


class SubPipeline:
    """Runs a pipeline as one stage. Its stages are given what this stage may read, and the run's interceptors.

    Its output has the data of each of its stages under that stage's name. When one of them fails, this stage has.
    """

    kind = StageKind.WORK

    def __init__(self, pipeline: "Pipeline") -> None:
        self.pipeline = pipeline
        self.name = pipeline.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubPipeline) and other.pipeline is self.pipeline

    def __hash__(self) -> int:
        return id(self.pipeline)

    async def execute(self, ctx: StageContext) -> StageOutput:
        from redrive.pipeline.attempt_guard import CURRENT_STAGE
        from redrive.pipeline.run import PipelineRun

        state = CURRENT_STAGE.get()
        inside = PipelineContext(
            data=self._given(ctx),
            request_id=ctx.request_id,
            pipeline_run_id=in_round(f"{ctx.pipeline_run_id}/{ctx.stage_name}", state.round),
            event_sink=ctx.event_sink,
        )
        run = PipelineRun(self.pipeline.plan_with(state.interceptors), inside, state.on_failure, state)
        # Before it begins: what is done in it is undone with the rest when it is ended half-way.
        state.inside = (*state.inside, run)
        result = await run.complete()
        if result.cancelled:
            return StageOutput.cancel(result.reason)
        return StageOutput.ok({name: output.data for name, output in result.items()})

    def _given(self, ctx: StageContext) -> dict[str, Any]:
        given = dict(ctx.data)
        for name, output in ctx.inputs.outputs.items():
            given |= output.data
            given[name] = output.data
        return given

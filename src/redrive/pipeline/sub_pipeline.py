"""A pipeline as a stage of another pipeline."""

from collections.abc import Iterable
from typing import Any, Protocol

from redrive.pipeline.context import PipelineContext, StageContext, key_for_round
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.output import StageOutput
from redrive.pipeline.plan import Plan
from redrive.pipeline.run import PipelineRun
from redrive.pipeline.stage import StageKind
from redrive.pipeline.stage_execution import CURRENT_STAGE


class Planned(Protocol):
    """A pipeline that can be planned for a set of interceptors."""

    @property
    def name(self) -> str: ...

    def plan_with(self, interceptors: Iterable[BaseInterceptor]) -> Plan: ...


class SubPipeline:
    """Runs a pipeline as one stage, with the inputs of this stage as its data and the interceptors of the run.

    The output has the data of each inner stage under its name. When an inner stage fails, this stage fails.
    """

    kind = StageKind.WORK

    def __init__(self, pipeline: Planned) -> None:
        self.pipeline = pipeline
        self.name = pipeline.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubPipeline) and other.pipeline is self.pipeline

    def __hash__(self) -> int:
        return id(self.pipeline)

    async def execute(self, ctx: StageContext) -> StageOutput:
        stage = CURRENT_STAGE.get()
        inner_context = PipelineContext(
            data=_data_for_inner_run(ctx),
            request_id=ctx.request_id,
            pipeline_run_id=key_for_round(f"{ctx.pipeline_run_id}/{ctx.stage_name}", stage.ctx.round),
            event_sink=ctx.event_sink,
        )
        plan = self.pipeline.plan_with(stage.interceptors)
        run = PipelineRun(plan, inner_context, stage.environment.on_failure, stage.ctx.feedback, nested=True)
        # Before it begins, so that a run that is stopped half-way is compensated too.
        stage.inner_runs = (*stage.inner_runs, run)
        result = await run.complete()
        if result.cancelled:
            return StageOutput.cancel(result.reason)
        return StageOutput.ok({name: output.data for name, output in result.items()})


def _data_for_inner_run(ctx: StageContext) -> dict[str, Any]:
    data = dict(ctx.data)
    for name, output in ctx.inputs.outputs.items():
        data |= output.data
        data[name] = output.data
    return data

"""How long attempts take and how they end, for whoever listens: `redrive.observability.prometheus`, say."""

from redrive.determinism.clock import current_clock
from redrive.observability.events import StageAttempted
from redrive.observability.stream import emit
from redrive.pipeline.context import PipelineContext
from redrive.pipeline.interceptors.base import ErrorAction, StatelessInterceptor
from redrive.pipeline.output import StageResult
from redrive.pipeline.stage_run import StageRun


class MetricsInterceptor(StatelessInterceptor):
    """Tells the event stream of each attempt. Retries are told in any case."""

    name = "metrics"
    priority = 40

    async def after(self, stage_name: str, result: StageResult, ctx: PipelineContext) -> None:
        emit(StageAttempted(stage=stage_name, outcome=result.status, seconds=result.ended_at - result.started_at))

    async def on_error(self, stage_name: str, error: Exception, ctx: PipelineContext) -> ErrorAction | None:
        began = ctx.began if isinstance(ctx, StageRun) else current_clock().monotonic()
        emit(StageAttempted(stage=stage_name, outcome="failed", seconds=current_clock().monotonic() - began))
        return None

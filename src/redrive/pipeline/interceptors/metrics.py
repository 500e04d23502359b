"""How long attempts take and how they end, for whoever listens: `redrive.integrations.prometheus`, say."""

from redrive.determinism.clock import current_clock
from redrive.pipeline.interceptors.base import ErrorAction, StatelessInterceptor
from redrive.pipeline.output import StageResult
from redrive.pipeline.stage_run import StageRun
from redrive.telemetry.events import StageAttempted
from redrive.telemetry.stream import emit


class MetricsInterceptor(StatelessInterceptor):
    """Tells the event stream of each attempt. Retries are told in any case."""

    name = "metrics"
    priority = 40

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        emit(StageAttempted(stage=stage_name, outcome=result.status, seconds=result.ended_at - result.started_at))

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        emit(StageAttempted(stage=stage_name, outcome="failed", seconds=current_clock().monotonic() - ctx.began))
        return None

"""Durations and outcomes of attempts, for listeners such as `redrive.integrations.prometheus`."""

from redrive.determinism.clock import current_clock
from redrive.pipeline.interceptors.base import ErrorAction, StatelessInterceptor
from redrive.pipeline.output import StageResult
from redrive.pipeline.stage_run import StageRun
from redrive.telemetry.events import StageAttempted
from redrive.telemetry.stream import emit


class MetricsInterceptor(StatelessInterceptor):
    """Emits an event for each attempt. Events about retries are emitted without it too."""

    name = "metrics"
    priority = 40

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        emit(StageAttempted(stage=stage_name, outcome=result.status, seconds=result.ended_at - result.started_at))

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        emit(
            StageAttempted(stage=stage_name, outcome="failed", seconds=current_clock().monotonic() - ctx.attempt_began)
        )
        return None

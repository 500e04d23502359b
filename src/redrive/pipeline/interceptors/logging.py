"""Log each attempt at DEBUG and the final failure at WARNING. Retries are logged without it too."""

import logging
from typing import Any

from redrive.pipeline.interceptors.base import ErrorAction, StatelessInterceptor
from redrive.pipeline.output import StageOutput, StageResult
from redrive.pipeline.redacted_text import error_text, id_text
from redrive.pipeline.stage_run import StageRun
from redrive.policies.decision import RetryAt

logger = logging.getLogger("redrive.pipeline")


class LoggingInterceptor(StatelessInterceptor):
    """Writes to the stdlib logger `redrive.pipeline`, with stage, attempt and ids as fields of the record."""

    name = "logging"
    priority = 50

    async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("stage %s: attempt %s begins", stage_name, ctx.attempt, extra=_fields(stage_name, ctx))
        return None

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            seconds = result.ended_at - result.started_at
            fields = _fields(stage_name, ctx) | {"status": result.status, "elapsed_s": round(seconds, 6)}
            logger.debug("stage %s: %s in %.3f s", stage_name, result.status, seconds, extra=fields)

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        if not isinstance(ctx.decision, RetryAt):
            text, kind = error_text(error), type(error).__name__
            fields = _fields(stage_name, ctx) | {"error": text, "error_type": kind}
            logger.warning("stage %s: failed: %s: %s", stage_name, kind, text, extra=fields)
        return None


def _fields(stage_name: str, ctx: StageRun) -> dict[str, Any]:
    return {
        "stage": stage_name,
        "attempt": ctx.attempt,
        "pipeline_run_id": id_text(ctx.pipeline_run_id),
        "request_id": id_text(ctx.request_id),
    }

"""An OpenTelemetry span for each attempt (`pip install redrive[tracing]`)."""

from importlib.util import find_spec

from redrive.pipeline.interceptors.base import ErrorAction, StatelessInterceptor
from redrive.pipeline.output import StageOutput, StageResult
from redrive.pipeline.redacted_text import error_text, id_text
from redrive.pipeline.stage_run import StageRun

_INSTALLED = find_spec("opentelemetry") is not None


class TracingInterceptor(StatelessInterceptor):
    """Creates spans named "stage NAME", current while the stage runs, so that spans of its calls are their children.

    Without OpenTelemetry, or without a tracer provider of the application, no spans are created.
    """

    name = "tracing"
    priority = 20

    def in_use(self) -> bool:
        if not _INSTALLED:
            return False
        from opentelemetry import trace

        return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
        from opentelemetry import context, trace

        span = trace.get_tracer("redrive").start_span(
            f"stage {stage_name}",
            attributes={
                "redrive.stage": stage_name,
                "redrive.attempt": ctx.attempt,
                "redrive.run_id": id_text(ctx.pipeline_run_id) or "",
            },
        )
        ctx.interceptor_state[id(self)] = span, context.attach(trace.set_span_in_context(span))
        return None

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        self._end(ctx, result.status)

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        self._end(ctx, "failed", error)
        return None

    def on_cancel(self, stage_name: str, ctx: StageRun) -> None:
        self._end(ctx, "cancelled")

    def _end(self, ctx: StageRun, outcome: str, error: Exception | None = None) -> None:
        state = ctx.interceptor_state.pop(id(self), None)
        if state is None:
            return
        from opentelemetry import context, trace

        span, token = state
        context.detach(token)
        span.set_attribute("redrive.outcome", outcome)
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
            # Not record_exception: message and traceback of an error may hold secrets.
            span.set_status(trace.Status(trace.StatusCode.ERROR, error_text(error)))
        span.end()

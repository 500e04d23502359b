"""One stage of one run, from its first attempt to its output or its last error.

attempt -> output -> `after` hooks -> done
        -> error -> classify and decide (StageCall) -> `on_error` hooks -> wait, and the next attempt
                                                                        -> fallback or error
"""

from asyncio import CancelledError
from contextvars import ContextVar
from inspect import isawaitable
from types import CoroutineType
from typing import Any

import msgspec

from redrive.calls.scope import CURRENT
from redrive.determinism.thread_cut import CutShort
from redrive.pipeline.cancellation import stage_error
from redrive.pipeline.compensation import InnerRun
from redrive.pipeline.coroutine_functions import not_awaitable
from redrive.pipeline.errors import StageReportedError
from redrive.pipeline.events import EVENT_NAMES, StageFellBack
from redrive.pipeline.hooks import Hook, Hooks, Verdict, call_after, call_on_cancel, call_on_error, set_cause
from redrive.pipeline.interceptors.base import BaseInterceptor, ErrorAction
from redrive.pipeline.output import RESULT_STATUS, StageOutput, StageResult, StageStatus, as_output
from redrive.pipeline.redacted_text import error_text
from redrive.pipeline.run_environment import RunEnvironment
from redrive.pipeline.sinks import WatchedSink, put
from redrive.pipeline.stage_call import StageCall
from redrive.pipeline.stage_run import ATTEMPT_KEY, StageRun
from redrive.policies.decision import GiveUp
from redrive.telemetry.events import FallbackUsed, StageRetryExhausted, StageRetryScheduled, StageRetrySucceeded
from redrive.telemetry.stream import emit

_FAILED = (StageStatus.FAIL, StageStatus.RETRY)


class StageExecution(msgspec.Struct, eq=False):
    """Executes one stage: makes attempts, calls the hooks around them, and retries as the policy decides."""

    ctx: StageRun
    call: StageCall
    hooks: Hooks
    interceptors: tuple[BaseInterceptor, ...]
    environment: RunEnvironment
    work_output: StageOutput | None = None
    """The output of `execute` if the stage can be compensated; not that of a fallback or an interceptor."""
    inner_runs: tuple[InnerRun, ...] = ()
    """The runs of a nested pipeline, one for each attempt."""

    async def execute(self) -> StageOutput:
        """Make attempts until one gives an output; raise the last error when the stage is given up."""
        ctx, call, hooks, environment = self.ctx, self.call, self.hooks, self.environment
        clock = environment.clock
        if ctx.spec.is_pipeline:
            CURRENT_STAGE.set(self)
        CURRENT.set(call.scope)
        try:
            while True:
                error: Exception
                verdict: Verdict | None = None
                ctx.attempt += 1
                if hooks.own_data:
                    ctx.data[ATTEMPT_KEY] = ctx.attempt - 1
                try:
                    output = await self._attempt()
                    if output.status in _FAILED:
                        error = self._reported(output)
                    else:
                        if hooks.after:
                            verdict = await call_after(hooks, self._result(output), ctx, environment)
                        call.attempt_succeeded(output)
                        if verdict is None or verdict.hook_error is None:
                            if ctx.attempt > 1:
                                self._announce_success()
                            return output
                        error = verdict.hook_error
                except CutShort:
                    error = call.cut_error()
                except BaseException as raised:  # noqa: BLE001 - stage_error re-raises what ends the run
                    error = stage_error(raised, run_is_ending=environment.stopping)
                if environment.stopping:
                    # However the stage reacts to being cancelled, it is not retried.
                    raise CancelledError from error
                failed_at = clock.monotonic()
                retry_at = None
                if verdict is None:
                    retry_at = call.attempt_failed(error)
                    ctx.failure, ctx.decision = call.failure, call.decision
                    verdict = await self._consult_interceptors(error, retrying=retry_at is not None)
                if verdict.action is not ErrorAction.RETRY:
                    return await self._give_up(verdict.hook_error or error, verdict.action, failed_at)
                if retry_at is None:
                    retry_at = call.count_extra_attempt(failed_at)
                self._announce_retry(error, verdict, retry_at - failed_at)
                await clock.asleep_until(retry_at)
        except Exception:
            raise
        except BaseException:
            call.abandon_attempt()
            call_on_cancel(hooks, ctx)
            raise
        finally:
            call.close()

    async def _attempt(self) -> StageOutput:
        """Make one attempt: `before` hooks outside the circuit breaker, permit, other `before` hooks, `execute`."""
        ctx, spec, hooks = self.ctx, self.ctx.spec, self.hooks
        name, clock = spec.name, self.environment.clock
        ctx.attempt_began = clock.monotonic()
        for hook in hooks.outside:
            if (instead := await hook(name, ctx)) is not None:
                return as_output(instead, name, _before_hook(hook))
        cut_at = self.call.begin_attempt(ctx.attempt_began)
        for hook in hooks.before:
            if (instead := await hook(name, ctx)) is not None:
                return as_output(instead, name, _before_hook(hook))
        work = spec.execute(ctx.stage_context())
        if type(work) is not CoroutineType and not isawaitable(work):
            raise not_awaitable(name, "execute")
        if cut_at is None:
            output = as_output(await work, name)
        else:
            with clock.cut_at(cut_at):
                returned = await work
            output = as_output(returned, name)
        if spec.compensate is not None and output.status is StageStatus.OK:
            self.work_output = output
        return output

    def _announce_success(self) -> None:
        event = StageRetrySucceeded(
            stage=self.ctx.stage_name,
            attempt=self.ctx.attempt,
            total_time_ms=self.call.milliseconds_until(self.environment.clock.monotonic()),
            **self.environment.ids,
        )
        emit(event)
        put(self.ctx.event_sink, event)

    async def _consult_interceptors(self, error: Exception, *, retrying: bool) -> Verdict:
        ctx = self.ctx
        sink = ctx.event_sink
        ctx.event_sink = watched = WatchedSink(sink, EVENT_NAMES[StageRetryScheduled])
        try:
            verdict = await call_on_error(self.hooks, error, ctx, self.environment, retrying=retrying)
        finally:
            ctx.event_sink = sink
        verdict.retry_announced = watched.seen
        if retrying and verdict.action is not ErrorAction.RETRY:
            # The policy's retry is not made: give back its share of the budget.
            self.call.abandon_attempt()
        return verdict

    def _announce_retry(self, error: Exception, verdict: Verdict, wait: float) -> None:
        event = StageRetryScheduled(
            stage=self.ctx.stage_name,
            attempt=self.ctx.attempt,
            delay_ms=round(wait * 1000),
            error=error_text(error),
            error_type=type(error).__name__,
            **self.environment.ids,
        )
        emit(event)
        if not verdict.retry_announced:
            put(self.ctx.event_sink, event)

    async def _give_up(self, error: Exception, action: ErrorAction, failed_at: float) -> StageOutput:
        """Announce that the retries ended, and return the fallback's output; raise `error` if there is none."""
        ctx = self.ctx
        failure: dict[str, Any] = {"stage": ctx.stage_name, "error": error_text(error)}
        failure |= {"error_type": type(error).__name__, **self.environment.ids}
        if ctx.attempt > 1:
            event = StageRetryExhausted(
                attempts=ctx.attempt,
                total_time_ms=self.call.milliseconds_until(failed_at),
                reason=ctx.decision.kind if isinstance(ctx.decision, GiveUp) else "",
                **failure,
            )
            emit(event)
            put(ctx.event_sink, event)
        fallback: Any = ctx.fallback if action is ErrorAction.FALLBACK else None
        if fallback is None:
            fallback = ctx.spec.fallback
        if fallback is None:
            raise error
        output = await self._fall_back(fallback, error)
        emit(FallbackUsed(operation=ctx.stage_name, fallback="stage"))
        put(ctx.event_sink, StageFellBack(**failure))
        return output

    async def _fall_back(self, fallback: Any, error: Exception) -> StageOutput:
        name = self.ctx.stage_name
        if callable(fallback):
            try:
                returned = fallback(self.ctx.stage_context(), error)
                if not isawaitable(returned):
                    raise not_awaitable(name, "fallback")
                fallback = await returned
            except Exception as fallback_error:
                set_cause(fallback_error, error)
                raise
        output = as_output(fallback, name, "the fallback of stage {}")
        if output.status in _FAILED:
            raise self._reported(output) from error
        return output

    def _reported(self, output: StageOutput) -> StageReportedError:
        return StageReportedError.by(output, retry_on_fail=self.ctx.spec.retry_on_fail)

    def _result(self, output: StageOutput) -> StageResult:
        ctx, clock = self.ctx, self.environment.clock
        ended = clock.wall()
        return StageResult(
            ctx.stage_name,
            RESULT_STATUS[output.status],
            ctx.attempt,
            ended - (clock.monotonic() - ctx.attempt_began),
            ended,
            output.data,
        )


CURRENT_STAGE: ContextVar[StageExecution] = ContextVar("redrive_stage")
"""The stage that a nested pipeline is: the pipeline finds the run around it here."""


def _before_hook(hook: Hook) -> str:
    return f"{type(getattr(hook, '__self__', hook)).__name__}.before, called for stage {{}},"

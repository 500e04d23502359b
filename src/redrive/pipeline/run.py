"""One run of a pipeline: starts each stage when it is ready, and decides how the run ends."""

import asyncio
import contextvars
import itertools
from contextlib import suppress
from typing import Any

import msgspec

from redrive.calls.scope import CURRENT, owner_of
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.failures.redaction import redact
from redrive.pipeline.await_in_context import AwaitInContext
from redrive.pipeline.cancellation import absorb_cancel_requests, stage_error
from redrive.pipeline.compensation import Compensable, CompensationReport, compensate_stages
from redrive.pipeline.context import Feedback, PipelineContext, StageInputs
from redrive.pipeline.errors import PipelineFailedError, StageReportedError
from redrive.pipeline.events import (
    GuardRetryEnded,
    GuardRetryScheduled,
    RunEnded,
    RunStarted,
    StageCancelled,
    StageCompleted,
    StageFailed,
    StageSkipped,
    StageStarted,
)
from redrive.pipeline.guard_retry import GuardRounds
from redrive.pipeline.output import StageOutput, StageStatus, reason_text
from redrive.pipeline.plan import Plan
from redrive.pipeline.redacted_text import error_text, id_text
from redrive.pipeline.results import PipelineResult, RunStatus
from redrive.pipeline.run_environment import OnFailure, RunEnvironment
from redrive.pipeline.schedule import Schedule
from redrive.pipeline.sinks import NO_SINK, put
from redrive.pipeline.stage_call import StageCall
from redrive.pipeline.stage_execution import StageExecution
from redrive.pipeline.stage_run import StageRun

# Stages that never await must not starve the event loop: after so many, the next one gets a task of its own.
MAX_STAGES_IN_A_ROW = 16


class PipelineRun:
    """The state of one run. Each stage runs in a copy of the context in which the run began."""

    def __init__(
        self,
        plan: Plan,
        context: PipelineContext,
        on_failure: OnFailure = "fail_fast",
        feedback: tuple[Feedback, ...] = (),
        *,
        nested: bool = False,
    ) -> None:
        """
        feedback: of guards in the outer run, for all stages.
        nested: the run is a stage of another run.
        """
        self._plan = plan
        self._layout = plan.layout
        self._hooks = plan.current_hooks()
        self._context = context
        self._clock = current_clock()
        self._ids = {
            "pipeline_run_id": id_text(context.pipeline_run_id),
            "request_id": id_text(context.request_id),
        }
        outer = CURRENT.get()
        self._environment = RunEnvironment(
            self._clock, current_dice(), outer, owner_of(outer) is None, on_failure, self._ids
        )
        self._began = self._clock.monotonic()
        self._schedule = Schedule(plan.layout)
        self._outputs = self._schedule.outputs
        self._skipped: set[str] = set()
        self._feedback = feedback
        self._guards = GuardRounds(feedback)
        self._failures: dict[str, Exception] = {}
        self._done: list[Compensable] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._nested = nested
        self._compensated_before_stop: list[str] = []
        self._cancelled: str | None = None
        self._fatal: BaseException | None = None

    async def complete(self) -> PipelineResult:
        """Run to the end; raise PipelineFailedError if a stage fails.

        A BaseException of a stage that is not an Exception ends the program or the task: it is raised as it is, and
        nothing is compensated.
        """
        self._loop = asyncio.get_running_loop()
        self._base = contextvars.copy_context()
        self._finished: asyncio.Future[None] = self._loop.create_future()
        context = self._context
        context._cancel = self._cancel
        if context._cancelled_early is not None:
            self._cancel(context._cancelled_early)
            context._cancelled_early = None
        if context.event_sink is not NO_SINK:
            self._put(RunStarted(stages=len(self._layout.specs), **self._ids))
        status: RunStatus = "cancelled"
        try:
            self._start_ready()
            await self._finished
            await self._stop()
            if self._fatal is not None:
                raise self._fatal
            status = "failed" if self._failures else "cancelled" if self._cancelled is not None else "completed"
            if status == "failed":
                await self._fail()
            if status == "completed" and len(self._outputs) < len(self._layout.specs):
                left = [name for name in self._layout.specs if name not in self._outputs]
                raise RuntimeError(f"the run ended without {', '.join(left[:20])}; please report it as a bug")
            return self._result(status)
        except BaseException as error:
            if error is self._fatal:
                status = "failed"
            if isinstance(error, GeneratorExit) and error is not self._fatal:
                # This coroutine is being closed from outside, and must not await any more.
                self._cancel_stages()
            else:
                await self._stop()
            raise
        finally:
            context._cancel = None
            reason = redact(self._cancelled or "")
            self._put(RunEnded(status=status, total_time_ms=self._milliseconds(), reason=reason, **self._ids))

    async def compensate(self, report: CompensationReport, path: str = "") -> None:
        """Compensate the stages of this run that succeeded, newest first."""
        report.compensated += [path + name for name in self._compensated_before_stop]
        await compensate_stages(self._done, self._plan.retriers, self._ids, report, path)

    async def _fail(self) -> None:
        report = CompensationReport(outer_run_resumes=self._nested)
        await self.compensate(report)
        failed = PipelineFailedError(self._result("failed"), self._failures, tuple(report.compensated), report.failures)
        if report.raised is not None:
            self._compensated_before_stop = report.compensated
            raise report.raised from failed
        raise failed from failed.error

    def _start_ready(self, task: "asyncio.Task[None] | None" = None) -> str | None:
        """Start the stages that are ready, and finish the run when nothing is left to wait for.

        The first one is returned instead of started if there is a `task` that can go on with it.
        """
        following = None
        ready = self._schedule.ready
        while ready and not self._environment.stopping:
            name = ready.popleft()
            dependencies = self._layout.specs[name].dependencies
            if self._skipped and dependencies and self._skipped.issuperset(dependencies):
                self._stage_ended(name, StageOutput.skip("all its dependencies were skipped"))
            elif task is not None and following is None:
                following, self._tasks[name] = name, task
            else:
                self._tasks[name] = self._loop.create_task(self._run_stages(name))
        if self._environment.stopping or not self._tasks:
            self._finish()
        return following

    def _finish(self) -> None:
        if not self._finished.done():
            self._finished.set_result(None)

    async def _run_stages(self, name: str) -> None:
        """Run a stage, and then those that become ready one after the other."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - narrows for mypy: this runs in a task
        try:
            for turn in itertools.count(1):
                try:
                    output = await AwaitInContext(self._run_stage(name), self._base.copy())
                except Exception as error:  # noqa: BLE001 - whatever fails the stage is kept with the run
                    self._stage_failed(name, error)
                else:
                    self._stage_ended(name, output)
                del self._tasks[name]
                if task.cancelling() and not self._environment.stopping:
                    await absorb_cancel_requests()
                following = self._start_ready(task if turn < MAX_STAGES_IN_A_ROW else None)
                if following is None:
                    return
                name = following
        except asyncio.CancelledError:
            raise
        except BaseException as fatal:  # noqa: BLE001 - raised by `complete`, which must not wait for ever
            self._fatal = self._fatal or fatal
            self._environment.stopping = True
            if not self._loop.is_closed():
                self._finish()

    async def _run_stage(self, name: str) -> StageOutput:
        plan, context, hooks, outputs = self._plan, self._context, self._hooks, self._outputs
        spec, has_guards = self._layout.specs[name], self._layout.repeated_by
        ctx = StageRun(
            context,
            spec,
            StageInputs(name, {one: outputs[one] for one in spec.dependencies}, context.data),
            self._guards.feedback_for(name) if has_guards else self._feedback,
            self._schedule.repeats(name) if has_guards else 0,
            own_data=hooks.own_data,
        )
        retrier = plan.retriers[name]
        call = StageCall(retrier, self._environment, [retrier, 0.0])
        execution = StageExecution(ctx, call, hooks, plan.interceptors, self._environment)
        observed = context.event_sink is not NO_SINK
        began = self._clock.monotonic() if observed else 0.0
        try:
            if spec.when is not None and not spec.is_wanted(ctx.stage_context()):
                return StageOutput.skip("its condition does not hold")
            if observed:
                self._put(StageStarted(stage=name, **self._ids))
            output = await execution.execute()
        except BaseException as raised:
            error = self._report_error(raised, ctx, began)
            if error is raised:
                raise
            raise error from raised
        finally:
            if execution.work_output is not None or execution.inner_runs:
                self._done.append(Compensable(ctx, execution.work_output, execution.inner_runs))
        if observed and output.status is StageStatus.OK:
            milliseconds = self._milliseconds(began)
            self._put(StageCompleted(stage=name, attempts=ctx.attempt, total_time_ms=milliseconds, **self._ids))
        return output

    def _report_error(self, raised: BaseException, ctx: StageRun, began: float) -> BaseException:
        """Tell the sink about the error of a stage, and return it."""
        fields: dict[str, Any] = {"stage": ctx.stage_name, "attempts": ctx.attempt, **self._ids}
        fields["total_time_ms"] = self._milliseconds(began)
        try:
            error: BaseException = stage_error(raised, run_is_ending=self._environment.stopping)
        except asyncio.CancelledError as cancelled:
            self._put(StageCancelled(**fields))
            return cancelled
        except BaseException as fatal:  # noqa: BLE001 - returned, and raised by the caller
            error = fatal
        self._put(StageFailed(error=error_text(error), error_type=type(error).__name__, **fields))
        return error

    def _stage_ended(self, name: str, output: StageOutput) -> None:
        self._outputs[name] = output
        if output.status is StageStatus.SKIP:
            self._skipped.add(name)
            self._put(StageSkipped(stage=name, reason=redact(reason_text(output.error)), **self._ids))
        if self._environment.stopping:
            # The stage ignored its cancellation; no other stage follows.
            return
        if output.status is StageStatus.CANCEL:
            self._cancel(reason_text(output.error))
            return
        self._schedule.release_followers(name)

    def _stage_failed(self, name: str, error: Exception) -> None:
        if self._environment.stopping or self._sent_back(name, error):
            return
        self._failures[name] = error
        self._environment.stopping = self._environment.on_failure == "fail_fast"

    def _sent_back(self, name: str, error: Exception) -> bool:
        """Whether the stage is a guard that sends another stage back."""
        settings = self._layout.specs[name].guard_retry
        if settings is None or not isinstance(error, StageReportedError):
            return False
        sent_back = settings.stage
        fields: dict[str, Any] = {"guard": name, "stage": sent_back, **self._ids}
        rejected, now = self._outputs[sent_back].data, self._clock.monotonic()
        rounds, end = self._guards.start_another(name, settings, error, rejected, now)
        if end is not None:
            self._put(GuardRetryEnded(rounds=rounds, reason=end, **fields))
            return False
        self._put(GuardRetryScheduled(round=rounds, error=error_text(error), **fields))
        self._schedule.repeat(name, sent_back)
        self._skipped.intersection_update(self._outputs)
        return True

    def _cancel(self, reason: str) -> None:
        """End the run; may be called from any thread."""
        if self._cancelled is None:
            self._cancelled = reason
        self._environment.stopping = True
        # A closed loop has no run left to end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    async def _stop(self) -> None:
        """Cancel the running stages, and wait until they have ended."""
        running = self._cancel_stages()
        while pending := [task for task in running if not task.done()]:
            await asyncio.wait(pending)

    def _cancel_stages(self) -> "list[asyncio.Task[None]]":
        self._environment.stopping = True
        running = list(self._tasks.values())
        if not self._loop.is_closed():
            for task in running:
                task.cancel()
        return running

    def _result(self, status: RunStatus) -> PipelineResult:
        elapsed = self._clock.monotonic() - self._began
        run_id = str(self._context.pipeline_run_id)
        return PipelineResult(run_id, status, self._outputs, elapsed, self._cancelled or "")

    def _milliseconds(self, since: float | None = None) -> int:
        return round((self._clock.monotonic() - (self._began if since is None else since)) * 1000)

    def _put(self, event: msgspec.Struct) -> None:
        put(self._context.event_sink, event)

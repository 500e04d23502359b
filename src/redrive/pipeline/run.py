"""One run of a pipeline: starts each stage when what it waits for is done, and settles how the run ends."""

import asyncio
import contextvars
import itertools
from collections import deque
from contextlib import suppress
from typing import Any

import msgspec

from redrive.calls.scope import CURRENT, owner_of
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.failures.redaction import redact
from redrive.pipeline.attempt_loop import carry_out
from redrive.pipeline.cancellation import failure_in, let_cancels_pass
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
from redrive.pipeline.guard_retry import Rounds
from redrive.pipeline.output import StageOutput, StageStatus, reason_text
from redrive.pipeline.own_context import InContext
from redrive.pipeline.plan import Plan
from redrive.pipeline.results import PipelineResult, RunStatus
from redrive.pipeline.shown import message_of, text_of
from redrive.pipeline.sinks import NO_SINK, put
from redrive.pipeline.stage_run import OnFailure, StageRun, Surroundings
from redrive.pipeline.undo import Done, Undone, undo_stages

# Stages that never wait must not keep the event loop from everything else.
MOST_STAGES_IN_A_ROW = 16


class PipelineRun:
    """The state of one run. Each stage runs in a copy of the context in which the run began."""

    def __init__(
        self,
        plan: Plan,
        context: PipelineContext,
        on_failure: OnFailure = "fail_fast",
        around: StageRun | None = None,
    ) -> None:
        """`around`: the stage of another run that this one is."""
        self._plan = plan
        self._layout = plan.layout
        self._hooks = plan.hooks_now()
        self._context = context
        self._clock = current_clock()
        outer = CURRENT.get()
        alone = owner_of(outer) is None
        self._around = Surroundings(self._clock, current_dice(), outer, alone, on_failure)
        self._began = self._clock.monotonic()
        self._waits = {name: len(others) for name, others in plan.layout.waits.items() if others}
        self._outputs: dict[str, StageOutput] = {}
        self._failures: dict[str, Exception] = {}
        self._done: list[Done] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ready: deque[str] = deque(plan.layout.roots)
        self._rounds: dict[str, Rounds] = {}
        self._told = () if around is None else around.feedback
        self._is_inside = around is not None
        self._undone_until_it_was_ended: list[str] = []
        self._feedback: dict[str, tuple[Feedback, ...]] = {}
        self._redone: dict[str, int] = {}
        self._cancelled: str | None = None
        self._broken: BaseException | None = None
        self._ids = {
            "pipeline_run_id": text_of(context.pipeline_run_id),
            "request_id": text_of(context.request_id),
        }

    async def complete(self) -> PipelineResult:
        """Run to the end; PipelineFailedError when a stage fails for good.

        What a stage raises that is no Exception ends the program or the task: it goes through, and nothing is undone.
        """
        self._loop = asyncio.get_running_loop()
        self._base = contextvars.copy_context()
        self._finished: asyncio.Future[None] = self._loop.create_future()
        context = self._context
        context._cancel = self._cancel
        if context._cancelled_early is not None:
            self._cancel(context._cancelled_early)
            context._cancelled_early = None
        if self._context.event_sink is not NO_SINK:
            self._put(RunStarted(stages=len(self._layout.specs), **self._ids))
        status: RunStatus = "cancelled"
        try:
            self._go_on()
            await self._finished
            await self._stop()
            if self._broken is not None:
                raise self._broken
            status = "failed" if self._failures else "cancelled" if self._cancelled is not None else "completed"
            if status == "completed" and len(self._outputs) < len(self._layout.specs):
                left = [name for name in self._layout.specs if name not in self._outputs]
                raise RuntimeError(f"the run ended without {', '.join(left[:20])}; please report it as a bug")
            if status == "failed":
                went = Undone(goes_on=self._is_inside)
                await self.undo_all(went)
                failed = PipelineFailedError(self._result(status), self._failures, tuple(went.stages), went.failures)
                if went.raised is not None:
                    self._undone_until_it_was_ended = went.stages
                    raise went.raised from failed
                raise failed from failed.error
            return self._result(status)
        except BaseException as error:
            if error is self._broken:
                status = "failed"
            if isinstance(error, GeneratorExit) and error is not self._broken:
                # From outside: this coroutine is being closed, and must not wait any more.
                self._cancel_stages()
            else:
                await self._stop()
            raise
        finally:
            context._cancel = None
            reason = redact(self._cancelled or "")
            self._put(RunEnded(status=status, total_time_ms=self._milliseconds(), reason=reason, **self._ids))

    async def undo_all(self, went: Undone, within: str = "") -> None:
        """Take back what was done, newest first."""
        went.stages += [within + name for name in self._undone_until_it_was_ended]
        await undo_stages(self._done, self._plan.guards, self._ids, went, within)

    def _go_on(self, here: "asyncio.Task[None] | None" = None) -> str | None:
        """Start what is ready; end the run when nothing is left to wait for.

        The first stage that is ready is returned instead of started, to go on with `here`, the task that asks.
        """
        next_here = None
        while self._ready and not self._around.stopping:
            name = self._ready.popleft()
            dependencies = self._layout.specs[name].dependencies
            if dependencies and all(self._outputs[one].status is StageStatus.SKIP for one in dependencies):
                self._settled(name, StageOutput.skip("all that it depends on was skipped"))
            elif here is not None and next_here is None:
                next_here, self._tasks[name] = name, here
            else:
                self._tasks[name] = self._loop.create_task(self._work(name))
        if self._around.stopping or not self._tasks:
            self._finish()
        return next_here

    def _finish(self) -> None:
        if not self._finished.done():
            self._finished.set_result(None)

    async def _work(self, name: str) -> None:
        """Carry out a stage, and go on with one that was waiting for it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - narrows for mypy: this runs in a task
        try:
            for turn in itertools.count(1):
                try:
                    output = await InContext(self._stage(name), self._base.copy())
                except Exception as error:  # noqa: BLE001 - whatever fails the stage is kept with the run
                    self._failed(name, error)
                else:
                    self._settled(name, output)
                del self._tasks[name]
                if task.cancelling() and not self._around.stopping:
                    await let_cancels_pass()
                following = self._go_on(task if turn < MOST_STAGES_IN_A_ROW else None)
                if following is None:
                    return
                name = following
        except asyncio.CancelledError:
            raise
        except BaseException as broken:  # noqa: BLE001 - handed to whoever awaits the run, which must not hang
            self._broken = self._broken or broken
            self._around.stopping = True
            if not self._loop.is_closed():
                self._finish()

    async def _stage(self, name: str) -> StageOutput:
        plan, context = self._plan, self._context
        spec, hooks = self._layout.specs[name], self._hooks
        outputs = self._outputs
        state = StageRun(
            context,
            spec,
            StageInputs(name, {one: outputs[one] for one in spec.dependencies}, context.data),
            plan.guards[name],
            self._around,
            self._feedback.get(name, self._told),
            plan.interceptors,
            hooks.own_data,
            self._redone.get(name, 0),
        )
        told = context.event_sink is not NO_SINK
        began = self._clock.monotonic()
        try:
            if spec.when is not None and not spec.is_wanted(state.stage_context()):
                return StageOutput.skip("its condition does not hold")
            if told:
                self._put(StageStarted(stage=name, **self._ids))
            output = await carry_out(state, spec, hooks, self._clock)
        except BaseException as raised:
            error = self._why_it_failed(raised, state, began)
            if error is raised:
                raise
            raise error from raised
        finally:
            if state.done is not None or state.inside:
                self._done.append((spec, state, state.done))
        if told and output.status is StageStatus.OK:
            milliseconds = self._milliseconds(began)
            self._put(StageCompleted(stage=name, attempts=state.attempt, total_time_ms=milliseconds, **self._ids))
        return output

    def _why_it_failed(self, raised: BaseException, state: StageRun, began: float) -> BaseException:
        """The error of a stage that gave no output, told to the sink."""
        how: dict[str, Any] = {"stage": state.stage_name, "attempts": state.attempt, **self._ids}
        how["total_time_ms"] = self._milliseconds(began)
        try:
            error: BaseException = failure_in(raised, state)
        except asyncio.CancelledError as cancelled:
            self._put(StageCancelled(**how))
            return cancelled
        except BaseException as ends:  # noqa: BLE001 - it is told, and raised
            error = ends
        self._put(StageFailed(error=message_of(error), error_type=type(error).__name__, **how))
        return error

    def _settled(self, name: str, output: StageOutput) -> None:
        """The stage has its output: those that wait for nothing else any more are ready."""
        self._outputs[name] = output
        if output.status is StageStatus.SKIP:
            self._put(StageSkipped(stage=name, reason=redact(reason_text(output.error)), **self._ids))
        if self._around.stopping:
            # It took no notice of being cancelled; nothing follows from it.
            return
        if output.status is StageStatus.CANCEL:
            self._cancel(reason_text(output.error))
            return
        waits = self._waits
        for follower in self._layout.followers[name]:
            waits[follower] -= 1
            if not waits[follower]:
                self._ready.append(follower)

    def _failed(self, name: str, error: Exception) -> None:
        if self._around.stopping or self._sent_back(name, error):
            return
        self._failures[name] = error
        self._around.stopping = self._around.on_failure == "fail_fast"

    def _sent_back(self, name: str, error: Exception) -> bool:
        """Whether a guard that failed has a stage work again."""
        settings = self._layout.specs[name].guard_retry
        if settings is None or not isinstance(error, StageReportedError):
            return False
        rounds = self._rounds.setdefault(name, Rounds(settings))
        rejected = self._outputs[settings.stage].data
        over = rounds.another(rejected, self._clock.monotonic())
        if over is not None:
            self._put(GuardRetryEnded(rounds=rounds.count, reason=over, guard=name, stage=settings.stage, **self._ids))
            return False
        said = Feedback(name, error.output.error, error.output.data, rejected, rounds.count)
        self._feedback[settings.stage] = (*self._feedback.get(settings.stage, self._told), said)
        self._put(
            GuardRetryScheduled(
                round=rounds.count, error=message_of(error), guard=name, stage=settings.stage, **self._ids
            )
        )
        redone = self._layout.redone[name]
        for one in redone:
            if self._outputs.pop(one, None) is not None:
                for follower in self._layout.followers[one]:
                    self._waits[follower] += 1
        for one in redone:
            self._redone[one] = self._redone.get(one, 0) + 1
            self._waits[one] = sum(other in redone for other in self._layout.waits[one])
        self._ready.append(settings.stage)
        return True

    def _cancel(self, reason: str) -> None:
        """End the run; from any thread."""
        if self._cancelled is None:
            self._cancelled = reason
        self._around.stopping = True
        # A loop that is closed has no run to end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    async def _stop(self) -> None:
        """End what still runs, and wait until it has ended."""
        running = self._cancel_stages()
        while pending := [task for task in running if not task.done()]:
            await asyncio.wait(pending)

    def _cancel_stages(self) -> "list[asyncio.Task[None]]":
        self._around.stopping = True
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

    def __repr__(self) -> str:
        waiting: Any = len(self._layout.specs) - len(self._outputs)
        return f"PipelineRun({self._context.pipeline_run_id}, {waiting} of {len(self._layout.specs)} stages to go)"

"""One run of a pipeline: starts each stage when what it waits for is done, and settles how the run ends."""

import asyncio
import contextvars
import itertools
from collections import deque
from typing import Any, Literal

import msgspec

from redrive.calls.scope import CURRENT, owner_of
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.failures.signals import Permanent
from redrive.pipeline import undo
from redrive.pipeline.attempt_loop import carry_out
from redrive.pipeline.context import Feedback, PipelineContext, StageInputs
from redrive.pipeline.errors import PipelineFailed, StageReported
from redrive.pipeline.events import (
    GuardRetryEnded,
    GuardRetryScheduled,
    RunEnded,
    RunStarted,
    StageCompleted,
    StageFailed,
    StageSkipped,
    StageStarted,
)
from redrive.pipeline.guard_retry import Rounds
from redrive.pipeline.output import StageOutput, StageStatus
from redrive.pipeline.own_context import InContext
from redrive.pipeline.plan import Plan
from redrive.pipeline.results import PipelineResult, RunStatus
from redrive.pipeline.shown import message_of, text_of
from redrive.pipeline.sinks import NO_SINK, put
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import StageRun, Surroundings

# Stages that never wait must not keep the event loop from everything else.
MOST_STAGES_IN_A_ROW = 16

OnFailure = Literal["fail_fast", "continue"]


class PipelineRun:
    """The state of one run. Each stage runs in a copy of the context in which the run began."""

    def __init__(self, plan: Plan, context: PipelineContext, on_failure: OnFailure = "fail_fast") -> None:
        self._plan = plan
        self._layout = plan.layout
        self._hooks = plan.hooks_now()
        self._context = context
        self._fails_fast = on_failure == "fail_fast"
        self._clock = current_clock()
        outer = CURRENT.get()
        self._around = Surroundings(self._clock, current_dice(), outer, alone=owner_of(outer) is None)
        self._began = self._clock.monotonic()
        self._waits = {name: len(others) for name, others in plan.layout.waits.items() if others}
        self._outputs: dict[str, StageOutput] = {}
        self._failures: dict[str, Exception] = {}
        self._done: list[tuple[StageSpec, StageRun, StageOutput]] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ready: deque[str] = deque(plan.layout.roots)
        self._rounds: dict[str, Rounds] = {}
        self._feedback: dict[str, tuple[Feedback, ...]] = {}
        self._cancelled: str | None = None
        self._ids = {
            "pipeline_run_id": text_of(context.pipeline_run_id),
            "request_id": text_of(context.request_id),
        }

    async def complete(self) -> PipelineResult:
        """Run to the end; PipelineFailed when a stage fails for good."""
        self._loop = asyncio.get_running_loop()
        self._base = contextvars.copy_context()
        self._finished: asyncio.Future[None] = self._loop.create_future()
        self._context._cancel = self._cancel
        if self._context.event_sink is not NO_SINK:
            self._put(RunStarted(stages=len(self._layout.specs), **self._ids))
        status: RunStatus = "cancelled"
        try:
            self._go_on()
            await self._finished
            await self._stop()
            status = "failed" if self._failures else "cancelled" if self._cancelled is not None else "completed"
            if status == "completed" and len(self._outputs) < len(self._layout.specs):
                left = [name for name in self._layout.specs if name not in self._outputs]
                raise RuntimeError(f"the run ended without {', '.join(left[:20])}; please report it as a bug")
            if status == "failed":
                undone = await self.undo_all()
                failed = PipelineFailed(self._result(status), self._failures, *undone)
                raise failed from failed.error
            return self._result(status)
        except BaseException:
            await self._stop()
            raise
        finally:
            self._context._cancel = None
            self._put(
                RunEnded(status=status, total_time_ms=self._milliseconds(), reason=self._cancelled or "", **self._ids)
            )

    async def undo_all(self) -> tuple[tuple[str, ...], dict[str, Exception]]:
        """Take back what was done, newest first: which stages were, and of which the undo failed."""
        done, self._done = self._done, []
        return await undo.undo_stages(done, self._plan.guards, self._ids)

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
        if (self._around.stopping or not self._tasks) and not self._finished.done():
            self._finished.set_result(None)
        return next_here

    async def _work(self, name: str) -> None:
        """Carry out a stage, and go on with one that was waiting for it."""
        try:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - narrows for mypy: this runs in a task
            for turn in itertools.count(1):
                try:
                    output = await InContext(self._stage(name), self._base.copy())
                except Exception as error:  # noqa: BLE001 - whatever fails the stage is kept with the run
                    self._failed(name, error)
                except asyncio.CancelledError:
                    if self._around.stopping:
                        raise
                    # Not by us: the work awaited something that was cancelled, or cancelled itself.
                    while task.cancelling():
                        task.uncancel()
                    self._failed(name, Permanent("what the stage waited for was cancelled"))
                else:
                    self._settled(name, output)
                del self._tasks[name]
                following = self._go_on(task if turn < MOST_STAGES_IN_A_ROW else None)
                if following is None:
                    return
                name = following
        except Exception as broken:  # noqa: BLE001 - a run whose own bookkeeping is broken must not hang
            if not self._finished.done():
                self._finished.set_exception(broken)

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
            self._feedback.get(name, ()),
            plan.interceptors,
            hooks.own_data,
        )
        if spec.when is not None and not spec.when(state.stage_context()):
            return StageOutput.skip("its condition does not hold")
        told = context.event_sink is not NO_SINK
        if told:
            self._put(StageStarted(stage=name, **self._ids))
        began = self._clock.monotonic()
        try:
            output = await carry_out(state, spec, hooks, self._clock)
        except Exception as error:
            self._put(
                StageFailed(
                    stage=name,
                    attempts=state.attempt,
                    total_time_ms=self._milliseconds(began),
                    error=message_of(error),
                    error_type=type(error).__name__,
                    **self._ids,
                )
            )
            raise
        if self._around.stopping:
            # It took no notice of being cancelled; nothing follows from it.
            return output
        if output.status is StageStatus.OK:
            if state.did_it and (spec.undo is not None or state.undo is not None):
                self._done.append((spec, state, output))
            if told:
                milliseconds = self._milliseconds(began)
                self._put(StageCompleted(stage=name, attempts=state.attempt, total_time_ms=milliseconds, **self._ids))
        return output

    def _settled(self, name: str, output: StageOutput) -> None:
        """The stage has its output: those that wait for nothing else any more are ready."""
        if self._around.stopping:
            return
        self._outputs[name] = output
        if output.status is StageStatus.CANCEL:
            self._cancel(output.error)
            return
        if output.status is StageStatus.SKIP:
            self._put(StageSkipped(stage=name, reason=output.error, **self._ids))
        waits = self._waits
        for follower in self._layout.followers[name]:
            waits[follower] -= 1
            if not waits[follower]:
                self._ready.append(follower)

    def _failed(self, name: str, error: Exception) -> None:
        if self._around.stopping or self._sent_back(name, error):
            return
        self._failures[name] = error
        self._around.stopping = self._fails_fast

    def _sent_back(self, name: str, error: Exception) -> bool:
        """Whether a guard that failed has a stage work again."""
        settings = self._layout.specs[name].guard_retry
        if settings is None or not isinstance(error, StageReported):
            return False
        rounds = self._rounds.setdefault(name, Rounds(settings))
        rejected = self._outputs[settings.stage].data
        over = rounds.another(rejected, self._clock.monotonic())
        if over is not None:
            self._put(GuardRetryEnded(rounds=rounds.count, reason=over, guard=name, stage=settings.stage, **self._ids))
            return False
        said = Feedback(name, error.output.error, error.output.data, rejected, rounds.count)
        self._feedback[settings.stage] = (*self._feedback.get(settings.stage, ()), said)
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
            self._waits[one] = sum(other in redone for other in self._layout.waits[one])
        self._ready.append(settings.stage)
        return True

    def _cancel(self, reason: str) -> None:
        self._cancelled = reason
        self._around.stopping = True
        if not self._finished.done():
            self._finished.set_result(None)

    async def _stop(self) -> None:
        """End what still runs, and wait until it has ended."""
        self._around.stopping = True
        running = list(self._tasks.values())
        for task in running:
            task.cancel()
        while pending := [task for task in running if not task.done()]:
            await asyncio.wait(pending)

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

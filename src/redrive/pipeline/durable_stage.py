"""A stage as the action of a step: one attempt at it, inside a flow."""

from inspect import isawaitable
from typing import Any

import msgspec

from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, owner_of
from redrive.determinism.clock import current_clock
from redrive.errors import Permanent
from redrive.failures.redaction import redact
from redrive.flows.action import Action
from redrive.flows.graph_driver import GraphCancelled
from redrive.flows.values import Signature
from redrive.pipeline.attempt_guard import failure_of_output
from redrive.pipeline.attempt_loop import not_awaitable
from redrive.pipeline.context import Feedback, StageContext, StageInputs
from redrive.pipeline.errors import StageReportedError
from redrive.pipeline.output import StageOutput, StageStatus, as_output
from redrive.pipeline.shown import message_of
from redrive.pipeline.sinks import NO_SINK, EventSink
from redrive.pipeline.stage import StageSpec, Undo
from redrive.runners.attempt import Attempt, current_attempt

DATA = "data"
REQUEST_ID = "request_id"
"""What a flow of a pipeline is given, beside what its stages give."""

Given = dict[str, Any]
"""What the run was given, and what each dependency gave: null where it was skipped."""


class StageAction(Action[..., Any]):
    """Takes what its step is given by the names of stages, which need not be names of parameters."""

    def __init__(self, function: Any, name: str, spec: StageSpec, guard: Retrier) -> None:
        # The same for one name: the pipelines themselves are told apart before, and other actions by this.
        function.__qualname__ = name
        super().__init__(function, name, guard.policy, "loop")
        self.signature = _ByStage(function, f"stage {spec.name!r}")


class _ByStage(Signature):
    annotated = False

    def read_arguments(self, encoded: str) -> dict[str, Any]:
        return super().read_arguments(f'{{"given":{encoded}}}')


def stage_action(name: str, spec: StageSpec, guard: Retrier) -> StageAction:
    async def work(given: Given) -> dict[str, Any] | None:
        attempt = current_attempt()
        # As in process: where the stage retries nothing by itself, guarded calls inside it do.
        owner_of(CURRENT.get()).owns_retries = guard.owns_retries
        output = await _attempt(spec, _context(spec, given, attempt))
        if output.status is StageStatus.OK:
            return dict(output.data)
        if output.status is StageStatus.SKIP:
            return None
        if output.status is StageStatus.CANCEL:
            raise GraphCancelled(redact(output.error) or "the stage cancels the run")
        raise StageReportedError(output, failure_of_output(output, current_clock().wall(), spec.retry_on_fail))

    return StageAction(work, name, spec, guard)


def undo_action(name: str, spec: StageSpec, undo: Undo, guard: Retrier) -> StageAction:
    async def take_back(given: Given) -> None:
        done = given[spec.name]
        if done is None:
            # It was skipped.
            return
        work = undo(_context(spec, given, current_attempt()), StageOutput.ok(done))
        if not isawaitable(work):
            raise not_awaitable(spec.name, "undo")
        await work

    return StageAction(take_back, name, spec, guard)


async def _attempt(spec: StageSpec, ctx: StageContext) -> StageOutput:
    outputs = ctx.inputs.outputs.values()
    if outputs and all(one.status is StageStatus.SKIP for one in outputs):
        return StageOutput.skip("all that it depends on was skipped")
    if not _is_wanted(spec, ctx):
        return StageOutput.skip("its condition does not hold")
    work = spec.execute(ctx)
    if not isawaitable(work):
        raise not_awaitable(spec.name, "execute")
    return as_output(await work, spec.name)


def _is_wanted(spec: StageSpec, ctx: StageContext) -> bool:
    try:
        return spec.when is None or bool(spec.when(ctx))
    except Exception as error:
        # As in process: a condition is not tried again.
        said = f"{type(error).__name__}: {message_of(error)}"
        raise Permanent(f"stage {spec.name!r}: its condition (when) failed: {said}") from error


class _Flow(msgspec.Struct, frozen=True):
    """The flow, as a stage of it sees it."""

    stage_name: str
    pipeline_run_id: str
    request_id: Any
    given: dict[str, Any]
    event_sink: EventSink = NO_SINK
    feedback: tuple[Feedback, ...] = ()


def _context(spec: StageSpec, given: Given, attempt: Attempt) -> StageContext:
    # What the flow was planned with: the stage may have other dependencies by now.
    names = dict.fromkeys(name for name in (*spec.dependencies, *given) if name in given)
    outputs = {name: _output(given[name]) for name in names if name not in (DATA, REQUEST_ID, spec.name)}
    flow = _Flow(spec.name, attempt.flow_id, given[REQUEST_ID], given[DATA])
    return StageContext(flow, StageInputs(spec.name, outputs, flow.given), attempt.number)


def _output(data: dict[str, Any] | None) -> StageOutput:
    return StageOutput.skip() if data is None else StageOutput.ok(data)

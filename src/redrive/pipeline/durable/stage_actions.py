"""Stages as actions: one attempt at a stage, or at its compensation, inside a flow."""

from inspect import isawaitable
from typing import Any

import msgspec

from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, owner_of
from redrive.errors import Permanent
from redrive.failures.redaction import redact
from redrive.flows.action import Action
from redrive.flows.graphs.driver import GraphCancelled
from redrive.flows.values.signature import Signature
from redrive.pipeline.context import Feedback, StageContext, StageInputs
from redrive.pipeline.coroutine_functions import not_awaitable
from redrive.pipeline.errors import StageReportedError
from redrive.pipeline.output import StageOutput, StageStatus, as_output
from redrive.pipeline.redacted_text import error_text
from redrive.pipeline.sinks import NO_SINK, EventSink
from redrive.pipeline.stage import Compensate, StageSpec
from redrive.runners.attempt import Attempt, current_attempt

DATA = "data"
REQUEST_ID = "request_id"
"""The inputs of a pipeline's flow."""

StepInputs = dict[str, Any]
"""The flow's inputs, and the data of each dependency by name; None if it was skipped."""


class StageAction(Action[..., Any]):
    """Takes its step's inputs as one dict: names of stages need not be valid parameter names."""

    def __init__(self, function: Any, name: str, spec: StageSpec, retrier: Retrier) -> None:
        # The registry tells actions of one name apart by this; pipelines of one name are compared before.
        function.__qualname__ = name
        super().__init__(function, name, retrier.policy, "loop")
        self.signature = _DictSignature(function, f"stage {spec.name!r}")


class _DictSignature(Signature):
    annotated = False

    def read_arguments(self, encoded: str) -> dict[str, Any]:
        return super().read_arguments(f'{{"inputs":{encoded}}}')


def stage_action(name: str, spec: StageSpec, retrier: Retrier) -> StageAction:
    """Return the action that makes one attempt at the stage."""

    async def attempt(inputs: StepInputs) -> dict[str, Any] | None:
        # As in process: where the stage is not retried, guarded calls inside it retry for themselves.
        owner_of(CURRENT.get()).owns_retries = retrier.owns_retries
        output = await _attempt(spec, _context(spec, inputs, current_attempt()))
        if output.status is StageStatus.OK:
            return dict(output.data)
        if output.status is StageStatus.SKIP:
            return None
        if output.status is StageStatus.CANCEL:
            raise GraphCancelled(redact(output.error) or "the stage cancelled the run")
        raise StageReportedError.by(output, retry_on_fail=spec.retry_on_fail)

    return StageAction(attempt, name, spec, retrier)


def compensation_action(name: str, spec: StageSpec, compensate: Compensate, retrier: Retrier) -> StageAction:
    """Return the action that makes one attempt at compensating the stage."""

    async def attempt(inputs: StepInputs) -> None:
        data = inputs[spec.name]
        if data is None:
            # The stage was skipped.
            return
        work = compensate(_context(spec, inputs, current_attempt()), StageOutput.ok(data))
        if not isawaitable(work):
            raise not_awaitable(spec.name, "compensate")
        await work

    return StageAction(attempt, name, spec, retrier)


async def _attempt(spec: StageSpec, ctx: StageContext) -> StageOutput:
    outputs = ctx.inputs.outputs.values()
    if outputs and all(one.status is StageStatus.SKIP for one in outputs):
        return StageOutput.skip("all its dependencies were skipped")
    if not _condition_holds(spec, ctx):
        return StageOutput.skip("its condition does not hold")
    work = spec.execute(ctx)
    if not isawaitable(work):
        raise not_awaitable(spec.name, "execute")
    return as_output(await work, spec.name)


def _condition_holds(spec: StageSpec, ctx: StageContext) -> bool:
    try:
        return spec.when is None or bool(spec.when(ctx))
    except Exception as error:
        # As in process: a condition is not retried.
        said = f"{type(error).__name__}: {error_text(error)}"
        raise Permanent(f"stage {spec.name!r}: its condition (when) failed: {said}") from error


class _Flow(msgspec.Struct, frozen=True):
    """The flow, as a stage's context reads it."""

    stage_name: str
    pipeline_run_id: str
    request_id: Any
    run_data: dict[str, Any]
    event_sink: EventSink = NO_SINK
    feedback: tuple[Feedback, ...] = ()


def _context(spec: StageSpec, inputs: StepInputs, attempt: Attempt) -> StageContext:
    # By the inputs that the flow was planned with: the stage may have other dependencies by now.
    names = dict.fromkeys(name for name in (*spec.dependencies, *inputs) if name in inputs)
    outputs = {name: _output(inputs[name]) for name in names if name not in (DATA, REQUEST_ID, spec.name)}
    flow = _Flow(spec.name, attempt.flow_id, inputs[REQUEST_ID], inputs[DATA])
    return StageContext(flow, StageInputs(spec.name, outputs, flow.run_data), attempt.number)


def _output(data: dict[str, Any] | None) -> StageOutput:
    return StageOutput.skip() if data is None else StageOutput.ok(data)

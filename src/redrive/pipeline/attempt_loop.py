"""The attempts at one stage of one run: made, cut, told to the interceptors, and answered by the call that decides."""

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from msgspec import structs

from redrive.calls.scope import CURRENT
from redrive.determinism.clock import Clock
from redrive.determinism.thread_cut import CutShort
from redrive.errors import CircuitOpenError, Permanent
from redrive.pipeline.attempt_guard import CURRENT_STAGE, failure_of_output
from redrive.pipeline.cancellation import failure_in
from redrive.pipeline.errors import StageReportedError
from redrive.pipeline.events import EVENT_NAMES, StageFellBack
from redrive.pipeline.hooks import Hook, Hooks, Said, link, tell_after, tell_cancel, tell_error
from redrive.pipeline.interceptors.base import ErrorAction
from redrive.pipeline.output import RESULT_STATUS, StageOutput, StageResult, StageStatus, as_output
from redrive.pipeline.shown import message_of, text_of
from redrive.pipeline.sinks import WatchedSink, put
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import ATTEMPT_KEY, StageRun
from redrive.policies.decide import SHORTEST_WAIT
from redrive.policies.decision import GiveUp
from redrive.policies.report import report_of
from redrive.telemetry.events import (
    AttemptFailed,
    CircuitChanged,
    FallbackUsed,
    StageRetryExhausted,
    StageRetryScheduled,
    StageRetrySucceeded,
)
from redrive.telemetry.stream import emit, hooks_only

_FAILED = (StageStatus.FAIL, StageStatus.RETRY)


async def carry_out(state: StageRun, spec: StageSpec, hooks: Hooks, clock: Clock) -> StageOutput:
    """Make attempts until there is an output; raise the last error when there is none."""
    CURRENT_STAGE.set(state)
    CURRENT.set(state.scope)
    try:
        while True:
            error: Exception
            said: Said | None = None
            state.attempt += 1
            if hooks.own_data:
                state.data[ATTEMPT_KEY] = state.attempt - 1
            try:
                output = await _attempt(state, spec, hooks, clock)
                if output.status in _FAILED:
                    error = _reported(output, spec, clock)
                else:
                    if hooks.after:
                        said = await tell_after(hooks, _result(state, output, clock), state)
                    _succeeded(state, output, clock, told=said is None)
                    if said is None or said.broken is None:
                        return output
                    error = said.broken
            except CutShort:
                error = state.call.cut_error()
            except BaseException as raised:  # noqa: BLE001 - what fails the attempt is classified; the rest is raised
                error = failure_in(raised, state)
            if state.run_is_ending:
                # Whatever the stage makes of being cancelled, it is not tried again.
                raise CancelledError from error
            failed_at = clock.monotonic()
            retry_at = None
            if said is None:
                retry_at = _decide(state, error)
                said = await _ask(state, error, hooks, retrying=retry_at is not None)
            action = said.first()
            if action is not ErrorAction.RETRY:
                return await _ended(state, spec, said.broken or error, action, failed_at, clock)
            if retry_at is None:
                retry_at = _retry_of_its_own(state, failed_at, clock)
            _tell_retry(state, error, said, retry_at - failed_at)
            await clock.asleep_until(retry_at)
    except Exception:
        raise
    except BaseException:
        state.abandoned()
        tell_cancel(hooks, state)
        raise
    finally:
        state.ended()


async def _attempt(state: StageRun, spec: StageSpec, hooks: Hooks, clock: Clock) -> StageOutput:
    name = spec.name
    state.began = clock.monotonic()
    for hook in hooks.outside:
        if (instead := await hook(name, state)) is not None:
            return as_output(instead, name, _told_by(hook))
    until = state.begin()
    for hook in hooks.before:
        if (instead := await hook(name, state)) is not None:
            return as_output(instead, name, _told_by(hook))
    work = spec.execute(state.stage_context())
    if type(work) is not CoroutineType and not isawaitable(work):
        raise not_awaitable(name, "execute")
    if until is None:
        output = as_output(await work, name)
    else:
        with clock.cut_at(until):
            returned = await work
        output = as_output(returned, name)
    if spec.undo is not None and output.status is StageStatus.OK:
        state.done = output
    return output


def _told_by(hook: Hook) -> str:
    return f"{type(getattr(hook, '__self__', hook)).__name__}.before, called for stage {{}},"


def not_awaitable(stage: str, what: str) -> Permanent:
    return Permanent(f"stage {stage!r}: its {what} is not a coroutine function; write: async def {what}(...)")


def _reported(output: StageOutput, spec: StageSpec, clock: Clock) -> StageReportedError:
    return StageReportedError(output, failure_of_output(output, clock.wall(), spec.retry_on_fail))


def _result(state: StageRun, output: StageOutput, clock: Clock) -> StageResult:
    ended = clock.wall()
    return StageResult(
        state.stage_name,
        RESULT_STATUS[output.status],
        state.attempt,
        ended - (clock.monotonic() - state.began),
        ended,
        output.data,
    )


def _succeeded(state: StageRun, output: StageOutput, clock: Clock, *, told: bool) -> None:
    """The work was done. `told`: and no interceptor refuses its output."""
    if state.attempt == 1:
        state.succeeded(output)
        return
    with _told_in_our_words(state):
        state.succeeded(output)
    if not told:
        return
    _tell(
        state,
        StageRetrySucceeded(
            stage=state.stage_name,
            attempt=state.attempt,
            total_time_ms=round((clock.monotonic() - state.call.history.started_at) * 1000),
            pipeline_run_id=text_of(state.pipeline_run_id),
            request_id=text_of(state.request_id),
        ),
    )


def _decide(state: StageRun, error: Exception) -> float | None:
    """When the policy has it tried again; None when it gives up."""
    call = state.call
    if isinstance(error, CircuitOpenError) and report_of(error) is not None and call.gave_up is not None:
        # No attempt was made: the circuit refused it, and that ends the stage.
        state.decision = call.gave_up
        return None
    with _told_in_our_words(state):
        return call.attempt_failed(error)


async def _ask(state: StageRun, error: Exception, hooks: Hooks, *, retrying: bool) -> Said:
    """What the policy and the interceptors want."""
    sink = state.event_sink
    state.event_sink = watched = WatchedSink(sink, EVENT_NAMES[StageRetryScheduled])
    try:
        said = await tell_error(hooks, error, state, retrying=retrying)
    finally:
        state.event_sink = sink
    said.told_of_retry = watched.seen
    if retrying and said.first() is not ErrorAction.RETRY:
        # The retry that was granted is not made: what it held goes back.
        state.call.abandon_attempt()
    return said


def _retry_of_its_own(state: StageRun, failed_at: float, clock: Clock) -> float:
    """An interceptor wants a retry that the policy does not grant; it has waited, or the floor is waited for it."""
    call = state.call
    call.history = structs.replace(call.history, attempts=call.history.attempts + 1)
    now = clock.monotonic()
    return now if now - failed_at >= SHORTEST_WAIT else now + call.policy.floor


async def _ended(
    state: StageRun, spec: StageSpec, error: Exception, action: ErrorAction, failed_at: float, clock: Clock
) -> StageOutput:
    """The stage failed for good: its fallback, or its error."""
    if state.attempt > 1:
        _tell(
            state,
            StageRetryExhausted(
                stage=state.stage_name,
                attempts=state.attempt,
                total_time_ms=round((failed_at - state.call.history.started_at) * 1000),
                error=message_of(error),
                error_type=type(error).__name__,
                reason=state.decision.kind if isinstance(state.decision, GiveUp) else "",
                pipeline_run_id=text_of(state.pipeline_run_id),
                request_id=text_of(state.request_id),
            ),
        )
    instead: Any = state.fallback if action is ErrorAction.FALLBACK else None
    if instead is None:
        instead = spec.fallback
    if instead is None:
        raise error
    if callable(instead):
        try:
            answering = instead(state.stage_context(), error)
            if not isawaitable(answering):
                raise not_awaitable(spec.name, "fallback")
            instead = await answering
        except Exception as broken:
            link(broken, error)
            raise
    output = as_output(instead, spec.name, "the fallback of stage {}")
    if output.status in _FAILED:
        # It has no answer either.
        raise _reported(output, spec, clock) from error
    emit(FallbackUsed(operation=spec.name, fallback="stage"))
    put(
        state.event_sink,
        StageFellBack(
            stage=spec.name,
            error=message_of(error),
            error_type=type(error).__name__,
            pipeline_run_id=text_of(state.pipeline_run_id),
            request_id=text_of(state.request_id),
        ),
    )
    return output


def _tell_retry(state: StageRun, error: Exception, said: Said, wait: float) -> None:
    event = StageRetryScheduled(
        stage=state.stage_name,
        attempt=state.attempt,
        delay_ms=round(wait * 1000),
        error=message_of(error),
        error_type=type(error).__name__,
        pipeline_run_id=text_of(state.pipeline_run_id),
        request_id=text_of(state.request_id),
    )
    emit(event)
    if not said.told_of_retry:
        put(state.event_sink, event)


def _tell(state: StageRun, event: StageRetryScheduled | StageRetrySucceeded | StageRetryExhausted) -> None:
    """To everyone who listens, and to the sink of the run."""
    emit(event)
    put(state.event_sink, event)


@contextmanager
def _told_in_our_words(state: StageRun) -> Iterator[None]:
    """The call tells the stage alone about its attempts: listeners hear of the stage. Circuits are everyone's."""
    state.heard.clear()
    with hooks_only():
        yield
    for event in state.heard:
        if isinstance(event, AttemptFailed):
            state.failure, state.decision = event.failure, event.decision
        elif isinstance(event, CircuitChanged):
            emit(event)

"""The attempts at one stage of one run: made, cut, told to the interceptors, and answered by the call that decides."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from types import CoroutineType
from typing import Any, cast

import msgspec
from msgspec import structs

from redrive.calls.scope import CURRENT
from redrive.determinism.clock import Clock
from redrive.determinism.thread_cut import CutShort
from redrive.failures.signals import Permanent
from redrive.observability.events import (
    AttemptFailed,
    CircuitChanged,
    FallbackUsed,
    StageRetryExhausted,
    StageRetryScheduled,
    StageRetrySucceeded,
)
from redrive.observability.stream import emit, hooks_only
from redrive.pipeline.attempt_guard import CURRENT_STAGE
from redrive.pipeline.errors import StageReported
from redrive.pipeline.events import StageFellBack
from redrive.pipeline.interceptors.base import ErrorAction
from redrive.pipeline.output import RESULT_STATUS, StageOutput, StageResult, StageStatus, as_output
from redrive.pipeline.shown import message_of, text_of
from redrive.pipeline.sinks import put
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import ATTEMPT_KEY, StageRun
from redrive.resilience.circuit import CircuitOpen
from redrive.retry.decide import SHORTEST_WAIT
from redrive.retry.decision import GiveUp, RetryAt
from redrive.retry.report import report_of

Hook = Callable[..., Awaitable[Any]]

_FAILED = (StageStatus.FAIL, StageStatus.RETRY)


class Hooks(msgspec.Struct, frozen=True):
    """The hooks that do something, of all interceptors, in the order in which they are called."""

    outside: tuple[Hook, ...] = ()
    """`before` of those that run outside the circuit breaker."""
    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()
    on_error: tuple[Hook, ...] = ()
    on_cancel: tuple[Callable[..., None], ...] = ()
    overruling: tuple[Hook, ...] = ()
    """`on_error` of retry interceptors that have one of their own: what it says goes before the policy."""
    own_data: bool = False
    """Whether an interceptor that is not redrive's may write to `ctx.data`."""


async def carry_out(state: StageRun, spec: StageSpec, hooks: Hooks, clock: Clock) -> StageOutput:
    """Make attempts until there is an output; raise the last error when there is none."""
    CURRENT_STAGE.set(state)
    CURRENT.set(state.scope)
    try:
        while True:
            error: Exception
            state.attempt += 1
            if hooks.own_data:
                state.data[ATTEMPT_KEY] = state.attempt - 1
            try:
                output = await _attempt(state, spec, hooks, clock)
                if output.status not in _FAILED:
                    await _succeeded(state, output, hooks, clock)
                    return output
                error = StageReported(output)
            except CutShort:
                error = state.call.cut_error()
            except Exception as raised:  # noqa: BLE001 - every failure of the attempt is classified
                error = raised
            if state.run_is_ending:
                # Whatever the stage makes of being cancelled, it is not tried again.
                raise CancelledError from error
            failed_at = clock.monotonic()
            retry_at = _decide(state, error)
            action = await _ask(state, error, hooks, retrying=retry_at is not None)
            if action is not ErrorAction.RETRY:
                return await _ended(state, spec, error, action, failed_at)
            if retry_at is None:
                retry_at = _retry_of_its_own(state, failed_at, clock)
            else:
                _tell_retry(state, error)
            await clock.asleep_until(retry_at)
    except Exception:
        raise
    except BaseException:
        state.abandoned()
        for hook in hooks.on_cancel:
            hook(spec.name, state)
        raise
    finally:
        state.ended()


async def _attempt(state: StageRun, spec: StageSpec, hooks: Hooks, clock: Clock) -> StageOutput:
    name = spec.name
    state.began = clock.monotonic()
    for hook in hooks.outside:
        if (instead := await hook(name, state)) is not None:
            return as_output(instead, name)
    until = state.begin()
    for hook in hooks.before:
        if (instead := await hook(name, state)) is not None:
            return as_output(instead, name)
    work = spec.execute(state.stage_context())
    if type(work) is not CoroutineType and not isawaitable(work):
        raise Permanent(f"stage {name!r}: its execute is not a coroutine function; write: async def execute(...)")
    if until is None:
        return as_output(await work, name)
    with clock.cut_at(until):
        returned = await work
    return as_output(returned, name)


async def _succeeded(state: StageRun, output: StageOutput, hooks: Hooks, clock: Clock) -> None:
    if hooks.after:
        ended = clock.wall()
        result = StageResult(
            state.stage_name,
            RESULT_STATUS[output.status],
            state.attempt,
            ended - (clock.monotonic() - state.began),
            ended,
            output.data,
        )
        for hook in hooks.after:
            await hook(state.stage_name, result, state)
    if state.attempt == 1:
        state.succeeded(output)
        return
    with _told_in_our_words(state):
        state.succeeded(output)
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
    if isinstance(error, CircuitOpen) and report_of(error) is not None and call.gave_up is not None:
        # No attempt was made: the circuit refused it, and that ends the stage.
        state.decision = call.gave_up
        return None
    with _told_in_our_words(state):
        return call.attempt_failed(error)


async def _ask(state: StageRun, error: Exception, hooks: Hooks, *, retrying: bool) -> ErrorAction:
    """What the policy and the interceptors want: of RETRY, FALLBACK and FAIL the first that anyone wants."""
    name = state.stage_name
    wanted = {ErrorAction.RETRY if retrying else ErrorAction.FAIL}
    for hook in hooks.on_error:
        said = await hook(name, error, state)
        if hook in hooks.overruling and said is ErrorAction.FAIL:
            wanted.discard(ErrorAction.RETRY)
        elif said is not None:
            wanted.add(ErrorAction(said))
    action = next((one for one in ErrorAction if one in wanted), ErrorAction.FAIL)
    if retrying and action is not ErrorAction.RETRY:
        # The retry that was granted is not made: what it held goes back.
        state.call.abandon_attempt()
    return action


def _retry_of_its_own(state: StageRun, failed_at: float, clock: Clock) -> float:
    """An interceptor wants a retry that the policy does not grant; it has waited, or the floor is waited for it."""
    call = state.call
    call.history = structs.replace(call.history, attempts=call.history.attempts + 1)
    now = clock.monotonic()
    return now if now - failed_at >= SHORTEST_WAIT else now + call.policy.floor


async def _ended(
    state: StageRun, spec: StageSpec, error: Exception, action: ErrorAction, failed_at: float
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
            instead = await cast("Awaitable[Any]", instead(state.stage_context(), error))
        except Exception as broken:
            broken.__cause__ = broken.__cause__ or error
            raise
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
    state.did_it = False
    return as_output(instead, spec.name)


def _tell_retry(state: StageRun, error: Exception) -> None:
    assert isinstance(state.decision, RetryAt)  # noqa: S101 - narrows for mypy: a retry was granted
    _tell(
        state,
        StageRetryScheduled(
            stage=state.stage_name,
            attempt=state.attempt,
            delay_ms=round(state.decision.because.wait * 1000),
            error=message_of(error),
            error_type=type(error).__name__,
            pipeline_run_id=text_of(state.pipeline_run_id),
            request_id=text_of(state.request_id),
        ),
    )


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

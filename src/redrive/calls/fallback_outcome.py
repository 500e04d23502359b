"""Asks the fallback for an answer when a call has given up."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from redrive.calls.fallback import Fallback, GivenUpCall, covers
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retry_protocol import Failed, Outcome, Succeeded, failed
from redrive.telemetry.events import FallbackUsed
from redrive.telemetry.stream import correlation_id, emit


def with_fallback(
    call: GuardedCall, outcome: Outcome, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Outcome:
    """Return the outcome for the caller of a plain function: the call's own, or the fallback's answer."""
    fallback = call.guard.fallback
    if fallback is None:
        return outcome
    given_up = _given_up(fallback, call, outcome, function, args, kwargs)
    if given_up is None:
        return outcome
    try:
        answer = fallback.answer(given_up)
        if isinstance(answer, types.CoroutineType):
            answer.close()
            raise TypeError(
                f"the fallback of {call.operation} is a coroutine function, and nothing awaits it; use a plain function"
            )
    except Exception as error:  # noqa: BLE001 - a fallback without an answer raises; that is the outcome
        return _unanswered(call, given_up, error)
    return _answered(fallback, call, given_up, answer)


async def with_async_fallback(
    call: GuardedCall, outcome: Outcome, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Outcome:
    """Do the same for a coroutine function; the fallback may be a coroutine function too."""
    fallback = call.guard.fallback
    if fallback is None:
        return outcome
    given_up = _given_up(fallback, call, outcome, function, args, kwargs)
    if given_up is None:
        return outcome
    try:
        answer = fallback.answer(given_up)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - as above
        return _unanswered(call, given_up, error)
    return _answered(fallback, call, given_up, answer)


def _given_up(
    fallback: Fallback,
    call: GuardedCall,
    outcome: Outcome,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> GivenUpCall | None:
    """Return the call that the fallback must answer; None if it succeeded, or if the fallback must not answer it."""
    now = call.clock.monotonic()
    if isinstance(outcome, Succeeded):
        if fallback.remembers:
            fallback.remember(function, args, dict(kwargs), outcome.result, now)
        return None
    if not covers(call.gave_up) or (fallback.repeats and call.may_have_taken_effect()):
        return None
    return GivenUpCall(
        operation=call.operation, args=args, kwargs=dict(kwargs), error=outcome.error, now=now, function=function
    )


def _unanswered(call: GuardedCall, given_up: GivenUpCall, error: Exception) -> Failed:
    if error is not given_up.error and error.__cause__ is None:
        error.__cause__ = given_up.error
    call.forbid_outer_retries(error)
    return failed(error)


def _answered(fallback: Fallback, call: GuardedCall, given_up: GivenUpCall, answer: Any) -> Succeeded:
    emit(
        FallbackUsed(
            operation=call.operation,
            fallback=fallback.kind,
            age=fallback.age(given_up),
            dependency=call.guard.dependency_name,
            correlation_id=correlation_id(),
        ),
        *call.guard.hooks,
    )
    return Succeeded(answer)

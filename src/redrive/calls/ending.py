"""How a call that gave up ends when it has a fallback."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from redrive.calls.fallback import Fallback, GivenUpCall, covers
from redrive.calls.flow import Failed, Outcome, Succeeded
from redrive.calls.guarded_call import GuardedCall
from redrive.telemetry.events import FallbackUsed
from redrive.telemetry.stream import correlation_id, emit


def answer_with(
    fallback: Fallback,
    call: GuardedCall,
    failed: Failed,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    """The outcome that the caller of a plain function gets."""
    given_up = _given_up(fallback, call, failed, function, args, kwargs)
    if given_up is None:
        return failed
    try:
        answer = fallback.answer(given_up)
        if isinstance(answer, types.CoroutineType):
            answer.close()
            raise TypeError(f"the fallback of {call.operation} is a coroutine function; a plain call needs a plain one")
    except Exception as error:  # noqa: BLE001 - a fallback without an answer raises; that is the outcome
        return _without_answer(call, given_up, error)
    return _answered(fallback, call, given_up, answer)


async def answer_async_with(
    fallback: Fallback,
    call: GuardedCall,
    failed: Failed,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    """The outcome that the caller of a coroutine function gets; the fallback may be one itself."""
    given_up = _given_up(fallback, call, failed, function, args, kwargs)
    if given_up is None:
        return failed
    try:
        answer = fallback.answer(given_up)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - as above
        return _without_answer(call, given_up, error)
    return _answered(fallback, call, given_up, answer)


def _given_up(
    fallback: Fallback,
    call: GuardedCall,
    failed: Failed,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> GivenUpCall | None:
    """The call that the fallback is to answer; None where it may not."""
    if not covers(call.gave_up) or (fallback.repeats and call.may_be_done_already()):
        return None
    now = call.clock.monotonic()
    return GivenUpCall(
        operation=call.operation, args=args, kwargs=dict(kwargs), error=failed.error, now=now, function=function
    )


def _without_answer(call: GuardedCall, given_up: GivenUpCall, error: Exception) -> Failed:
    if error is not given_up.error and error.__cause__ is None:
        error.__cause__ = given_up.error
    call.retries_are_spent(error)
    return Failed(error)


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

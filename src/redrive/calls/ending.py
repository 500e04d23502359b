"""How a call ends when it has a fallback: good results are remembered, and a call that gave up is answered."""

from collections.abc import Mapping
from typing import Any

from redrive.calls.fallback import GivenUpCall, covers
from redrive.calls.flow import Failed, Outcome, Succeeded
from redrive.calls.guarded_call import GuardedCall
from redrive.observability.events import FallbackUsed
from redrive.observability.stream import correlation_id, emit


def answer_with_fallback(
    call: GuardedCall, outcome: Outcome, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Outcome:
    """The outcome the caller gets. In async calls the result may be awaitable: the fallback's own coroutine."""
    fallback = call.guard.fallback
    if fallback is None:
        return outcome
    now = call.clock.monotonic()
    if isinstance(outcome, Succeeded):
        if fallback.remembers:
            fallback.remember(args, dict(kwargs), outcome.result, now)
        return outcome
    if not covers(call.gave_up):
        return outcome
    given_up = GivenUpCall(operation=call.operation, args=args, kwargs=dict(kwargs), error=outcome.error, now=now)
    try:
        answer = fallback.answer(given_up)
    except Exception as error:  # noqa: BLE001 - a fallback without an answer raises; that is the outcome
        if error is not outcome.error and error.__cause__ is None:
            error.__cause__ = outcome.error
        call.retries_are_spent(error)
        return Failed(error)
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

"""Drives the retry flow for plain functions."""

import types
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from redrive.calls.ending import answer_with
from redrive.calls.flow import Failed, Flow, Outcome, SleepUntil, Succeeded, retry_flow
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.scope import CURRENT, NO_SCOPE, OWNER, Scope, owner_after
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.raising import raise_as_it_is
from redrive.determinism.thread_cut import CutShort

if TYPE_CHECKING:
    from redrive.calls.retrier import Retrier


def run(
    guard: "Retrier", operation: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Make a guarded call from its first attempt on."""
    return carry_out(
        GuardedCall(guard, operation, current_clock(), current_dice(), CURRENT.get()), function, args, kwargs
    )


def carry_out(call: GuardedCall, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Make the attempts of a call that was made here and is about to begin."""
    outer = CURRENT.get()
    own_scope, ended = call.scope is not outer, owner_after(call.clock)
    try:
        if own_scope:
            CURRENT.set(call.scope)
        outcome = drive(call, retry_flow(call), function, args, kwargs)
    finally:
        if own_scope:
            call.scope[OWNER] = ended
            CURRENT.set(outer)
    try:
        # The call is over: what a fallback calls has its own time and its own retries.
        return finish(call, outcome, function, args, kwargs)
    finally:
        # The frames of a traceback keep their variables: let go of what leads back to the errors.
        del call, outcome


def go_on(
    guard: "Retrier",
    operation: str,
    scope: Scope,
    error: Exception,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Go on with a call whose first attempt was made on the fast path, in `scope`, and failed."""
    try:
        scope[OWNER] = guard
        call = GuardedCall(guard, operation, SYSTEM_CLOCK, current_dice(), NO_SCOPE, scope)
        outcome = drive(call, retry_flow(call, Failed(error)), function, args, kwargs)
    finally:
        scope[OWNER] = None
        del error
    try:
        return finish(call, outcome, function, args, kwargs)
    finally:
        del call, outcome


def drive(
    call: GuardedCall, flow: Flow, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Outcome:
    clock, reread = call.clock, call.guard.reread
    in_thread = call.policy.attempt_timeout is not None and not call.self_limiting

    def attempt() -> Any:
        if call.reread_first and reread is not None:
            read_again(call.operation, reread)
        return function(*args, **kwargs)

    try:
        step = next(flow)
        while True:
            if isinstance(step, SleepUntil):
                clock.sleep_until(step.when)
                step = flow.send(None)
                continue
            outcome: Outcome
            try:
                # Nothing can cut a plain function short; only in a thread of its own can it be left behind.
                if in_thread and step.until is not None:
                    result = clock.call_until(step.until, attempt)
                else:
                    result = attempt()
                if isinstance(result, types.CoroutineType):
                    refuse_coroutine(call.operation, result)
                outcome = Succeeded(result)
            except CutShort:
                outcome = Failed(call.cut_error())
            except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
                outcome = Failed(error)
            step = flow.send(outcome)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a Flow returns its Outcome
    finally:
        flow.close()
        # As above; none of them is used again.
        outcome = flow = call = attempt = None  # type: ignore[assignment]


def finish(
    call: GuardedCall,
    outcome: Outcome,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return or raise what the call ends with, after asking the fallback."""
    fallback = call.guard.fallback
    if fallback is not None:
        if isinstance(outcome, Failed):
            outcome = answer_with(fallback, call, outcome, function, args, kwargs)
        elif fallback.remembers:
            fallback.remember(function, args, dict(kwargs), outcome.result, call.clock.monotonic())
    if isinstance(outcome, Succeeded):
        return outcome.result
    try:
        raise_as_it_is(outcome.error)
    finally:
        del outcome, call


def read_again(operation: str, reread: Callable[[], Any]) -> None:
    """Refresh the state that the next attempt builds on."""
    again = reread()
    if isinstance(again, types.CoroutineType):
        again.close()
        raise async_reread(operation)


def async_reread(operation: str) -> TypeError:
    return TypeError(f"{operation}: reread is a coroutine function; a plain call needs a plain one")


def refuse_coroutine(operation: str, result: Coroutine[Any, Any, Any]) -> NoReturn:
    """Nothing in it has run yet, so nothing was guarded."""
    result.close()
    raise TypeError(
        f"{operation} returned a coroutine, which only a coroutine function guards: make it one (a decorator below "
        "@retry, too), use acall, or await it inside"
    )

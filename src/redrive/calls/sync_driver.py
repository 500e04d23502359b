"""Drives the retry protocol for plain functions.

The traceback of an error refers to the frame of the function that failed, and that frame to its callers in here. So
each function drops its references to errors when it ends; otherwise every error would wait for the garbage collector.
"""

import types
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

from redrive.calls.fallback_outcome import with_fallback
from redrive.calls.guard import Guard
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retry_protocol import Failed, Outcome, RetrySteps, SleepUntil, Succeeded, failed, retry_steps
from redrive.calls.scope import CURRENT, NO_SCOPE, OWNER, Scope, owner_after
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.thread_cut import CutShort


def run(
    guard: Guard, operation: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Outcome:
    """Make a guarded call from its first attempt on."""
    return run_call(
        GuardedCall(guard, operation, current_clock(), current_dice(), CURRENT.get()), function, args, kwargs
    )


def run_call(
    call: GuardedCall, function: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> Outcome:
    """Make the attempts of a call that has not begun yet."""
    kwargs = kwargs or {}
    outer = CURRENT.get()
    own_scope, ended = call.scope is not outer, owner_after(call.clock)
    try:
        if own_scope:
            CURRENT.set(call.scope)
        outcome = _drive(call, retry_steps(call), function, args, kwargs)
    finally:
        if own_scope:
            call.scope[OWNER] = ended
            CURRENT.set(outer)
    try:
        # The call has ended: what the fallback calls has its own deadline and its own retries.
        return with_fallback(call, outcome, function, args, kwargs)
    finally:
        del call, outcome


def resume(
    guard: Guard,
    operation: str,
    scope: Scope,
    error: Exception,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    """Continue a call whose first attempt failed on the fast path, in `scope`."""
    try:
        scope[OWNER] = guard
        call = GuardedCall(guard, operation, SYSTEM_CLOCK, current_dice(), NO_SCOPE, scope)
        outcome = _drive(call, retry_steps(call, failed(error)), function, args, kwargs)
    finally:
        scope[OWNER] = None
        del error
    try:
        return with_fallback(call, outcome, function, args, kwargs)
    finally:
        del call, outcome


def _drive(
    call: GuardedCall, steps: RetrySteps, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Outcome:
    clock, reread = call.clock, call.guard.reread
    in_thread = call.policy.attempt_timeout is not None and not call.self_limiting

    def attempt() -> Any:
        if call.reread_first and reread is not None:
            reread_state(call.operation, reread)
        return function(*args, **kwargs)

    try:
        step = next(steps)
        while True:
            if isinstance(step, SleepUntil):
                clock.sleep_until(step.when)
                step = steps.send(None)
                continue
            outcome: Outcome
            try:
                # A plain function cannot be cancelled; it can only be abandoned in a thread of its own.
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
                outcome = failed(error)
            step = steps.send(outcome)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # RetrySteps return their Outcome
    finally:
        steps.close()
        outcome = steps = call = attempt = None  # type: ignore[assignment]  # none of them is used again


def reread_state(operation: str, reread: Callable[[], Any]) -> None:
    """Refresh the state that the next attempt builds on."""
    returned = reread()
    if isinstance(returned, types.CoroutineType):
        returned.close()
        raise async_reread(operation)


def async_reread(operation: str) -> TypeError:
    return TypeError(f"{operation}: reread is a coroutine function, and nothing awaits it; use a plain function")


def refuse_coroutine(operation: str, result: Coroutine[Any, Any, Any]) -> NoReturn:
    """Raise: nothing in the coroutine has run yet, so nothing would be guarded."""
    result.close()
    raise TypeError(
        f"{operation} is a plain function that returned a coroutine, which cannot be guarded; make it (and every "
        "decorator below @retry) a coroutine function, use Retrier.acall, or await the coroutine inside"
    )

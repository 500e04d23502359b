"""Drives the retry protocol for coroutine functions, under asyncio and trio; see sync_driver.py."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

from redrive.calls.fallback_outcome import with_async_fallback
from redrive.calls.guard import Guard
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retry_protocol import Failed, Outcome, RetrySteps, SleepUntil, Succeeded, failed, retry_steps
from redrive.calls.scope import CURRENT, NO_SCOPE, OWNER, Scope, owner_after
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.thread_cut import CutShort

NO_CUT = nullcontext()


async def run(
    guard: Guard,
    operation: str,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    """Make a guarded call from its first attempt on."""
    return await run_call(
        GuardedCall(guard, operation, current_clock(), current_dice(), CURRENT.get()), function, args, kwargs
    )


async def run_call(
    call: GuardedCall,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Outcome:
    """Make the attempts of a call that has not begun yet."""
    kwargs = kwargs or {}
    outer = CURRENT.get()
    own_scope, ended = call.scope is not outer, owner_after(call.clock)
    try:
        if own_scope:
            CURRENT.set(call.scope)
        outcome = await _drive(call, retry_steps(call), function, args, kwargs)
    finally:
        if own_scope:
            call.scope[OWNER] = ended
            CURRENT.set(outer)
    try:
        # The call has ended: what the fallback calls has its own deadline and its own retries.
        return await with_async_fallback(call, outcome, function, args, kwargs)
    finally:
        del call, outcome


async def resume(
    guard: Guard,
    operation: str,
    scope: Scope,
    error: Exception,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    """Continue a call whose first attempt failed on the fast path, in `scope`."""
    try:
        scope[OWNER] = guard
        call = GuardedCall(guard, operation, SYSTEM_CLOCK, current_dice(), NO_SCOPE, scope)
        outcome = await _drive(call, retry_steps(call, failed(error)), function, args, kwargs)
    finally:
        scope[OWNER] = None
        del error
    try:
        return await with_async_fallback(call, outcome, function, args, kwargs)
    finally:
        del call, outcome


async def _drive(
    call: GuardedCall,
    steps: RetrySteps,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    clock, reread = call.clock, call.guard.reread
    try:
        step = next(steps)
        while True:
            if isinstance(step, SleepUntil):
                await clock.asleep_until(step.when)
                step = steps.send(None)
                continue
            outcome: Outcome
            try:
                with NO_CUT if step.until is None else clock.cut_at(step.until):
                    if step.reread and reread is not None:
                        await _await_if_needed(reread())
                    outcome = Succeeded(await function(*args, **kwargs))
            except CutShort:
                outcome = Failed(call.cut_error())
            except Exception as error:  # noqa: BLE001 - every failure of the attempt is classified
                outcome = failed(error)
            step = steps.send(outcome)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # RetrySteps return their Outcome
    finally:
        steps.close()
        outcome = steps = call = None  # type: ignore[assignment]  # none of them is used again


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value

"""Drives the retry flow for coroutine functions, under asyncio and trio."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from redrive.calls.ending import answer_async_with
from redrive.calls.flow import Failed, Flow, Outcome, SleepUntil, Succeeded, retry_flow
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.scope import CURRENT, NO_SCOPE, OWNER, Scope, owner_after
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.raising import raise_as_it_is
from redrive.determinism.thread_cut import CutShort

if TYPE_CHECKING:
    from redrive.calls.retrier import Retrier

NO_CUT = nullcontext()


async def run(
    guard: "Retrier",
    operation: str,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Make a guarded call from its first attempt on."""
    return await carry_out(
        GuardedCall(guard, operation, current_clock(), current_dice(), CURRENT.get()), function, args, kwargs
    )


async def carry_out(
    call: GuardedCall,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Make the attempts of a call that was made here and is about to begin."""
    outer = CURRENT.get()
    own_scope, ended = call.scope is not outer, owner_after(call.clock)
    try:
        if own_scope:
            CURRENT.set(call.scope)
        outcome = await drive(call, retry_flow(call), function, args, kwargs)
    finally:
        if own_scope:
            call.scope[OWNER] = ended
            CURRENT.set(outer)
    try:
        # The call is over: what a fallback calls has its own time and its own retries.
        return await finish(call, outcome, function, args, kwargs)
    finally:
        # The frames of a traceback keep their variables: let go of what leads back to the errors.
        del call, outcome


async def go_on(
    guard: "Retrier",
    operation: str,
    scope: Scope,
    error: Exception,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Go on with a call whose first attempt was made on the fast path, in `scope`, and failed."""
    try:
        scope[OWNER] = guard
        call = GuardedCall(guard, operation, SYSTEM_CLOCK, current_dice(), NO_SCOPE, scope)
        outcome = await drive(call, retry_flow(call, Failed(error)), function, args, kwargs)
    finally:
        scope[OWNER] = None
        del error
    try:
        return await finish(call, outcome, function, args, kwargs)
    finally:
        del call, outcome


async def drive(
    call: GuardedCall,
    flow: Flow,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Outcome:
    clock, reread = call.clock, call.guard.reread
    try:
        step = next(flow)
        while True:
            if isinstance(step, SleepUntil):
                await clock.asleep_until(step.when)
                step = flow.send(None)
                continue
            outcome: Outcome
            try:
                with NO_CUT if step.until is None else clock.cut_at(step.until):
                    if step.reread and reread is not None:
                        await _if_awaitable(reread())
                    outcome = Succeeded(await function(*args, **kwargs))
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
        outcome = flow = call = None  # type: ignore[assignment]


async def finish(
    call: GuardedCall,
    outcome: Outcome,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return or raise what the call ends with, after asking the fallback."""
    fallback = call.guard.fallback
    if fallback is not None:
        if isinstance(outcome, Failed):
            outcome = await answer_async_with(fallback, call, outcome, function, args, kwargs)
        elif fallback.remembers:
            fallback.remember(function, args, dict(kwargs), outcome.result, call.clock.monotonic())
    if isinstance(outcome, Succeeded):
        return outcome.result
    try:
        raise_as_it_is(outcome.error)
    finally:
        del outcome, call


async def _if_awaitable(what: Any) -> Any:
    return await what if inspect.isawaitable(what) else what

"""Which guarded call this code runs in: the one retry owner, its deadline and its idempotency keys.

A scope is opened for each guarded call and found through the context, so tasks and threads that inherit the context
are inside it too. It is a plain list because the success path makes one per call, and a list is made in a fraction
of the time an object takes; these names are its fields. A scope is never taken out of the context: it is marked as
ended, so that work that outlives the call (a background task, say) owns its retries again.
"""

from contextvars import ContextVar
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK, Clock, current_clock

Scope = list[Any]
"""[OWNER, STARTED], and once they are known [OWNER, STARTED, UNTIL, KEYS], maybe with OUTER"""

OWNER = 0
"""The Retrier of the call while it runs, waits included; None once it has ended."""
STARTED = 1
"""When its first attempt began."""
UNTIL = 2
"""When its deadline ends, where that is not `STARTED` plus the policy's deadline; see `until_of`."""
KEYS = 3
"""The idempotency keys of its requests, once one was asked for; see `keys_in`."""

OUTER = 4
"""The scope whose owner this one has, where that is another call's."""

NOBODY: Any = object()
# Calls made in it are no one's inner calls, but they ask for the context's clock: the success path does not.
UNOWNED: Scope = [NOBODY, 0.0]
NO_SCOPE: Scope = [None, 0.0]

CURRENT: ContextVar[Scope] = ContextVar("redrive_scope", default=NO_SCOPE)


def owner_after(clock: Clock) -> Any:
    """The owner of a scope whose call is over. What outlives it under a test's clock goes on asking for that."""
    return None if clock is SYSTEM_CLOCK else NOBODY


def owner_of(scope: Scope) -> Any:
    """The Retrier whose call is running; None when none is."""
    owner = scope[OWNER]
    if owner is NOBODY:
        return None
    # The call inside may outlive the one around it.
    return owner_of(scope[OUTER]) if owner is not None and len(scope) > OUTER else owner


def until_of(scope: Scope) -> float | None:
    """When the deadline of the scope's call ends; None when it has none or no longer runs."""
    owner = scope[OWNER]
    if owner is None or owner is NOBODY:
        return None
    if len(scope) > UNTIL and scope[UNTIL] is not None:
        return float(scope[UNTIL])
    return None if owner.policy.deadline is None else float(scope[STARTED] + owner.policy.deadline)


def keys_in(scope: Scope) -> Any:
    return scope[KEYS] if len(scope) > KEYS else None


def base_of_keys(scope: Scope) -> str | None:
    """What the keys are made of where they must be the same on every attempt, and attempts may be made anywhere."""
    base: str | None = getattr(scope[OWNER], "receipt_token", None)
    return base


def owns_retries(scope: Scope) -> bool:
    """Whether a running call has claimed the retries of everything called inside it."""
    owner = owner_of(scope)
    return owner is not None and bool(owner.owns_retries)


def time_left() -> float | None:
    """Seconds left to the guarded call that this code runs in; None outside of one, or when it has no deadline.

    A plain function cannot be cut short: use this to bound what it waits for.
    """
    until = until_of(CURRENT.get())
    return None if until is None else max(0.0, until - current_clock().monotonic())

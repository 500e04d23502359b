"""Which guarded call this code runs in: the one retry owner, its deadline and its idempotency keys.

A scope is opened for each guarded call and found through the context, so tasks and threads that inherit the context
are inside it too. It is a plain list because the success path makes one per call, and a list is made in a fraction
of the time an object takes; these names are its fields. A scope is never taken out of the context: it is marked as
ended, so that work that outlives the call (a background task, say) owns its retries again.
"""

from contextvars import ContextVar
from typing import Any

from redrive.determinism.clock import current_clock

Scope = list[Any]
"""[ACTIVE, STARTED, OWNER, UNTIL, KEYS]"""

ACTIVE = 0
"""True while the call runs, waits included."""
STARTED = 1
"""When its first attempt began."""
OWNER = 2
"""The Retrier of the call; None in a scope that only keeps calls off the fast path."""
UNTIL = 3
"""When its deadline ends, once known; see `until_of`."""
KEYS = 4
"""The idempotency keys of its requests, once one was asked for."""

NO_SCOPE: Scope = [False, 0.0, None, None, None]
# Active, but nobody's: calls made in it are no one's inner calls, and they ask for the context's clock.
UNOWNED: Scope = [True, 0.0, None, None, None]

CURRENT: ContextVar[Scope] = ContextVar("redrive_scope", default=NO_SCOPE)


def until_of(scope: Scope) -> float | None:
    """When the deadline of the scope's call ends; None when it has none or no longer runs."""
    if not scope[ACTIVE] or scope[OWNER] is None:
        return None
    if scope[UNTIL] is not None:
        return float(scope[UNTIL])
    deadline = scope[OWNER].policy.deadline
    return None if deadline is None else float(scope[STARTED] + deadline)


def owns_retries(scope: Scope) -> bool:
    """Whether a running call has claimed the retries of everything called inside it."""
    return bool(scope[ACTIVE] and scope[OWNER] is not None and scope[OWNER].owns_retries)


def time_left() -> float | None:
    """Seconds left to the guarded call that this code runs in; None outside of one, or when it has no deadline.

    A plain function cannot be cut short: use this to bound what it waits for.
    """
    until = until_of(CURRENT.get())
    return None if until is None else max(0.0, until - current_clock().monotonic())

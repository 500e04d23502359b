"""The guarded call that this code runs in: who owns the retries, the deadline, and the idempotency keys.

Every guarded call opens a scope and sets it in the context, so tasks and threads that inherit the context are inside
the call too. A scope is never removed from the context; it is marked as ended instead, so that work which outlives
the call, such as a background task, owns its retries again.

A scope is a plain list because the success path creates one per call, and a list costs a fraction of an object. The
constants below name its items.
"""

from contextvars import ContextVar
from typing import Any

from redrive.determinism.clock import SYSTEM_CLOCK, Clock, current_clock

Scope = list[Any]
"""[OWNER, STARTED], extended to [OWNER, STARTED, UNTIL, KEYS] or [..., KEYS, OUTER] when those are known."""

OWNER = 0
"""The guard of the call while the call runs, waits included; None once the call has ended."""
STARTED = 1
"""When the first attempt began."""
UNTIL = 2
"""The end of the deadline, if it differs from `STARTED` plus the policy's deadline; read it with `until_of`."""
KEYS = 3
"""The idempotency keys of the call's requests, once one has been requested; read them with `keys_in`."""
OUTER = 4
"""The enclosing scope that owns the retries, if this scope does not."""

NOBODY: Any = object()
# Calls in this scope have no owner, but they must use the context's clock, which the fast path does not look up.
UNOWNED: Scope = [NOBODY, 0.0]
NO_SCOPE: Scope = [None, 0.0]

CURRENT: ContextVar[Scope] = ContextVar("redrive_scope", default=NO_SCOPE)


def owner_after(clock: Clock) -> Any:
    """Return the owner to set once a call has ended: work that outlives it under a test clock keeps that clock."""
    return None if clock is SYSTEM_CLOCK else NOBODY


def owner_of(scope: Scope) -> Any:
    """Return the guard whose call is running, or None."""
    owner = scope[OWNER]
    if owner is NOBODY:
        return None
    # The inner call may outlive the outer one.
    return owner_of(scope[OUTER]) if owner is not None and len(scope) > OUTER else owner


def until_of(scope: Scope) -> float | None:
    """Return when the call's deadline ends; None if it has no deadline or has ended."""
    owner = scope[OWNER]
    if owner is None or owner is NOBODY:
        return None
    if len(scope) > UNTIL and scope[UNTIL] is not None:
        return float(scope[UNTIL])
    return None if owner.policy.deadline is None else float(scope[STARTED] + owner.policy.deadline)


def keys_in(scope: Scope) -> Any:
    return scope[KEYS] if len(scope) > KEYS else None


def base_of_keys(scope: Scope) -> str | None:
    """Return the base for keys that must be the same on every attempt, in whichever process it runs."""
    base: str | None = getattr(scope[OWNER], "receipt_token", None)
    return base


def owns_retries(scope: Scope) -> bool:
    """Whether a running call owns the retries of everything that is called inside it."""
    owner = owner_of(scope)
    return owner is not None and bool(owner.owns_retries)


def time_left() -> float | None:
    """Return the seconds left to the guarded call that this code runs in; None outside one, or without a deadline.

    A plain function cannot be cancelled: use this to limit what it waits for.
    """
    until = until_of(CURRENT.get())
    return None if until is None else max(0.0, until - current_clock().monotonic())

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
"""[OWNER, STARTED], extended with UNTIL, KEYS, OUTER and ATTEMPT when those are known; None: not known."""

OWNER = 0
"""The guard of the call while the call runs, waits included; None once the call has ended."""
STARTED = 1
"""When the first attempt began."""
UNTIL = 2
"""The end of the deadline, if it differs from `STARTED` plus the policy's deadline; read it with `until_of`."""
KEYS = 3
"""The idempotency keys of the call's requests, once one has been requested; read them with `keys_in`."""
OUTER = 4
"""The enclosing scope, if the retries are owned there and not by this scope's call."""
ATTEMPT = 5
"""The number of the running attempt and the end of its own timeout; missing on a first attempt without a timeout."""

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
    outer = _outer_of(scope)
    return owner if owner is None or outer is None else owner_of(outer)


def until_of(scope: Scope) -> float | None:
    """Return when the call's deadline ends; None if it has no deadline or has ended."""
    owner = scope[OWNER]
    if owner is None or owner is NOBODY:
        return None
    if len(scope) > UNTIL and scope[UNTIL] is not None:
        return float(scope[UNTIL])
    return None if owner.policy.deadline is None else float(scope[STARTED] + owner.policy.deadline)


def begin_attempt(scope: Scope, number: int, until: float | None) -> None:
    """Record the attempt that begins in this scope, and the end of its own timeout."""
    scope.extend([None] * (ATTEMPT + 1 - len(scope)))
    scope[ATTEMPT] = number, until


def attempt_number(scope: Scope) -> int:
    """Return the number of the owner's attempt, from 1."""
    if (outer := _outer_of(scope)) is not None:
        return attempt_number(outer)
    if len(scope) > ATTEMPT:
        return int(scope[ATTEMPT][0])
    return int(getattr(scope[OWNER], "number", 1))


def attempt_until(scope: Scope) -> float | None:
    """Return when the attempt that runs in this scope ends: at its own timeout, or at the call's deadline."""
    until = until_of(scope)
    own = scope[ATTEMPT][1] if len(scope) > ATTEMPT else None
    return until if own is None else own if until is None else min(own, until)


def _outer_of(scope: Scope) -> Scope | None:
    return scope[OUTER] if len(scope) > OUTER else None


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


def reports_inside(scope: Scope) -> bool:
    """Whether a call of this process reports what fails in this scope, given that a running call owns its retries.

    The owner may be in another process. Then the outermost call here that would retry reports, and nobody else does.
    """
    while (outer := _outer_of(scope)) is not None:
        # None or NOBODY: another thread has just ended the call.
        if getattr(scope[OWNER], "owns_retries", False):
            return True
        scope = outer
    return not getattr(scope[OWNER], "elsewhere", False)


def time_left() -> float | None:
    """Return the seconds left to the guarded call that this code runs in; None outside one, or without a deadline.

    A plain function cannot be cancelled: use this to limit what it waits for.
    """
    until = until_of(CURRENT.get())
    return None if until is None else max(0.0, until - current_clock().monotonic())

"""One retry owner across processes: a guarded call tells the next process who retries, and how much time is left.

    Redrive-Attempt: 2          the caller retries, and this is its second attempt
    Redrive-Deadline: 12.500    the caller waits for another 12.5 seconds

The time is what is left, not a point in time, because the clocks of two machines differ. A value that cannot be read
is ignored.

An attempt of a durable HTTP step has a delivery token, and carries its number even if the engine does not retry it:
there, `Redrive-Retry-Owner` says whether the engine does.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar

import msgspec

from redrive.calls.scope import CURRENT, OWNER, Scope, attempt_number, attempt_until, owner_after, owner_of
from redrive.determinism.clock import current_clock
from redrive.policies.policy import DEFAULT_POLICY, Policy

ATTEMPT = "Redrive-Attempt"
DEADLINE = "Redrive-Deadline"
RETRY_OWNER = "Redrive-Retry-Owner"
DELIVERY_TOKEN = "Redrive-Delivery-Token"  # noqa: S105 - the name of a header

# Up to nine digits: enough for 30 years, and no number that overflows the arithmetic. Zeros count too: Python refuses
# to read thousands of them.
_NUMBER = re.compile(r"(?!0+$)[0-9]{1,9}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)


class Ownership(msgspec.Struct, frozen=True):
    """What the headers of a request say about the call that sent it."""

    attempt: int | None
    """The number of the caller's attempt; None if the caller did not say."""
    retries: bool
    """Whether the caller retries, so that this process should not."""
    seconds_left: float | None
    """How long the caller waits; None if it did not say."""


class _Caller:
    """Stands for the guarded call of another process: guarded calls take it for the call around them."""

    policy: ClassVar[Policy] = DEFAULT_POLICY.replace(deadline=None)
    dependency: ClassVar[None] = None
    elsewhere: ClassVar[bool] = True
    """Nothing in this process catches what is raised for the owner."""

    def __init__(self, number: int, owns_retries: bool) -> None:
        self.number = number
        self.owns_retries = owns_retries


def ownership_headers(limit: float | None = None) -> dict[str, str]:
    """Return the headers that make guarded code in the next process leave the retries to this guarded call.

    They are empty outside a guarded call. Ask for them in each attempt. `limit`: the attempt ends after so many
    seconds, if that is earlier than the call's deadline.
    """
    scope = CURRENT.get()
    owner = owner_of(scope)
    headers: dict[str, str] = {}
    if owner is not None and owner.owns_retries:
        headers[ATTEMPT] = str(attempt_number(scope))
    until, left = attempt_until(scope), limit
    if until is not None:
        left = until - current_clock().monotonic()
        left = left if limit is None else min(left, limit)
    if left is not None:
        headers[DEADLINE] = seconds_text(left)
    return headers


def seconds_text(seconds: float) -> str:
    """Write the seconds that are left, rounded down to milliseconds."""
    return f"{min(max(0, int(seconds * 1000)) / 1000, 999_999_999):.3f}"


def read_ownership(headers: Mapping[str, str]) -> Ownership:
    """Read the headers of a request, whose names may be written in any case."""
    given = {name.lower(): value.strip() for name, value in headers.items() if name.lower().startswith("redrive-")}
    number, seconds = given.get(ATTEMPT.lower(), ""), given.get(DEADLINE.lower(), "")
    attempt = int(number) if _NUMBER.fullmatch(number) else None
    retries = bool(given.get(RETRY_OWNER.lower())) if DELIVERY_TOKEN.lower() in given else attempt is not None
    return Ownership(attempt, retries, float(seconds) if _SECONDS.fullmatch(seconds) else None)


class Inherited:
    """The scope of a request that a guarded call of another process has sent."""

    def __init__(self, ownership: Ownership) -> None:
        clock = current_clock()
        now, seconds = clock.monotonic(), ownership.seconds_left
        caller = _Caller(ownership.attempt or 1, ownership.retries)
        self.scope: Scope = [caller, now, None if seconds is None else now + seconds]
        self._ended = owner_after(clock)

    def end(self) -> None:
        """Let work that outlives the request own its retries again."""
        self.scope[OWNER] = self._ended


@contextmanager
def inherit_ownership(headers: Mapping[str, str]) -> Iterator[Inherited | None]:
    """Let the guarded calls inside the block make one attempt each, within the time left, if the headers say so.

    The headers are those of an incoming request. Without redrive's headers, the block runs as it is.
    """
    ownership = read_ownership(headers)
    if not ownership.retries and ownership.seconds_left is None:
        yield None
        return
    inherited = Inherited(ownership)
    token = CURRENT.set(inherited.scope)
    try:
        yield inherited
    finally:
        inherited.end()
        # A stream may be closed in another context than the one it was read in. The scope has ended there too.
        with suppress(ValueError):
            CURRENT.reset(token)

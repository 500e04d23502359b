"""One failed attempt, as data: what it was, whether it may pass, and why we think so."""

from typing import Any, Literal

import msgspec
from msgspec import structs

from redrive.errors import RedriveError

Category = Literal["transient", "permanent", "unknown"]
"""transient: may pass by itself. permanent: will not. unknown: nobody said; not retried unless the policy asks."""

Kind = Literal["exception", "timeout", "result", "lost"]
"""exception: the attempt raised. timeout: redrive cut the attempt. result: the value it returned was refused.
lost: the worker that made the attempt is gone, and nobody knows how it ended."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A classifier's answer about one error."""

    category: Category
    reason: str
    """Why, in words a person can check."""
    status: int | None = None
    """The HTTP status, where there was one."""
    retry_after: str | None = None
    """The Retry-After value as the server sent it."""
    not_sent: bool = False
    """True when the work certainly never reached the other side, so that repeating it cannot do it twice."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `decide()` is told about a failed attempt."""

    category: Category
    reason: str
    """Why the failure is in its category."""
    kind: Kind = "exception"
    type: str = ""
    """The error's qualified type name."""
    lineage: tuple[str, ...] = ()
    """Qualified and bare names of the error's type and its bases, nearest first: what rules match names against."""
    message: str = ""
    """The error's text, with secrets taken out and its length bounded."""
    status: int | None = None
    """The HTTP status, where there was one."""
    retry_after: float | None = None
    """Seconds from now that the other side asked us to wait."""
    retry_after_note: str = ""
    """What was odd about Retry-After: ignored garbage, a date in the past."""
    not_sent: bool = False
    """True when the work certainly never took effect."""
    unsafe_to_repeat: bool = False
    """True when it may have taken effect inside a call that was declared not idempotent."""
    asks_for_retry: bool = False
    """True when the code that failed asked for a retry itself, by raising RetryAfter."""
    marked_permanent: bool = False
    """True when the code that failed said so itself; no rule overrides it."""
    poison: bool = False
    """True when trying it again can end no other way: what it is given cannot be read, say."""
    error: BaseException | None = None
    """The live exception, in process only."""

    def __repr__(self) -> str:
        return f"Failure({self.type or self.kind}, {self.category}: {self.reason})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Many exceptions cannot be unpickled, and one of them would break the pool that the call ran in.
        return _failure_of, ({**structs.asdict(self), "error": None},)


def _failure_of(fields: dict[str, Any]) -> Failure:
    return Failure(**fields)


class JudgedError(RedriveError):
    """An error that knows which failure it is."""

    def judged(self) -> Failure | None:
        """The failure; None: a classifier is asked."""
        return None

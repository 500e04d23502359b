"""One failed attempt as data: what went wrong, whether a retry may help, and why."""

from typing import Any, Literal

import msgspec
from msgspec import structs

Category = Literal["transient", "permanent", "unknown"]
"""transient: a retry may succeed. permanent: it will not. unknown: not classified, and not retried unless the policy
says so."""

Kind = Literal["exception", "timeout", "result", "lost"]
"""exception: the attempt raised. timeout: redrive cut the attempt. result: its return value was rejected.
lost: the worker that ran the attempt is gone, so its outcome is not known."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A classifier's judgement of one error."""

    category: Category
    reason: str
    """Why, as a sentence that a person can check."""
    status: int | None = None
    """The HTTP status, if there was one."""
    retry_after: str | None = None
    """The Retry-After value as the server sent it."""
    not_sent: bool = False
    """True when the request certainly never reached the server, so that a retry cannot do the work twice."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed attempt, classified: the input of `decide()`."""

    category: Category
    reason: str
    """Why the failure is in its category."""
    kind: Kind = "exception"
    type: str = ""
    """The error's qualified type name."""
    lineage: tuple[str, ...] = ()
    """Qualified and bare names of the error's type and its bases, nearest first; rules match names against these."""
    message: str = ""
    """The error's text, with secrets removed and truncated."""
    status: int | None = None
    """The HTTP status, if there was one."""
    retry_after: float | None = None
    """Seconds that the server asked to wait, counted from now."""
    retry_after_note: str = ""
    """What was unusual about Retry-After, such as an unreadable value or a date in the past."""
    not_sent: bool = False
    """True when the work certainly never took effect."""
    unsafe_to_repeat: bool = False
    """True when it may have taken effect in an inner call that was declared not idempotent."""
    asks_for_retry: bool = False
    """True when the failing code asked for a retry by raising RetryAfter."""
    marked_permanent: bool = False
    """True when the failing code raised Permanent; no rule overrides it."""
    blamed: bool = False
    """True when the lost attempt itself took its worker or its process down; others were lost beside it."""
    poison: bool = False
    """True when every retry must fail the same way, for example because the input cannot be read."""
    error: BaseException | None = None
    """The exception itself; only in the process that raised it."""

    def __repr__(self) -> str:
        return f"Failure({self.type or self.kind}, {self.category}: {self.reason})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Many exceptions cannot be unpickled, and one that cannot would break the process pool.
        return _failure_of, ({**structs.asdict(self), "error": None},)


def _failure_of(fields: dict[str, Any]) -> Failure:
    return Failure(**fields)


class JudgedError(Exception):
    """An error that carries its own classification."""

    def judged(self) -> Failure | None:
        """Return the failure, or None to leave the judgement to a classifier."""
        return None

"""The retry policy: immutable data that defines what is retried, how often, with which waits and for how long."""

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from redrive.errors import PolicyError
from redrive.failures.matching import NOTHING, TRANSIENT, Failures, Match, as_match
from redrive.failures.redaction import redact
from redrive.policies.backoff import LONGEST_WAIT, Backoff, BackoffKind
from redrive.policies.jitter import LARGEST_FRACTION, Jitter, JitterKind


def policy_error(field: str, value: object, allowed: str) -> PolicyError:
    """Return the error for a field with an invalid value; secrets in the value are redacted."""
    return PolicyError(f"{field}: {redact(repr(value), 200)} is not allowed; {allowed}", field, value, allowed)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Overrides the policy for the failures it matches; the first matching rule applies.

    Fields that are None inherit the policy's value.
    """

    match: Match
    retries: int | None = None
    """Retries this rule grants, counted separately from all others; None: as many as the policy allows."""
    backoff: Backoff | None = None
    jitter: Jitter | None = None
    max_wait: float | None = None

    if TYPE_CHECKING:
        # A match may be written as the failures it means; the field holds the Match.
        def __init__(
            self,
            *,
            match: Failures,
            retries: int | None = None,
            backoff: Backoff | None = None,
            jitter: Jitter | None = None,
            max_wait: float | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _read_match(self, "match")
        if not self.match:
            raise policy_error("match", None, "name at least one failure")
        _check_count("retries", self.retries, least=0)
        _check_waits(self.backoff, self.jitter, self.max_wait)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What is retried, how often, with which waits and for how long. Durations are in seconds.

    By default: 3 attempts, exponential backoff from 500 ms plus up to 250 ms of jitter, waits of at most 30 s, a
    deadline of 60 s, and only transient failures are retried.
    """

    attempts: int | None = 3
    """Total attempts, including the first; None: no limit."""
    backoff: Backoff = Backoff("exponential", 0.5)
    jitter: Jitter = Jitter("additive", 0.25)
    max_wait: float | None = 30.0
    """The cap: no computed wait is longer. None: no cap."""
    deadline: float | None = 60.0
    """Time limit for all attempts and waits together, from the start of the first attempt; None: no limit."""
    attempt_timeout: float | None = None
    """Time limit for one attempt; None: no limit."""
    timeout_growth: float = 1.5
    """After the first timeout, attempts get this multiple of `attempt_timeout`. It grows only once."""
    timeout_retries: int | None = None
    """Retries granted to attempts that exceeded `attempt_timeout`, whichever rule applies; None: no separate limit."""
    max_retry_after: float | None = 60.0
    """The longest Retry-After that is obeyed; a longer one ends the retries and is reported. None: no limit."""
    floor: float = 0.1
    """The minimum that a wait of zero is lifted to, unless jitter drew the zero. 0 allows retries without a wait."""
    retry_on: Match = TRANSIENT
    """The failures that are retried when no rule matches.

    Attempts that exceeded `attempt_timeout` or raised RetryAfter are retried as well. When `retry_on` is NOTHING, the
    last rule that grants retries applies to RetryAfter.
    """
    never_on: Match = NOTHING
    """The failures that are never retried; it overrides rules and `retry_on`."""
    rules: tuple[Rule, ...] = ()
    """Checked in order, before `retry_on`."""
    idempotent: bool | None = None
    """False: repeating the work does harm, so a failure that may have taken effect is not retried."""

    if TYPE_CHECKING:
        # `retry_on` and `never_on` may be written as the failures they mean; the fields hold a Match.
        def __init__(
            self,
            *,
            attempts: int | None = 3,
            backoff: Backoff = ...,
            jitter: Jitter = ...,
            max_wait: float | None = 30.0,
            deadline: float | None = 60.0,
            attempt_timeout: float | None = None,
            timeout_growth: float = 1.5,
            timeout_retries: int | None = None,
            max_retry_after: float | None = 60.0,
            floor: float = 0.1,
            retry_on: Failures = TRANSIENT,
            never_on: Failures = NOTHING,
            rules: tuple[Rule, ...] = (),
            idempotent: bool | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.attempts == 0:
            raise policy_error("attempts", 0, "use 1 for a single attempt without retries")
        _check_count("attempts", self.attempts, least=1)
        _check_count("timeout_retries", self.timeout_retries, least=0)
        _read_match(self, "retry_on")
        _read_match(self, "never_on")
        if not isinstance(self.rules, tuple) or not all(isinstance(rule, Rule) for rule in self.rules):
            raise policy_error("rules", self.rules, "use a tuple of Rule(match=..., retries=...)")
        if self.idempotent is not None and not isinstance(self.idempotent, bool):
            raise policy_error("idempotent", self.idempotent, "use True, False or None")
        if self.backoff is None or self.jitter is None:
            raise policy_error(
                "backoff" if self.backoff is None else "jitter",
                None,
                "leave it out for the default",
            )
        _check_waits(self.backoff, self.jitter, self.max_wait)
        for field in ("deadline", "attempt_timeout"):
            _check_duration(field, getattr(self, field), zero=False)
        _check_duration("max_retry_after", self.max_retry_after)
        if self.floor is None:
            raise policy_error("floor", None, "use seconds from 0; 0 allows waits of zero")
        _check_duration("floor", self.floor)
        if not (_is_number(self.timeout_growth) and 1 <= self.timeout_growth <= 10):
            raise policy_error("timeout_growth", self.timeout_growth, "use a factor from 1 to 10")

    def replace(self, **changes: Any) -> "Policy":
        """Return a copy of this policy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


def _check_count(field: str, value: int | None, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise policy_error(field, value, f"use a whole number from {least}, or None for no limit")


def _read_match(owner: msgspec.Struct, field: str) -> None:
    """Replace exception classes, names, statuses and predicates by the Match they mean."""
    value = getattr(owner, field)
    if not isinstance(value, Match):
        try:
            msgspec.structs.force_setattr(owner, field, as_match(value))
        except (TypeError, ValueError) as error:
            raise policy_error(field, value, str(error)) from None


def _check_duration(field: str, value: float | None, zero: bool = True) -> None:
    if value is None:
        return
    if not (_is_number(value) and 0 <= value <= LONGEST_WAIT) or (value == 0 and not zero):
        raise policy_error(
            field, value, f"use seconds {'from 0' if zero else 'above 0'} as a number, at most ten years"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_waits(backoff: Backoff | None, jitter: Jitter | None, max_wait: float | None) -> None:
    if backoff is not None:
        if not isinstance(backoff, Backoff) or backoff.kind not in get_args(BackoffKind):
            raise policy_error("backoff", backoff, "use constant(seconds), linear(seconds) or exponential(seconds)")
        _check_duration("backoff", backoff.base)
        if not (_is_number(backoff.factor) and 1 <= backoff.factor <= 1000):
            raise policy_error("factor", backoff.factor, "use a factor from 1 to 1000")
    if jitter is not None:
        if not isinstance(jitter, Jitter) or jitter.kind not in get_args(JitterKind):
            raise policy_error(
                "jitter", jitter, f"use Jitter(kind), with kind one of {', '.join(get_args(JitterKind))}"
            )
        _check_duration("jitter", -1 if jitter.amount is None else jitter.amount)
        if jitter.kind == "proportional" and jitter.amount > LARGEST_FRACTION:
            raise policy_error("jitter", jitter, "use a fraction from 0 to 10: 0.1 adds up to 10 %")
    _check_duration("max_wait", max_wait, zero=False)


DEFAULT_POLICY = Policy()

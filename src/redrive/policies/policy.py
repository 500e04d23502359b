"""The retry policy: immutable data that says what is retried, how often, how far apart and for how long."""

from typing import Any, get_args

import msgspec

from redrive.errors import PolicyError
from redrive.failures.matching import NOTHING, TRANSIENT, Match
from redrive.failures.redaction import redact
from redrive.policies.backoff import LONGEST_WAIT, Backoff, BackoffKind
from redrive.policies.jitter import Jitter, JitterKind


def policy_error(field: str, value: object, allowed: str) -> PolicyError:
    """Return the error for a field with an invalid value; secrets in the value are redacted."""
    return PolicyError(f"{field}: {redact(repr(value), 200)} is not allowed; {allowed}", field, value, allowed)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and waits of its own for the failures it matches; the first rule that matches answers.

    What is None is taken from the policy.
    """

    match: Match
    retries: int | None = None
    """Retries this rule grants, counted apart from all others; None: as many as the policy allows."""
    backoff: Backoff | None = None
    jitter: Jitter | None = None
    max_wait: float | None = None

    def __post_init__(self) -> None:
        _check_match("match", self.match)
        if not self.match:
            raise policy_error("match", None, "name at least one failure")
        _check_count("retries", self.retries, least=0)
        _check_waits(self.backoff, self.jitter, self.max_wait)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What is retried, how often, how far apart and for how long. Durations are seconds.

    The defaults: 3 attempts, exponential backoff from 500 ms with up to 250 ms added, waits of at most 30 s, and
    60 s for it all. Only transient failures are retried.
    """

    attempts: int | None = 3
    """Attempts in all, the first included; None: no limit."""
    backoff: Backoff = Backoff("exponential", 0.5)
    jitter: Jitter = Jitter("additive", 0.25)
    max_wait: float | None = 30.0
    """The cap: no computed wait exceeds it."""
    deadline: float | None = 60.0
    """Time for all attempts and waits together, from the start of the first."""
    attempt_timeout: float | None = None
    """Time for one attempt."""
    timeout_growth: float = 1.5
    """After the first timeout, attempts get this many times `attempt_timeout`; it grows once only."""
    timeout_retries: int | None = None
    """Retries granted to attempts that `attempt_timeout` cut, whatever answers them; None: no limit of their own."""
    max_retry_after: float | None = 60.0
    """The longest Retry-After that is obeyed; a longer one ends the retries and is reported. None: any."""
    floor: float = 0.1
    """What a zero wait between two failures is lifted to, unless chance drew it."""
    retry_on: Match = TRANSIENT
    """The failures that are retried where no rule answers.

    Attempts cut by `attempt_timeout`, and those that ended with RetryAfter, are retried with them; where nothing but
    rules retries, the last rule that grants a retry answers RetryAfter.
    """
    never_on: Match = NOTHING
    """The failures that are never retried, whatever else says so."""
    rules: tuple[Rule, ...] = ()
    """Asked in order before `retry_on`."""
    idempotent: bool | None = None
    """False: doing it twice does harm, so a failure that may have taken effect is not retried."""

    def __post_init__(self) -> None:
        if self.attempts == 0:
            raise policy_error("attempts", 0, "use 1 for a single attempt without retries")
        _check_count("attempts", self.attempts, least=1)
        _check_count("timeout_retries", self.timeout_retries, least=0)
        _check_match("retry_on", self.retry_on)
        _check_match("never_on", self.never_on)
        if not isinstance(self.rules, tuple) or not all(isinstance(rule, Rule) for rule in self.rules):
            raise policy_error("rules", self.rules, "use a tuple of Rule(match=..., retries=...)")
        if self.idempotent is not None and not isinstance(self.idempotent, bool):
            raise policy_error("idempotent", self.idempotent, "use True, False or None")
        if self.backoff is None or self.jitter is None:
            raise policy_error("backoff" if self.backoff is None else "jitter", None, "a policy needs one")
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
        """This policy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


def _check_count(field: str, value: int | None, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise policy_error(field, value, f"use a whole number from {least}, or None for no limit")


def _check_match(field: str, value: object) -> None:
    if not isinstance(value, Match):
        raise policy_error(field, value, "use a Match, such as TRANSIENT or as_match([ConnectionError, 'status:429'])")


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
    _check_duration("max_wait", max_wait, zero=False)


DEFAULT_POLICY = Policy()

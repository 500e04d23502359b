"""The values that `retry=` takes in a workflow, and the policies they stand for."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from redrive.errors import AttemptTimeoutError, RetryAfter
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.duration import read_duration
from redrive.failures.matching import ANYTHING, NOTHING, Match, as_match
from redrive.notation.read import read_policy
from redrive.policies.backoff import LONGEST_WAIT, Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule, policy_error
from redrive.policies.preview import CUT_ATTEMPT

NO_JITTER = Jitter("none")
LONGEST_BACKOFF = 3600.0
LONGEST_RETRY_AFTER = 3600.0
"""Durable work waits when it is asked to, for up to an hour: nobody holds a connection open meanwhile."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often an action is attempted, and how long to wait in between: the backoff doubles with each retry.

    RetryPolicy(attempts=3, exception_types=["NetworkError"], backoff_seconds=60)
    """

    attempts: int | None = 3
    """Total attempts, including the first; None is unlimited."""
    exception_types: Sequence[Any] | None = None
    """Names or classes of the exceptions to retry, including their subclasses; None or empty retries all."""
    backoff_seconds: float | timedelta = 0.0
    """Seconds before the first retry."""
    max_backoff_seconds: float | timedelta = LONGEST_BACKOFF
    """The longest wait, in seconds; by default an hour, or `backoff_seconds` if that is longer."""
    jitter: float = 0.1
    """The most that is added to a wait at random, as a fraction of it; a wait is never shorter than its backoff."""

    def __post_init__(self) -> None:
        types = self.exception_types
        if isinstance(types, str) or not (types is None or isinstance(types, Iterable)):
            raise policy_error("exception_types", types, 'use a list such as ["NetworkError"]')
        msgspec.structs.force_setattr(self, "exception_types", tuple(types or ()))
        as_policy(self)

    @property
    def match(self) -> Match:
        try:
            return as_match(self.exception_types) if self.exception_types else ANYTHING
        except (TypeError, ValueError) as error:
            raise policy_error("exception_types", self.exception_types, str(error)) from None

    @property
    def backoff(self) -> Backoff:
        try:
            return Backoff("exponential", read_duration(self.backoff_seconds))
        except ValueError as error:
            raise policy_error("backoff_seconds", self.backoff_seconds, str(error)) from None

    @property
    def max_wait(self) -> float:
        try:
            longest = read_duration(self.max_backoff_seconds)
        except ValueError as error:
            raise policy_error("max_backoff_seconds", self.max_backoff_seconds, str(error)) from None
        if not 0 < longest <= LONGEST_WAIT:
            allowed = "use a duration above 0, at most ten years"
            raise policy_error("max_backoff_seconds", self.max_backoff_seconds, allowed)
        # Only a limit that was set may shorten the first wait.
        return max(longest, self.backoff.base) if longest == LONGEST_BACKOFF else longest

    @property
    def spread(self) -> Jitter:
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise policy_error("jitter", self.jitter, "use a fraction of the wait from 0 to 1: 0.1 adds up to 10 %")
        return Jitter("proportional", float(self.jitter)) if self.jitter else NO_JITTER


Retry = Policy | RetryPolicy | str | Sequence[Policy | RetryPolicy]
"""A Policy, a RetryPolicy, a list of them (the first that matches a failure decides), or policy text such as
"[NetworkError -> retry: 5, backoff: 2m]"."""

Timeout = float | timedelta | str


def as_policy(retry: Retry, timeout: Timeout | None = None) -> Policy:
    """The policy that `retry` stands for, with `timeout` as the time limit of one attempt."""
    try:
        return _cached(tuple(retry) if isinstance(retry, list) else retry, timeout)
    except TypeError:
        return _build(retry, timeout)


def _build(retry: Any, timeout: Any) -> Policy:
    policy = _policy_of(retry)
    if timeout is None:
        return policy
    try:
        return policy.replace(attempt_timeout=read_duration(timeout))
    except ValueError as error:
        raise policy_error("timeout", timeout, str(error)) from None


_cached = lru_cache(maxsize=1000, typed=True)(_build)


def _policy_of(retry: Any) -> Policy:
    if isinstance(retry, Policy):
        return retry
    if isinstance(retry, RetryPolicy):
        return Policy(
            attempts=retry.attempts,
            retry_on=retry.match,
            backoff=retry.backoff,
            jitter=retry.spread,
            max_wait=retry.max_wait,
            deadline=None,
            max_retry_after=LONGEST_RETRY_AFTER,
        )
    if isinstance(retry, str):
        return read_policy(retry).policy
    if isinstance(retry, list | tuple) and retry:
        return _combine(retry)
    raise policy_error("retry", retry, "use a RetryPolicy, a Policy, a list of them, or policy text")


def _combine(listed: Sequence[Any]) -> Policy:
    """Combine policies: the first that matches a failure decides, and each counts its own retries.

    A failure that one of them never retries is never retried; if one says that the work is not idempotent, it is not.
    """
    policies = [_policy_of(one) for one in listed]
    for index, policy in enumerate(policies):
        _check_listed(policy, index)
    rules = [rule for policy in policies for rule in _as_rules(policy)]
    for signal, failure in _SIGNALS:
        if rules and not any(rule.match.matched_by(failure) for rule in rules):
            rules.append(msgspec.structs.replace(rules[0], match=Match(names=(signal.__name__,))))
    said = {policy.idempotent for policy in policies}
    return Policy(
        attempts=None,
        retry_on=NOTHING,
        never_on=as_match([policy.never_on for policy in policies]),
        rules=tuple(rules),
        backoff=Backoff("exponential", 0.0),
        jitter=NO_JITTER,
        max_wait=None,
        deadline=None,
        max_retry_after=LONGEST_RETRY_AFTER,
        idempotent=False if False in said else True if True in said else None,
    )


_SIGNALS = (
    (AttemptTimeoutError, CUT_ATTEMPT),
    (RetryAfter, DEFAULT_CLASSIFIER.failure_of(RetryAfter(0), 0.0)),
)
"""These are not errors of the action itself, so the first policy retries them whatever exceptions the policies name."""

_FOR_ALL_ATTEMPTS = ("deadline", "attempt_timeout", "timeout_growth", "timeout_retries", "max_retry_after", "floor")
"""Settings that span all attempts, which a single policy of a list cannot have."""


_COMBINED = (("deadline", None), ("max_retry_after", LONGEST_RETRY_AFTER))
"""What the combined policy has anyway."""


def _check_listed(policy: Policy, index: int) -> None:
    for field in _FOR_ALL_ATTEMPTS:
        value = getattr(policy, field)
        if value == getattr(DEFAULT_POLICY, field) or (field, value) in _COMBINED:
            continue
        instead = f"use one Policy(rules=(Rule(match=..., retries=...), ...), {field}={value!r}) instead of the list"
        if field == "attempt_timeout":
            instead = f"use timeout={value!r} beside retry="
        raise policy_error(f"retry[{index}].{field}", value, f"it applies to all attempts together; {instead}")


def _as_rules(policy: Policy) -> list[Rule]:
    retries = None if policy.attempts is None else policy.attempts - 1
    own = Rule(
        match=policy.retry_on or ANYTHING,
        retries=retries,
        backoff=policy.backoff,
        jitter=policy.jitter,
        max_wait=policy.max_wait,
    )
    # A rule takes what it leaves out from its own policy, which the combined policy does not have.
    rules = [
        Rule(
            match=rule.match,
            retries=min((count for count in (rule.retries, retries) if count is not None), default=None),
            backoff=rule.backoff or policy.backoff,
            jitter=rule.jitter or policy.jitter,
            max_wait=policy.max_wait if rule.max_wait is None else rule.max_wait,
        )
        for rule in policy.rules
    ]
    return [*rules, own] if policy.retry_on else rules

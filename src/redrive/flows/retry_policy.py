"""What may be written for `retry=` in a workflow, and the policy it makes."""

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
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule, policy_error
from redrive.policies.preview import CUT_ATTEMPT

NO_JITTER = Jitter("none")


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how far apart an action is tried; the backoff doubles with each retry.

    RetryPolicy(attempts=3, exception_types=["NetworkError"], backoff_seconds=60)
    """

    attempts: int | None = 3
    """Attempts in all, the first included; None: no limit."""
    exception_types: Sequence[Any] | None = None
    """Names or classes of the exceptions to retry, base classes too; None or empty: all."""
    backoff_seconds: float | timedelta = 0.0
    """The wait before the first retry, in seconds."""

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


Retry = Policy | RetryPolicy | str | Sequence[Policy | RetryPolicy]
"""A policy, a RetryPolicy, a list of these (each failure is answered by the first that matches), or policy text such
as "[NetworkError -> retry: 5, backoff: 2m]"."""

Timeout = float | timedelta | str


def as_policy(retry: Retry, timeout: Timeout | None = None) -> Policy:
    """The policy that `retry` says, with `timeout` as the time for one attempt."""
    try:
        return _remembered(tuple(retry) if isinstance(retry, list) else retry, timeout)
    except TypeError:
        return _made(retry, timeout)


def _made(retry: Any, timeout: Any) -> Policy:
    policy = _policy_of(retry)
    if timeout is None:
        return policy
    try:
        return policy.replace(attempt_timeout=read_duration(timeout))
    except ValueError as error:
        raise policy_error("timeout", timeout, str(error)) from None


_remembered = lru_cache(maxsize=1000, typed=True)(_made)


def _policy_of(retry: Any) -> Policy:
    if isinstance(retry, Policy):
        return retry
    if isinstance(retry, RetryPolicy):
        return Policy(
            attempts=retry.attempts,
            retry_on=retry.match,
            backoff=retry.backoff,
            jitter=NO_JITTER,
            max_wait=None,
            deadline=None,
        )
    if isinstance(retry, str):
        return read_policy(retry).policy
    if isinstance(retry, list | tuple) and retry:
        return _several(retry)
    raise policy_error("retry", retry, "use a RetryPolicy, a Policy, a list of them, or policy text")


def _several(listed: Sequence[Any]) -> Policy:
    """One policy that answers each failure by the first of these that matches it, each with its own counter.

    What any of them never retries is never retried, and what any declares not idempotent is not.
    """
    policies = [_policy_of(one) for one in listed]
    for index, policy in enumerate(policies):
        _check_listed(policy, index)
    rules = [rule for policy in policies for rule in _rules_of(policy)]
    for signal, failure in _WHATEVER_IS_NAMED:
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
        idempotent=False if False in said else True if True in said else None,
    )


_WHATEVER_IS_NAMED = (
    (AttemptTimeoutError, CUT_ATTEMPT),
    (RetryAfter, DEFAULT_CLASSIFIER.failure_of(RetryAfter(0), 0.0)),
)
"""No exceptions of what the action does: they are retried whatever the policies name, as the first of them says."""

_OF_THE_WHOLE = ("deadline", "attempt_timeout", "timeout_growth", "timeout_retries", "max_retry_after", "floor")
"""What is about all attempts together, and so cannot be about those that one policy of a list answers."""


def _check_listed(policy: Policy, index: int) -> None:
    for field in _OF_THE_WHOLE:
        value = getattr(policy, field)
        if value == getattr(DEFAULT_POLICY, field) or (field == "deadline" and value is None):
            continue
        instead = f"use one Policy(rules=(Rule(match=..., retries=...), ...), {field}={value!r}) instead of the list"
        if field == "attempt_timeout":
            instead = f"use timeout={value!r} beside retry="
        raise policy_error(f"retry[{index}].{field}", value, f"it is for all attempts together: {instead}")


def _rules_of(policy: Policy) -> list[Rule]:
    retries = None if policy.attempts is None else policy.attempts - 1
    own = Rule(
        match=policy.retry_on or ANYTHING,
        retries=retries,
        backoff=policy.backoff,
        jitter=policy.jitter,
        max_wait=policy.max_wait,
    )
    # What a rule leaves out comes from its own policy, which is no longer there to be asked.
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

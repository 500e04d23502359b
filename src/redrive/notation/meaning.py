"""The normal form of a policy, independent of how it was written.

Two policies with the same meaning treat every failure alike. Writers work from meanings, and comparing the meaning
before and after writing shows what a notation lost.
"""

import msgspec

from redrive.errors import AttemptTimeoutError
from redrive.failures.matching import ANYTHING, NOTHING, Match, written_name
from redrive.policies.backoff import LONGEST_WAIT, Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import DEFAULT_POLICY, Policy
from redrive.policies.preview import CUT_ATTEMPT


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How the failures that match are retried, with nothing left to inherit."""

    match: Match
    retries: int | None
    backoff: Backoff
    jitter: Jitter
    max_wait: float | None


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in normal form."""

    answers: tuple[Answer, ...]
    """In the order they are checked; empty when nothing is ever retried."""
    attempts: int | None
    never_on: Match
    deadline: float | None
    attempt_timeout: float | None
    timeout_growth: float
    timeout_retries: int | None
    max_retry_after: float | None
    floor: float
    idempotent: bool | None


def meaning_of(policy: Policy) -> Meaning:
    """Return the policy's normal form: rules and `retry_on` in one list, one limit of attempts, classes by name."""
    answers = [
        Answer(
            match=_plain_match(rule.match),
            retries=rule.retries,
            backoff=_plain_backoff(rule.backoff or policy.backoff),
            jitter=_plain_jitter(rule.jitter or policy.jitter),
            max_wait=_plain_cap(policy.max_wait if rule.max_wait is None else rule.max_wait),
        )
        for rule in policy.rules
    ]
    if policy.retry_on:
        match = policy.retry_on
        if policy.attempt_timeout is not None and match.matched_by(CUT_ATTEMPT) is None:
            # `retry_on` covers attempts that were cut, whatever it names; a rule covers only what it names.
            match = match | Match(names=(AttemptTimeoutError.__name__,))
        answers.append(
            Answer(
                match=_plain_match(match),
                retries=None,
                backoff=_plain_backoff(policy.backoff),
                jitter=_plain_jitter(policy.jitter),
                max_wait=_plain_cap(policy.max_wait),
            )
        )
    attempts = policy.attempts
    if len(answers) == 1 and answers[0].retries is not None:
        # The limit of the only answer limits the attempts.
        attempts = min(attempts or answers[0].retries + 1, answers[0].retries + 1)
        answers = [msgspec.structs.replace(answers[0], retries=None)]
    if attempts == 1 or not answers:
        attempts, answers = 1, []
    retried = bool(answers)
    default = DEFAULT_POLICY
    return Meaning(
        answers=tuple(answers),
        attempts=attempts,
        never_on=_plain_match(policy.never_on) if retried else NOTHING,
        deadline=policy.deadline,
        attempt_timeout=policy.attempt_timeout,
        timeout_growth=policy.timeout_growth if retried else default.timeout_growth,
        timeout_retries=policy.timeout_retries if retried else default.timeout_retries,
        max_retry_after=policy.max_retry_after if retried else default.max_retry_after,
        floor=policy.floor if retried else default.floor,
        idempotent=policy.idempotent,
    )


def differences(wanted: Meaning, got: Meaning) -> list[tuple[str, object, object]]:
    """Return (field, wanted value, actual value) for each field in which two meanings differ."""
    found: list[tuple[str, object, object]] = [
        (field, getattr(wanted, field), getattr(got, field))
        for field in Meaning.__struct_fields__
        if field != "answers" and _differ(getattr(wanted, field), getattr(got, field))
    ]
    if len(wanted.answers) != len(got.answers):
        return [("rules", wanted.answers, got.answers), *found]
    for index, (one, other) in enumerate(zip(wanted.answers, got.answers, strict=True)):
        prefix = f"rules[{index}]." if len(wanted.answers) > 1 else ""
        for field in Answer.__struct_fields__:
            if _differ(getattr(one, field), getattr(other, field)):
                name = "retry_on" if field == "match" and not prefix else f"{prefix}{field}"
                found.append((name, getattr(one, field), getattr(other, field)))
    return found


def _differ(one: object, other: object) -> bool:
    if isinstance(one, Match) and isinstance(other, Match):
        # The order of the names does not matter.
        return any(set(getattr(one, field)) != set(getattr(other, field)) for field in Match.__struct_fields__)
    return one != other


def _plain_match(match: Match) -> Match:
    if "any" in match.categories:
        return ANYTHING
    names = (*(written_name(kind) for kind in match.types), *match.names)
    return Match(
        categories=tuple(dict.fromkeys(match.categories)),
        names=tuple(dict.fromkeys(names)),
        statuses=tuple(dict.fromkeys(match.statuses)),
        predicates=match.predicates,
    )


def _plain_backoff(backoff: Backoff) -> Backoff:
    if backoff.kind == "exponential" and backoff.factor != 1 and backoff.base > 0:
        return backoff
    return Backoff("linear" if backoff.kind == "linear" and backoff.base > 0 else "constant", backoff.base)


def _plain_cap(cap: float | None) -> float | None:
    return None if cap is None or cap >= LONGEST_WAIT else cap


def _plain_jitter(jitter: Jitter) -> Jitter:
    if jitter.kind not in ("additive", "proportional"):
        return Jitter(jitter.kind)
    return jitter if jitter.amount > 0 else Jitter("none")

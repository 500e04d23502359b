"""What a policy means, with the ways of saying it taken out.

Two policies with the same meaning answer every failure alike. Writers write meanings down, and the check that nothing
was lost compares the meaning of what was written with the meaning that was to be written.
"""

import msgspec

from redrive.errors import AttemptTimeoutError
from redrive.failures.matching import ANYTHING, NOTHING, Match, qualified_name
from redrive.policies.backoff import LONGEST_WAIT, Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import DEFAULT_POLICY, Policy
from redrive.policies.preview import CUT_ATTEMPT


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to some failures; nothing is left to inherit."""

    match: Match
    retries: int | None
    backoff: Backoff
    jitter: Jitter
    max_wait: float | None


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in normal form."""

    answers: tuple[Answer, ...]
    """In the order they are asked; empty when nothing is ever retried."""
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
    """The policy's normal form: rules and `retry_on` in one list, limits in one place, classes by name."""
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
            # `retry_on` answers attempts that were cut whatever it names; a rule answers only what it names.
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
        # One answer's own limit is a limit on the attempts.
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
    """Field, the value wanted, the value got, for each field in which two meanings differ."""
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
        # The order in which failures are named changes nothing.
        return any(set(getattr(one, field)) != set(getattr(other, field)) for field in Match.__struct_fields__)
    return one != other


def _plain_match(match: Match) -> Match:
    if "any" in match.categories:
        return ANYTHING
    names = (*(_name(kind) for kind in match.types), *match.names)
    return Match(
        categories=tuple(dict.fromkeys(match.categories)),
        names=tuple(dict.fromkeys(names)),
        statuses=tuple(dict.fromkeys(match.statuses)),
        predicates=match.predicates,
    )


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else qualified_name(kind)


def _plain_backoff(backoff: Backoff) -> Backoff:
    if backoff.kind == "exponential" and backoff.factor != 1 and backoff.base > 0:
        return backoff
    return Backoff("linear" if backoff.kind == "linear" and backoff.base > 0 else "constant", backoff.base)


def _plain_cap(cap: float | None) -> float | None:
    return None if cap is None or cap >= LONGEST_WAIT else cap


def _plain_jitter(jitter: Jitter) -> Jitter:
    if jitter.kind == "additive" and jitter.amount > 0:
        return jitter
    return Jitter("none" if jitter.kind == "additive" else jitter.kind)

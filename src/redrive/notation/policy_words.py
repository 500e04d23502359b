"""A policy in words, for people who read none of the notations."""

from redrive.errors import NotationError
from redrive.failures.matching import Match
from redrive.notation.durations import write_duration
from redrive.notation.formats.native import failures_as_texts
from redrive.notation.wait_text import write_backoff
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter, write_percentage
from redrive.policies.policy import Policy, Rule

MOST_RULES = 10


def policy_in_words(policy: Policy) -> str:
    """Return what the policy does: "up to 3 attempts within 1m; waits: exponential 500ms, ...; retries: transient"."""
    parts = [_attempts(policy)]
    if policy.attempts != 1:
        parts.append(f"waits: {_waits(policy.backoff, policy.jitter, policy.max_wait)}")
    if policy.attempt_timeout is not None:
        parts.append(f"an attempt may take {write_duration(policy.attempt_timeout)}")
    if policy.retry_on or not policy.rules:
        parts.append(f"retries {_failures(policy.retry_on)}")
    parts += [_rule(policy, rule) for rule in policy.rules[:MOST_RULES]]
    if len(policy.rules) > MOST_RULES:
        parts.append(f"and {len(policy.rules) - MOST_RULES} more rules")
    if policy.never_on:
        parts.append(f"never retries {_failures(policy.never_on)}")
    return "; ".join(parts)


def _attempts(policy: Policy) -> str:
    count = "any number of attempts"
    if policy.attempts is not None:
        count = "1 attempt" if policy.attempts == 1 else f"up to {policy.attempts} attempts"
    return count if policy.deadline is None else f"{count} within {write_duration(policy.deadline)}"


def _rule(policy: Policy, rule: Rule) -> str:
    if rule.retries == 0:
        return f"does not retry {_failures(rule.match)}"
    retries = "" if rule.retries is None else " once" if rule.retries == 1 else f" {rule.retries} times"
    text = f"retries {_failures(rule.match)}{retries}"
    if rule.backoff is None and rule.jitter is None and rule.max_wait is None:
        return text
    cap = policy.max_wait if rule.max_wait is None else rule.max_wait
    return f"{text}, waits: {_waits(rule.backoff or policy.backoff, rule.jitter or policy.jitter, cap)}"


def _waits(backoff: Backoff, jitter: Jitter, cap: float | None) -> str:
    try:
        text = write_backoff(backoff, "backoff")
    except NotationError:
        text = backoff.kind
    return ", ".join(one for one in (text, _JITTER.get(jitter.kind) or _jitter(jitter), _cap(cap)) if one)


_JITTER = {
    "full": "each anywhere from nothing to that",
    "equal": "each anywhere from half of that",
    "decorrelated": "each up to three times the one before",
}


def _jitter(jitter: Jitter) -> str:
    if not jitter.amount:
        return ""
    amount = write_percentage(jitter.amount) if jitter.kind == "proportional" else write_duration(jitter.amount)
    return f"up to {amount} more at random"


def _cap(seconds: float | None) -> str:
    return "" if seconds is None else f"none above {write_duration(seconds)}"


def _failures(match: Match) -> str:
    if match.predicates:
        return "what a function of yours decides"
    try:
        return ", ".join(failures_as_texts(match, "match")) or "nothing"
    except NotationError:
        return "some failures"

"""Lint rules about limits: how often and for how long work is retried."""

from collections.abc import Iterator

from redrive.notation.durations import write_duration
from redrive.notation.linting.coverage import covers
from redrive.notation.linting.findings import Check, Finding, Subject
from redrive.notation.meaning import Meaning
from redrive.policies.preview import CUT_ATTEMPT

MANY_ATTEMPTS = 20
LONG_WAIT = 300.0


def no_bound(subject: Subject) -> Iterator[Finding]:
    """RD002"""
    if subject.policy.deadline is None and most_attempts(subject.meaning) is None:
        text = "neither attempts nor time are limited: work that cannot succeed is retried forever"
        yield subject.finding("RD002", "attempts", text, "bound")


def not_idempotent(subject: Subject) -> Iterator[Finding]:
    """RD003"""
    if subject.policy.idempotent is False and subject.meaning.answers:
        text = "the work is declared not idempotent, so only requests that were certainly never sent are retried"
        instead = "give the work an idempotency key and write idempotent: true, or write attempts: 1"
        yield subject.finding("RD003", "idempotent", text, instead)


def longer_than_deadline(subject: Subject) -> Iterator[Finding]:
    """RD005"""
    deadline = subject.policy.deadline
    if deadline is None:
        return
    played = [one for one in subject.previews if one.uncut_total is not None and one.uncut_total >= deadline]
    if not played:
        return
    worst = max(played, key=lambda one: one.uncut_total or 0.0)
    needs = write_duration(round(worst.uncut_total or 0.0, 3))
    if worst.ends == "deadline":
        happens = f"attempt {(worst.attempts or 0) + 1} and later ones can never happen"
    else:
        happens = f"only {worst.attempts_at_worst} of {worst.attempts} are certain to happen"
    text = f"at worst the attempts need {needs}, but the deadline is {write_duration(deadline)}: {happens}"
    instead = f"write a deadline above {needs}, or fewer attempts"
    yield subject.finding("RD005", "deadline", text, instead)


def timeout_at_deadline(subject: Subject) -> Iterator[Finding]:
    """RD009"""
    timeout, deadline = subject.policy.attempt_timeout, subject.policy.deadline
    if timeout is not None and deadline is not None and timeout >= deadline and subject.meaning.answers:
        text = f"one attempt may take {write_duration(timeout)}, the whole deadline of {write_duration(deadline)}"
        instead = f"write an attempt timeout well under {write_duration(deadline)}, such as a third of it"
        yield subject.finding("RD009", "attempt_timeout", text, instead)


def many_attempts(subject: Subject) -> Iterator[Finding]:
    """RD012"""
    most = most_attempts(subject.meaning)
    if most is not None and most > MANY_ATTEMPTS and subject.policy.deadline is None:
        text = f"{most} attempts without a deadline keep failing work, and the load it causes, alive for a long time"
        yield subject.finding("RD012", "attempts", text, "deadline")


def long_wait(subject: Subject) -> Iterator[Finding]:
    """RD013"""
    longest = max((row.high or 0.0 for one in subject.previews for row in one.rows), default=0.0)
    if subject.policy.deadline is not None:
        # A retry that would begin after the deadline is not waited for.
        longest = min(longest, subject.policy.deadline)
    if longest > LONG_WAIT:
        text = (
            f"a wait can be as long as {write_duration(round(longest, 3))}; in process that holds a task, "
            "its memory and its connections, and a restart loses it"
        )
        yield subject.finding("RD013", "max_wait", text, "max_wait")


def nothing_left_to_apply(subject: Subject) -> Iterator[Finding]:
    """RD016"""
    if subject.policy.attempts == 1 and any(subject.is_written(field) for field in ("rules", "backoff", "jitter")):
        # `retryable: false` of the template notation has its own rule.
        if any(warning.id == "retryable-false" for warning in subject.reading.warnings):
            return
        fields = [field for field in ("rules", "backoff", "jitter") if subject.is_written(field)]
        text = f"with only one attempt, {' and '.join(fields)} never {'apply' if len(fields) > 1 else 'applies'}"
        yield subject.finding("RD016", fields[0], text, "remove it, or allow more attempts")


def retry_after_past_deadline(subject: Subject) -> Iterator[Finding]:
    """RD017"""
    longest, deadline = subject.policy.max_retry_after, subject.policy.deadline
    if not subject.is_written("max_retry_after") or deadline is None or not subject.meaning.answers:
        return
    if longest is None or longest > deadline:
        accepted = "of any length" if longest is None else f"up to {write_duration(longest)}"
        text = f"a Retry-After {accepted} is accepted, but the deadline of {write_duration(deadline)} ends it sooner"
        instead = f"write max_retry_after: {write_duration(deadline)} or less, or a longer deadline"
        yield subject.finding("RD017", "max_retry_after", text, instead)


def timeouts_not_retried(subject: Subject) -> Iterator[Finding]:
    """RD019"""
    policy = subject.policy
    if policy.attempt_timeout is None or policy.retry_on or not subject.meaning.answers:
        return
    if not any(rule.match.matched_by(CUT_ATTEMPT) for rule in policy.rules):
        text = "attempts that exceed their timeout are not retried: no rule matches them"
        instead = "name TimeoutError in a rule if they should be retried"
        yield subject.finding("RD019", "attempt_timeout", text, instead)


def rule_above_limit(subject: Subject) -> Iterator[Finding]:
    """RD020"""
    attempts = subject.meaning.attempts
    for answered_by, answer in subject.answers:
        if attempts is not None and answer.retries is not None and answer.retries >= attempts:
            text = f"it grants {answer.retries} retries, but there are only {attempts} attempts in total"
            instead = f"write attempts: {answer.retries + 1} or more, or retries: {attempts - 1} at most"
            yield subject.finding("RD020", answered_by, text, instead)


def unreachable_rule(subject: Subject) -> Iterator[Finding]:
    """RD015"""
    for index, rule in enumerate(subject.policy.rules):
        field = f"rules[{index}]"
        if covers(subject.policy.never_on, rule.match):
            text = "it never applies: never_on names the same failures"
            yield subject.finding("RD015", field, text, "remove the rule, or its failures from never_on")
            continue
        for earlier, other in enumerate(subject.policy.rules[:index]):
            if covers(other.match, rule.match):
                first = subject.reading.written.get(f"rules[{earlier}]", f"rules[{earlier}]")
                text = f"it never applies: {first} matches the same failures and is checked first"
                yield subject.finding("RD015", field, text, "put the narrower rule first")
                break


def most_attempts(meaning: Meaning) -> int | None:
    """Return the most attempts there can be, whatever fails; None: no limit."""
    if meaning.attempts is not None:
        return meaning.attempts
    total = 1
    for answer in meaning.answers:
        if answer.retries is None:
            return None
        total += answer.retries
    return total


CHECKS: tuple[Check, ...] = (
    no_bound,
    not_idempotent,
    longer_than_deadline,
    timeout_at_deadline,
    many_attempts,
    long_wait,
    unreachable_rule,
    nothing_left_to_apply,
    retry_after_past_deadline,
    timeouts_not_retried,
    rule_above_limit,
)

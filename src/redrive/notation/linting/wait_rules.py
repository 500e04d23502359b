"""Lint rules about waits, and about which failures are retried."""

import builtins
from collections.abc import Iterator

from redrive.failures.matching import Match
from redrive.near_names import NEARLY_THE_SAME, near_name
from redrive.notation.durations import write_duration
from redrive.notation.failure_names import RENAMED
from redrive.notation.linting.findings import RULES, Check, Finding, Subject
from redrive.policies.decide import SHORTEST_WAIT
from redrive.policies.policy import Policy


def no_jitter(subject: Subject) -> Iterator[Finding]:
    """RD001"""
    for answered_by, answer in subject.answers:
        if answer.jitter.kind == "none":
            text = "without jitter, all clients that failed together retry together, and fail together again"
            yield subject.finding("RD001", subject.field_of(answered_by, "jitter"), text, "jitter")


def retryable_false(subject: Subject) -> Iterator[Finding]:
    """RD007"""
    for warning in subject.reading.warnings:
        if warning.id == "retryable-false":
            yield Finding(
                id="RD007",
                severity=RULES["RD007"].severity,
                key=warning.key,
                line=warning.line,
                text=warning.text,
                instead="write max_attempts: 1",
            )


def cap_below_base(subject: Subject) -> Iterator[Finding]:
    """RD010"""
    for answered_by, answer in subject.answers:
        if answer.max_wait is not None and answer.max_wait < answer.backoff.base:
            base, cap = write_duration(answer.backoff.base), write_duration(answer.max_wait)
            text = f"the backoff begins at {base}, above the cap of {cap}: every wait is the cap"
            instead = f"write a cap above {base}, or constant backoff of {cap}"
            yield subject.finding("RD010", subject.field_of(answered_by, "max_wait"), text, instead)


def zero_backoff(subject: Subject) -> Iterator[Finding]:
    """RD011"""
    for answered_by, answer in subject.answers:
        if answer.backoff.base < SHORTEST_WAIT:
            floor = subject.policy.floor
            becomes = f"it is lifted to {write_duration(floor)} each time" if floor else "this is a tight loop"
            text = f"there is no wait between attempts; {becomes}"
            yield subject.finding("RD011", subject.field_of(answered_by, "backoff"), text, "backoff")


def unknown_failures(subject: Subject) -> Iterator[Finding]:
    """RD014"""
    if subject.policy.idempotent is not None:
        return
    for answered_by, answer in subject.answers:
        if {"any", "unknown"} & set(answer.match.categories):
            text = (
                "unclassified failures are retried, including programming errors, and the policy does not say "
                "whether repeating the work does harm"
            )
            yield subject.finding("RD014", answered_by, text, "retry_on")
            return


def permanent_failures(subject: Subject) -> Iterator[Finding]:
    """RD021"""
    for answered_by, answer in subject.answers:
        if "permanent" in answer.match.categories:
            text = "permanent failures are retried; they fail the same way each time"
            yield subject.finding("RD021", answered_by, text, "retry_on")


def old_names(subject: Subject) -> Iterator[Finding]:
    """RD018"""
    for field, name in _names(subject.policy):
        if name in RENAMED:
            text = f"no error has the class name {name}: Python keeps it as an alias of {RENAMED[name]}"
            yield subject.finding("RD018", field, text, f"write {RENAMED[name]}")


def misspelled_names(subject: Subject) -> Iterator[Finding]:
    """RD023"""
    for field, name in _names(subject.policy):
        if name not in RENAMED and name not in _BUILT_IN and (meant := near_name(name, _BUILT_IN, NEARLY_THE_SAME)):
            text = f"{name} is almost the name of Python's {meant}, which it does not match"
            yield subject.finding("RD023", field, text, f"write {meant}, if that is meant")


def _names(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each class name in the policy, after the field that has it."""
    matches: list[tuple[str, Match]] = [("retry_on", policy.retry_on), ("never_on", policy.never_on)]
    matches += [(f"rules[{index}]", rule.match) for index, rule in enumerate(policy.rules)]
    for field, match in matches:
        for name in match.names:
            yield field, name


_BUILT_IN = tuple(
    name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
)


CHECKS: tuple[Check, ...] = (
    no_jitter,
    retryable_false,
    cap_below_base,
    zero_backoff,
    unknown_failures,
    old_names,
    misspelled_names,
    permanent_failures,
)

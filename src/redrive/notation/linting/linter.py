"""The linter: finds problems in policies, with the line, the reason and what to write instead."""

from collections.abc import Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.notation.documents import Found, find_policies
from redrive.notation.linting import limit_rules, wait_rules
from redrive.notation.linting.findings import RULES, Finding, Subject
from redrive.notation.linting.limit_rules import most_attempts
from redrive.notation.meaning import meaning_of
from redrive.notation.place import Place
from redrive.notation.read import AUTO, known, read_as, read_policy, unwrapped
from redrive.notation.reading import Reading
from redrive.notation.recognise import looks_like_brackets, looks_like_call, nearest_notation
from redrive.notation.source import load_document
from redrive.policies.policy import Policy

__all__ = ["RULES", "Finding", "lint", "lint_text"]

_CHECKS = (*wait_rules.CHECKS, *limit_rules.CHECKS)
_REPAIRS = 5


def lint(policy: Reading | Policy, inside: Reading | Policy | None = None) -> list[Finding]:
    """Lint a policy. `inside`: the policy of an outer call that encloses the one this policy guards."""
    if isinstance(policy, Reading):
        subject = Subject(policy, bare=False)
    else:
        subject = Subject(Reading(policy=policy, notation="native"), bare=True)
    findings = [finding for check in _CHECKS for finding in check(subject)]
    if inside is not None:
        findings += _nested(subject, [inside.policy if isinstance(inside, Reading) else inside])
    return sorted(findings, key=lambda finding: (finding.line or 0, finding.id))


def lint_text(
    text: str, notation: str = AUTO, source: str = "<text>", inside: Reading | Policy | None = None
) -> list[Finding]:
    """Lint all policies in a text, which may be a larger document.

    Mistakes that have a lint rule become findings, even if the policy cannot be read; others raise NotationError.
    """
    is_document = not looks_like_brackets(text) and not looks_like_call(text)
    if notation == "brackets" or not is_document:
        try:
            return lint(read_policy(text, notation, source), inside)
        except NotationError as error:
            if not error.rule:
                raise
            return [_refused(error)]
    document = load_document(text, source)
    found: list[Found] = []
    if notation == AUTO:
        found = find_policies(document.data, document.place)
        notation = "" if found else nearest_notation(document.data, document.place)
    if notation:
        found = [Found(notation, *unwrapped(known(notation).name, document.data, document.place))]
    return _lint_all(found, inside)


def _lint_all(found: list[Found], inside: Reading | Policy | None) -> list[Finding]:
    findings: list[Finding] = []
    readings: dict[tuple[str | int, ...], Reading] = {}
    for one in found:
        reading = _read_repaired(one.data, one.place, one.notation, findings)
        readings[one.place.path] = reading
        findings += lint(reading, inside)
        around = [readings[other.place.path].policy for other in one.inside]
        findings += _nested(Subject(reading, bare=False), around)
    return sorted(findings, key=lambda finding: (finding.line or 0, finding.id))


def _nested(subject: Subject, around: list[Policy]) -> list[Finding]:
    """RD004"""
    counts = [most_attempts(meaning_of(policy)) for policy in (*around, subject.policy)]
    if len([count for count in counts if count != 1]) < 2:
        return []
    if None in counts:
        calls = "without any limit"
    else:
        product = 1
        for count in counts:
            product *= count or 1
        calls = f"{' x '.join(str(count) for count in counts)} = {product} calls"
    text = f"nested policies: the outer policy repeats each attempt of the inner one, {calls}"
    return [subject.finding("RD004", "attempts", text, "let one layer retry, and write 1 attempt for the other")]


def _read_repaired(data: Any, place: Place, notation: str, findings: list[Finding]) -> Reading:
    """Read a policy; mistakes that have a lint rule become findings and are corrected, so that the rest is read."""
    for _ in range(_REPAIRS):
        try:
            return read_as(notation, data, place)
        except NotationError as error:
            if not error.rule or not isinstance(data, Mapping) or error.path[:-1] != place.path:
                raise
            findings.append(_refused(error))
            data, place = _repaired(data, place, error)
    return read_as(notation, data, place)


def _repaired(data: Mapping[str, Any], place: Place, error: NotationError) -> tuple[dict[str, Any], Place]:
    key = str(error.path[-1])
    repaired = dict(data)
    if error.rule == "RD006":
        repaired[key] = 1
        return repaired, place
    # RD008: the key changes, the value stays.
    value = repaired.pop(key)
    positions = dict(place.positions)
    repaired.setdefault("max_attempts", value)
    if error.path in positions:
        positions.setdefault((*place.path, "max_attempts"), positions[error.path])
    return repaired, Place(place.source, positions, place.path)


def _refused(error: NotationError) -> Finding:
    bare = str(error.path[-1]) if error.path else error.key
    instead = {"RD006": f"write {bare}: 1", "RD008": "write max_attempts, the total number of attempts"}
    return Finding(
        id=error.rule,
        severity=RULES[error.rule].severity,
        key=error.key,
        line=error.line,
        text=error.problem,
        instead=instead[error.rule] if error.rule == "RD008" or bare != "stop" else "write stop_after_attempt(1)",
    )

"""The lint rules, their findings, and the policy that is checked."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal

import msgspec

from redrive.notation.catalogue import NOTATIONS
from redrive.notation.linting.advice import DIALECTS, advice_on
from redrive.notation.meaning import Answer, Meaning, meaning_of
from redrive.notation.reading import Reading
from redrive.policies.policy import DEFAULT_POLICY, Policy
from redrive.policies.preview import Preview, preview, usual_failures

Severity = Literal["error", "warning", "info"]
"""error: it cannot work. warning: it will do harm one day. info: worth knowing."""


# The linter previews fewer attempts and rules than `preview` does: enough for the waits to reach their cap, or the
# attempts to reach the deadline.
_HORIZON = 200
_HORIZON_TO_DEADLINE = 1000
_PREVIEWS = 40


class LintRule(msgspec.Struct, frozen=True):
    """A lint rule."""

    severity: Severity
    summary: str


RULES: Mapping[str, LintRule] = {
    "RD001": LintRule("warning", "no jitter"),
    "RD002": LintRule("warning", "no bound: neither attempts nor time are limited"),
    "RD003": LintRule("warning", "retries on work that is declared not idempotent"),
    "RD004": LintRule("warning", "nested policies: the attempts multiply"),
    "RD005": LintRule("warning", "the worst case is longer than the deadline"),
    "RD006": LintRule("error", "no attempt at all (0)"),
    "RD007": LintRule("warning", "retryable: false with max_attempts above 1"),
    "RD008": LintRule("error", "retry_limit, the old name of max_attempts"),
    "RD009": LintRule("warning", "one attempt may take the whole deadline"),
    "RD010": LintRule("warning", "the cap is below the first wait"),
    "RD011": LintRule("warning", "no wait between attempts"),
    "RD012": LintRule("warning", "more than 20 attempts without a deadline"),
    "RD013": LintRule("info", "a wait may be longer than 5 minutes"),
    "RD014": LintRule("info", "unclassified failures are retried"),
    "RD015": LintRule("warning", "a rule that never applies"),
    "RD016": LintRule("info", "settings that never apply, because there is one attempt"),
    "RD017": LintRule("info", "max_retry_after is longer than the deadline"),
    "RD018": LintRule("warning", "an old class name that no error has"),
    "RD019": LintRule("warning", "attempts cut by their timeout are not retried"),
    "RD020": LintRule("warning", "a rule grants more retries than there are attempts"),
    "RD021": LintRule("warning", "permanent failures are retried"),
    "RD022": LintRule("warning", "a client that retries by itself, beside redrive"),
    "RD023": LintRule("warning", "a class name that is almost a built-in exception's"),
}
"""Ids are stable: an id keeps its meaning and is not reused when its rule is removed."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem or possible improvement."""

    id: str
    """One of RULES."""
    severity: Severity
    key: str
    """The key, as the notation spells it."""
    line: int | None
    text: str
    """What is wrong, and why it matters."""
    instead: str
    """What to write instead."""


class Subject:
    """The policy that is checked."""

    def __init__(self, reading: Reading, bare: bool) -> None:
        """`bare`: the policy was built in Python, so only values that differ from the defaults count as set."""
        self.reading = reading
        self.policy: Policy = reading.policy
        self.meaning: Meaning = meaning_of(self.policy)
        self._bare = bare
        self._spelling = NOTATIONS[reading.notation].spelling

    @property
    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Yield each answer of the policy's meaning with the policy field it comes from."""
        for index, answer in enumerate(self.meaning.answers):
            yield (f"rules[{index}]" if index < len(self.policy.rules) else "retry_on"), answer

    @cached_property
    def previews(self) -> list[Preview]:
        """Previews of the failures that the policy retries."""
        failures = usual_failures(self.policy)[:_PREVIEWS]
        horizon = _HORIZON if self.policy.deadline is None else _HORIZON_TO_DEADLINE
        return [preview(self.policy, failure, rows=horizon, horizon=horizon) for failure in failures]

    def is_written(self, field: str) -> bool:
        """Whether a field was set and not left to its default."""
        if self._bare:
            return bool(getattr(self.policy, field) != getattr(DEFAULT_POLICY, field))
        return field in self.reading.written

    def field_of(self, answered_by: str, field: str) -> str:
        """Return the field that sets a wait: the rule that applies, or the policy's own field."""
        return answered_by if answered_by.startswith("rules") else field

    def finding(
        self,
        id: str,  # noqa: A002 - the name of the field it fills
        field: str,
        text: str,
        instead: str,
    ) -> Finding:
        """Create a finding. `instead` is a sentence, or a subject that `advice_on` knows."""
        written = self.reading.written.get(field)
        return Finding(
            id=id,
            severity=RULES[id].severity,
            key=DIALECTS.get(self.reading.dialect, {}).get(field) or written or self._spelling.get(field) or field,
            line=self.reading.line_of(field),
            text=text,
            instead=advice_on(instead, self.reading.notation, self.reading.dialect)
            if instead.isidentifier()
            else instead,
        )


Check = Callable[[Subject], Iterator[Finding]]
"""A function that checks one rule."""

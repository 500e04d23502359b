"""What the linter says, and what it looks at."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal

import msgspec

from redrive.notation.catalogue import NOTATIONS
from redrive.notation.linting.advice import advice
from redrive.notation.meaning import Answer, Meaning, meaning_of
from redrive.notation.reading import Reading
from redrive.policies.policy import DEFAULT_POLICY, Policy
from redrive.policies.preview import Preview, preview, usual_failures

Severity = Literal["error", "warning", "info"]
"""error: it cannot work. warning: it does harm one day. info: worth knowing."""


# What is played through here only has to show whether limits are met, so a shorter look and fewer rules will do:
# without a deadline far enough for the waits to have reached their cap, with one far enough to reach it.
_HORIZON = 200
_HORIZON_TO_DEADLINE = 1000
_PREVIEWS = 40


class LintRule(msgspec.Struct, frozen=True):
    """What a rule is about."""

    severity: Severity
    summary: str


RULES: Mapping[str, LintRule] = {
    "RD001": LintRule("warning", "no jitter"),
    "RD002": LintRule("warning", "no bound: neither attempts nor time are limited"),
    "RD003": LintRule("warning", "retries on work that is declared not idempotent"),
    "RD004": LintRule("warning", "a policy inside another: the attempts multiply"),
    "RD005": LintRule("warning", "the worst case is longer than the deadline"),
    "RD006": LintRule("error", "no attempt at all (0)"),
    "RD007": LintRule("warning", "retryable: false with max_attempts above 1"),
    "RD008": LintRule("error", "retry_limit, the old name of max_attempts"),
    "RD009": LintRule("warning", "one attempt may take the whole deadline"),
    "RD010": LintRule("warning", "the cap is below the first wait"),
    "RD011": LintRule("warning", "no wait between attempts"),
    "RD012": LintRule("warning", "more than 20 attempts without a deadline"),
    "RD013": LintRule("info", "a wait may be longer than 5 minutes"),
    "RD014": LintRule("info", "failures nobody has classified are retried"),
    "RD015": LintRule("warning", "a rule that never answers"),
    "RD016": LintRule("info", "settings that never apply, because there is one attempt"),
    "RD017": LintRule("info", "a Retry-After is accepted that the deadline does not allow"),
    "RD018": LintRule("warning", "an old class name, which no error has"),
    "RD019": LintRule("warning", "attempts cut by their timeout are not retried"),
    "RD020": LintRule("warning", "a rule grants more retries than there are attempts"),
    "RD021": LintRule("warning", "permanent failures are retried"),
}
"""Stable: an id keeps its meaning, and is not used again when its rule goes."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that could be better."""

    id: str
    """One of RULES."""
    severity: Severity
    key: str
    """The key it is about, as the notation calls it."""
    line: int | None
    text: str
    """What is wrong, and why it matters."""
    instead: str
    """What to write."""


class Subject:
    """A reading under the linter's eye."""

    def __init__(self, reading: Reading, bare: bool) -> None:
        """`bare`: the policy came from Python and was not written down anywhere."""
        self.reading = reading
        self.policy: Policy = reading.policy
        self.meaning: Meaning = meaning_of(self.policy)
        self._bare = bare
        self._spelling = NOTATIONS[reading.notation].spelling

    @property
    def answers(self) -> Iterator[tuple[str, Answer]]:
        """What the policy does to failures, each with the policy field it comes from; none when nothing is retried."""
        for index, answer in enumerate(self.meaning.answers):
            yield (f"rules[{index}]" if index < len(self.policy.rules) else "retry_on"), answer

    @cached_property
    def previews(self) -> list[Preview]:
        """What will happen to the failures the policy is about."""
        failures = usual_failures(self.policy)[:_PREVIEWS]
        horizon = _HORIZON if self.policy.deadline is None else _HORIZON_TO_DEADLINE
        return [preview(self.policy, failure, rows=horizon, horizon=horizon) for failure in failures]

    def is_written(self, field: str) -> bool:
        """True when a field was set, and not left to its default."""
        if self._bare:
            return bool(getattr(self.policy, field) != getattr(DEFAULT_POLICY, field))
        return field in self.reading.written

    def field_of(self, answered_by: str, field: str) -> str:
        """Where to look for a wait's setting: in the rule that answers, or in the policy itself."""
        return answered_by if answered_by.startswith("rules") else field

    def finding(
        self,
        id: str,  # noqa: A002 - the name of the field it fills
        field: str,
        text: str,
        instead: str,
    ) -> Finding:
        """`instead` is a sentence, or one of the subjects that `advice` knows."""
        written = self.reading.written.get(field)
        return Finding(
            id=id,
            severity=RULES[id].severity,
            key=written or self._spelling.get(field) or field,
            line=self.reading.line_of(field),
            text=text,
            instead=advice(instead, self.reading.notation) if instead.isidentifier() else instead,
        )


Check = Callable[[Subject], Iterator[Finding]]
"""One rule of the linter."""

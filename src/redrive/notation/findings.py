"""What the linter says, and what it looks at."""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from redrive.notation.advice import advice
from redrive.notation.catalogue import NOTATIONS
from redrive.notation.meaning import Answer, Meaning, meaning_of
from redrive.notation.reading import Reading
from redrive.retry.policy import DEFAULT_POLICY, Policy

Severity = Literal["error", "warning", "info"]
"""error: it cannot work. warning: it does harm one day. info: worth knowing."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that could be better."""

    id: str
    """Stable: RD001, RD002, ..."""
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
        severity: Severity,
        field: str,
        text: str,
        instead: str,
    ) -> Finding:
        """`instead` is a sentence, or one of the subjects that `advice` knows."""
        written = self.reading.written.get(field)
        return Finding(
            id=id,
            severity=severity,
            key=written or self._spelling.get(field) or field,
            line=self.reading.line_of(field),
            text=text,
            instead=advice(instead, self.reading.notation) if instead.isidentifier() else instead,
        )


Check = Callable[[Subject], Iterator[Finding]]
"""One rule of the linter."""

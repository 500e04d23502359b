"""What is wrong with a script: every problem with its place, the line itself and a caret."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from unicodedata import combining, east_asian_width

from redrive.errors import ScriptError
from redrive.failures.redaction import redact
from redrive.notation.errors import printable

if TYPE_CHECKING:
    from lark import Token

    from redrive.flows.scripts.nodes import Span

MOST_SHOWN = 50
"""Problems that are told; the rest is counted."""

_LONGEST_LINE = 120
_LONGEST_MESSAGE = 600
_JOINERS = "\u200d\ufe0e\ufe0f"

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or could be better."""

    source: str
    line: int
    column: int
    message: str
    """What is wrong, and what to write instead."""
    shown: str = ""
    """The line of the script."""
    severity: Severity = "error"
    rule: str = ""
    """What the checker calls it, such as "unknown-action"; empty for syntax."""

    def __str__(self) -> str:
        where = f"{printable(self.source, longest=400)}:{self.line}:{self.column}"
        # With its name, so that it can be left out.
        said = f"{self.rule} warning: " if self.severity == "warning" else ""
        first = f"{where}: {said}{printable(self.message, longest=_LONGEST_MESSAGE)}"
        return "\n".join((first, *self._shown_line()))

    def _shown_line(self) -> list[str]:
        """The line around the column, and a caret under it."""
        if not self.shown.strip():
            return []
        begin = max(0, self.column - 1 - _LONGEST_LINE // 2) if len(self.shown) > _LONGEST_LINE else 0
        cut = self.shown[begin : begin + _LONGEST_LINE]
        line = "".join(char if char.isprintable() else " " for char in cut)
        stripped = line.lstrip()
        if redact(line, 2 * _LONGEST_LINE) != line:
            # A line with a secret in it is told by its place alone.
            return []
        caret = self.column - 1 - begin - (len(line) - len(stripped))
        return [f"    {stripped.rstrip()}", f"    {' ' * _columns(stripped[: max(caret, 0)])}^"]


def _columns(text: str) -> int:
    """How wide a text is where it is shown: most emoji take two columns, what combines with a letter none."""
    return sum(
        0 if combining(char) or char in _JOINERS else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


class Problems:
    """Collects what is wrong with one script."""

    def __init__(self, source: str, lines: Sequence[str]) -> None:
        self.source = source
        self.lines = lines
        """The text, line by line."""
        self._found: dict[tuple[int, int, str], Problem] = {}
        self._left_out: set[tuple[int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def full(self) -> bool:
        """No more are told: the next one need not be put into words."""
        return len(self._found) >= MOST_SHOWN

    @property
    def found(self) -> list[Problem]:
        """In the order of the text."""
        return sorted(self._found.values(), key=lambda one: (one.line, one.column))

    def add(self, line: int, column: int, message: str, severity: Severity = "error", rule: str = "") -> None:
        """The same problem at the same place counts once."""
        if self.full:
            self._left_out.add((line, column))
            return
        shown = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        problem = Problem(self.source, line, column, message, shown, severity, rule)
        self._found.setdefault((line, column, message), problem)

    def at(self, span: "Span", message: str, severity: Severity = "error", rule: str = "") -> None:
        self.add(span.line, span.column, message, severity, rule)

    def at_token(self, token: "Token", message: str) -> None:
        self.add(token.line or 1, token.column or 1, message)

    def raise_found(self) -> None:
        if self._found:
            found = self.found
            raise ScriptError(found, len(self._left_out - {(one.line, one.column) for one in found}))

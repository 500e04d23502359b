"""Problems of a script: each with its position, the line itself and a caret."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from unicodedata import combining, east_asian_width

from redrive.errors import ScriptError
from redrive.expressions.nodes import Position
from redrive.failures.redaction import redact
from redrive.near_names import did_you_mean
from redrive.notation.errors import printable

MOST_SHOWN = 50
"""Problems that are reported; the rest is counted."""

_LONGEST_LINE = 120
_LONGEST_MESSAGE = 600
_JOINERS = "\u200d\ufe0e\ufe0f"

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning."""

    source: str
    line: int
    column: int
    message: str
    """What is wrong, and what to write instead."""
    shown: str = ""
    """The line of the script."""
    severity: Severity = "error"
    rule: str = ""
    """The checker's name for it, such as "unknown-action"; empty for syntax errors."""

    def __str__(self) -> str:
        where = f"{printable(self.source, longest=400)}:{self.line}:{self.column}"
        # With its rule, so that it can be ignored by name.
        said = f"{self.rule} warning: " if self.severity == "warning" else ""
        first = f"{where}: {said}{printable(self.message, longest=_LONGEST_MESSAGE)}"
        return "\n".join((first, *self._shown_line()))

    def _shown_line(self) -> list[str]:
        """The line around the column, with a caret under it."""
        if not self.shown.strip():
            return []
        begin = max(0, self.column - 1 - _LONGEST_LINE // 2) if len(self.shown) > _LONGEST_LINE else 0
        cut = self.shown[begin : begin + _LONGEST_LINE]
        line = "".join(char if char.isprintable() else " " for char in cut)
        stripped = line.lstrip()
        if redact(line, 2 * _LONGEST_LINE) != line:
            # A line that holds a secret is not shown.
            return []
        caret = self.column - 1 - begin - (len(line) - len(stripped))
        return [f"    {stripped.rstrip()}", f"    {' ' * _columns(stripped[: max(caret, 0)])}^"]


def _columns(text: str) -> int:
    """The width of a text on a terminal: most emoji take two columns, combining characters none."""
    return sum(
        0 if combining(char) or char in _JOINERS else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


class Problems:
    """Collects the problems of one script."""

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
        """No more are reported, so that the next one need not be put into words."""
        return len(self._found) >= MOST_SHOWN

    def hint(self, name: str, known: Iterable[str], otherwise: str) -> str:
        """Which known name was probably meant, or `otherwise`. A problem that is not reported needs no hint."""
        return "" if self.full else did_you_mean(name, known, otherwise)

    @property
    def found(self) -> list[Problem]:
        """Ordered by position."""
        return sorted(self._found.values(), key=lambda one: (one.line, one.column))

    def add(self, line: int, column: int, message: str, severity: Severity = "error", rule: str = "") -> None:
        """Report a problem. The same problem at the same position counts once."""
        if self.full:
            self._left_out.add((line, column))
            return
        shown = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        problem = Problem(self.source, line, column, message, shown, severity, rule)
        self._found.setdefault((line, column, message), problem)

    def at(self, at: Position, message: str, severity: Severity = "error", rule: str = "") -> None:
        self.add(at.line, at.column, message, severity, rule)

    def raise_found(self) -> None:
        if self._found:
            found = self.found
            raise ScriptError(found, len(self._left_out - {(one.line, one.column) for one in found}))

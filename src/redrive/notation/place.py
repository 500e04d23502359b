"""The place of a value in a document, so that messages can name its key and line."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from redrive.errors import NotationError
from redrive.near_names import near_name
from redrive.notation.errors import Path, notation_error

WHOLE = "policy"
"""The key in errors about the document as a whole."""


class Position(NamedTuple):
    """Line and column, counted from 1."""

    line: int
    column: int


BEGIN = Position(1, 1)
"""The start of a text."""


class Place(msgspec.Struct, frozen=True):
    """A document and the path to a value in it."""

    source: str = "<data>"
    positions: Mapping[Path, Position] = {}
    """Path -> where that key or list item begins; empty when the policy did not come from text."""
    path: Path = ()

    def at(self, *steps: str | int) -> "Place":
        """Return the place further down the path."""
        return Place(self.source, self.positions, (*self.path, *steps))

    @property
    def key(self) -> str:
        """The path as text: "rules[0].backoff"."""
        return path_as_text(self.path) or WHOLE

    @property
    def position(self) -> Position | None:
        """Where the value begins, or else the nearest value around it."""
        for length in range(len(self.path), -1, -1):
            if (found := self.positions.get(self.path[:length])) is not None:
                return found
        return None

    @property
    def line(self) -> int | None:
        return self.position.line if self.position else None

    def refuse(self, value: Any, problem: str, allowed: str, *, rule: str = "") -> NotationError:
        """Return the error that says this value is not allowed here."""
        position = self.position
        return notation_error(
            problem,
            key=self.key,
            value=value,
            allowed=allowed,
            source=self.source,
            line=position.line if position else None,
            column=position.column if position else None,
            path=self.path,
            rule=rule,
        )


def path_as_text(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def similar(word: str, known: tuple[str, ...]) -> str:
    """Return "; did you mean ...?" when a known word is similar, else an empty string."""
    close = near_name(word, known)
    return f"; did you mean '{close}'?" if close else ""

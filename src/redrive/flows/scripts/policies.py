"""The brackets of action calls, read by the reader of bracket text, with their places in the script."""

from typing import TYPE_CHECKING

from redrive.errors import NotationError
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.nodes import PolicyBrackets, Span
from redrive.notation.brackets import read_text
from redrive.notation.errors import show_where
from redrive.notation.place import Position

if TYPE_CHECKING:
    from lark import Token


class Policies:
    """The policies of one script, by where they begin."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self._read: dict[int, PolicyBrackets] = {}

    def read(self, token: "Token") -> None:
        """Read the brackets of one call; what is wrong with them is told."""
        line, column = token.line or 1, token.column or 1
        try:
            reading = read_text(str(token), self.problems.source, Position(line, column))
        except NotationError as error:
            self.problems.add(error.line or line, error.column or column, _in_words(error))
            return
        span = Span(line, column, token.end_line or line, token.end_column or column)
        self._read[token.start_pos or 0] = PolicyBrackets(str(token), reading, reading.policy, span=span)

    def of(self, token: "Token") -> PolicyBrackets | None:
        """What was read there; None when it made no sense."""
        return self._read.get(token.start_pos or 0)


def _in_words(error: NotationError) -> str:
    """The problem without its place, which the script tells in its own way."""
    said = str(error).removeprefix(f"{show_where(error.source, error.line)}: ")
    return f"policy: {said.replace(f' (column {error.column})', '')}"

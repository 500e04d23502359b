"""Splits text into tokens, each with its position. What is no token becomes one that the parser refuses."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from redrive.expressions.nodes import Position

EXPRESSION_WORDS = ("in", "is", "not", "and", "or", "if", "else", "True", "False", "None")
"""Words of every expression that cannot be names."""

PATTERNS = {
    "comment": r"#[^\n]*",
    "newline": r"\n",
    "space": r"[ \t\f]+",
    "duration": r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+(?!\w)",
    "number": (
        r"(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
        r"|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?)(?![\w.])"
    ),
    "string": r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|' + r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    "name": r"[^\W\d]\w*",
    "sign": r"\*\*=|//=|[+\-*/%]=|->|\*\*|//|[=!<>]=|[-+*/%<>=()\[\]{}:,.@]",
    "unclosed": r"[\"'][^\n]*",
    "glued": r"\d[\w.]*",
    "stray": r".",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items()))


class Token(NamedTuple):
    """A piece of the text. `kind` is a key of PATTERNS; for signs and words of the language it is the text itself."""

    kind: str
    text: str
    start: int
    line: int
    column: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def at(self) -> Position:
        return Position(self.line, self.column)


def tokens_of(text: str, words: Collection[str] = EXPRESSION_WORDS) -> Iterator[Token]:
    """All tokens of a text, spaces and comments included. `words`: those that cannot be names."""
    line, line_start = 1, 0
    for match in _TOKEN.finditer(text):
        kind, found, start = match.lastgroup or "stray", match[0], match.start()
        if kind == "sign" or (kind == "name" and found in words):
            kind = found
        elif kind == "name" and not found.isidentifier():
            kind = "stray"
        yield Token(kind, found, start, line, start - line_start + 1)
        if kind == "newline":
            line, line_start = line + 1, match.end()


def end_token(after: Token | None) -> Token:
    """The end of a line, directly behind its last token."""
    if after is None:
        return Token("end", "", 0, 1, 1)
    newline = after.text.rfind("\n")
    if newline < 0:
        return Token("end", "", after.end, after.line, after.column + len(after.text))
    return Token("end", "", after.end, after.line + after.text.count("\n"), len(after.text) - newline)

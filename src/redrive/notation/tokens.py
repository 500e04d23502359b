"""Tokenizer for bracket text: words, strings and signs, each with its line and column."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from redrive.errors import NotationError
from redrive.notation.errors import notation_error
from redrive.notation.place import BEGIN, Position

_TOKEN = re.compile(
    r"""
    (?P<newline> \n )
    | (?P<skipped> [^\S\n]+ | \#[^\n]* )
    | (?P<string> "(?: [^"\\\n] | \\. )*" | '(?: [^'\\\n] | \\. )*' )
    | (?P<unterminated> ["'] )
    | (?P<word> (?: -(?=\d) | [\w.] ) (?: [\w.] | -(?=[^\W_]) | (?<=\.)<locals> )* (?: (?<=\d)% )? )
    | (?P<sign> -> | . )
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """One token. The `text` of a string is its content without the quotes."""

    kind: str
    """ "word", "string", "sign" or "end"."""
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        return f'the string "{self.text}"' if self.kind == "string" else f"'{self.text}'"


def tokens(text: str, source: str, begin: Position = BEGIN) -> Iterator[Token]:
    """Yield the tokens of a text without comments, then one of kind "end". `begin`: its position in a longer text."""
    line, line_start = begin.line, 1 - begin.column
    for match in _TOKEN.finditer(text):
        kind, found, column = str(match.lastgroup), match[0], match.start() - line_start + 1
        if kind == "newline":
            line, line_start = line + 1, match.end()
        elif kind == "string":
            quote = found[0]
            yield Token(kind, found[1:-1].replace(f"\\{quote}", quote), line, column)
        elif kind == "unterminated":
            problem = f"unterminated string (column {column})"
            raise notation_error(problem, allowed=f"a closing {found}", source=source, line=line, column=column)
        elif kind != "skipped":
            yield Token(kind, found, line, column)
    yield Token("end", "", line, len(text) - line_start + 1)


def unexpected(token: Token, allowed: str, source: str) -> NotationError:
    """Return the error for a token that is not allowed where it is."""
    return notation_error(
        f"found {token} (column {token.column})", allowed=allowed, source=source, line=token.line, column=token.column
    )

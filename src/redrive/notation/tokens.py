"""Tokenizer for bracket text: words, strings and signs, each with its line and column."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from redrive.errors import NotationError
from redrive.notation.errors import notation_error
from redrive.notation.place import BEGIN, Position

TokenKind = Literal["word", "string", "sign", "end"]
_INSIDE_WORDS = frozenset("_.")
_LOCALS = "<locals>"


class Token(NamedTuple):
    """One token. The `text` of a string is its content without the quotes."""

    kind: TokenKind
    text: str
    line: int
    column: int
    start: int
    """Offset of the first character."""

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        return f'the string "{self.text}"' if self.kind == "string" else f"'{self.text}'"


def tokens(text: str, source: str, begin: Position = BEGIN) -> Iterator[Token]:
    """Yield the tokens of a text without comments, then one of kind "end". `begin`: its position in a longer text."""
    at = 0
    line = begin.line
    line_start = 1 - begin.column
    while at < len(text):
        char = text[at]
        if char == "\n":
            line += 1
            at += 1
            line_start = at
        elif char.isspace():
            at += 1
        elif char == "#":
            at = _end_of_line(text, at)
        elif char in "\"'":
            end = _end_of_string(text, at)
            column = at - line_start + 1
            if end is None:
                problem = f"unterminated string (column {column})"
                raise notation_error(problem, allowed=f"a closing {char}", source=source, line=line, column=column)
            yield Token("string", text[at + 1 : end].replace(f"\\{char}", char), line, column, at)
            at = end + 1
        elif _begins_word(text, at):
            end = _end_of_word(text, at)
            yield Token("word", text[at:end], line, at - line_start + 1, at)
            at = end
        else:
            sign = "->" if text.startswith("->", at) else char
            yield Token("sign", sign, line, at - line_start + 1, at)
            at += len(sign)
    yield Token("end", "", line, at - line_start + 1, at)


def unexpected(token: Token, allowed: str, source: str) -> NotationError:
    """Return the error for a token that is not allowed where it is."""
    return notation_error(
        f"found {token} (column {token.column})", allowed=allowed, source=source, line=token.line, column=token.column
    )


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _end_of_string(text: str, at: int) -> int | None:
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != "\n":
        if text[at] == quote:
            return at
        at += 2 if text[at] == "\\" else 1
    return None


def _begins_word(text: str, at: int) -> bool:
    char = text[at]
    if char == "-":
        return text[at + 1 : at + 2].isdigit()
    return char.isalnum() or char in _INSIDE_WORDS


def _end_of_word(text: str, at: int) -> int:
    at += 1
    while at < len(text):
        char = text[at]
        if char.isalnum() or char in _INSIDE_WORDS or (char == "-" and text[at + 1 : at + 2].isalnum()):
            at += 1
        elif text.startswith(_LOCALS, at) and text[at - 1] == ".":
            at += len(_LOCALS)
        else:
            break
    return at

"""The parser for bracket text: text to plain data with positions, in one pass."""

from typing import Any

from redrive.notation.errors import Path
from redrive.notation.fields import MOST_RULES
from redrive.notation.place import BEGIN, Place, Position
from redrive.notation.scalars import plain_scalar
from redrive.notation.source import check_size
from redrive.notation.tokens import Token, tokens, unexpected

ROOT = "brackets"
"""The first element of every path: brackets[0].retry."""
FAILURES = "failures"
"""The key for the failures before a bracket's arrow."""


def parse_brackets(text: str, source: str, begin: Position = BEGIN) -> tuple[list[dict[str, Any]], Place]:
    """Parse a text to one mapping per bracket. A bare word such as `linear` becomes a key with the value true."""
    check_size(text, source)
    return _Parser(text, source, begin).parse()


class _Parser:
    def __init__(self, text: str, source: str, begin: Position) -> None:
        self.source = source
        self._tokens = tokens(text, source, begin)
        self.token: Token = next(self._tokens)
        self.positions: dict[Path, Position] = {}
        self.brackets: list[dict[str, Any]] = []

    def parse(self) -> tuple[list[dict[str, Any]], Place]:
        self._action()
        while self.token.kind != "end":
            if len(self.brackets) == MOST_RULES:
                raise unexpected(self.token, f"at most {MOST_RULES} brackets", self.source)
            self._bracket()
        if not self.brackets:
            raise unexpected(self.token, "a bracket such as [retry: 3, backoff: 30s]", self.source)
        self.positions[()] = self.positions[ROOT, 0]
        return self.brackets, Place(self.source, self.positions)

    def _advance(self) -> Token:
        taken = self.token
        if taken.kind != "end":
            self.token = next(self._tokens)
        return taken

    def _is(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.text == sign

    def _skip(self, sign: str) -> bool:
        if self._is(sign):
            self._advance()
            return True
        return False

    def _expect(self, sign: str, allowed: str) -> None:
        if not self._skip(sign):
            raise unexpected(self.token, allowed, self.source)

    def _action(self) -> None:
        """Skip `name = @action(arguments)`, which says what is retried, not how."""
        if self.token.kind == "word":
            self._advance()
            self._expect("=", "a bracket, or an action call such as result = @fetch() before it")
            if not self._is("@"):
                raise unexpected(self.token, "an action call such as @fetch()", self.source)
        if self._skip("@"):
            if self.token.kind != "word":
                raise unexpected(self.token, "the action's name", self.source)
            self._advance()
            if self._is("("):
                self._arguments()

    def _arguments(self) -> None:
        depth = 0
        while True:
            if self.token.kind == "end":
                raise unexpected(self.token, "a closing )", self.source)
            token = self._advance()
            depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
            if depth == 0:
                return

    def _bracket(self) -> None:
        opening = self.token
        self._expect("[", "a bracket such as [retry: 3, backoff: 30s]")
        index = len(self.brackets)
        path: Path = (ROOT, index)
        self.positions[path] = Position(opening.line, opening.column)
        bracket: dict[str, Any] = {}
        self.brackets.append(bracket)
        first = self.token
        words = self._value(path)
        if self._skip("->"):
            self.positions[(*path, FAILURES)] = Position(first.line, first.column)
            bracket[FAILURES] = words if isinstance(words, list) else [words]
            first = self.token
            words = self._value(path)
        while True:
            self._entry(bracket, path, first, words)
            if not self._skip(","):
                break
            first = self.token
            words = self._value(path)
        self._expect("]", "',' or ']'")

    def _entry(self, bracket: dict[str, Any], path: Path, first: Token, words: Any) -> None:
        if not isinstance(words, str) or not words.isidentifier():
            raise unexpected(first, "a key such as retry, backoff or timeout", self.source)
        here = (*path, words)
        position = Position(first.line, first.column)
        value: Any = True
        if self._skip(":"):
            value = self._value(here)
            value = plain_scalar(value) if isinstance(value, str) else value
        place = Place(self.source, {here: position}, here)
        if words == FAILURES:
            raise place.refuse(value, "unknown", "failures before an arrow, as in [NetworkError -> retry: 3]")
        if words in bracket:
            raise place.refuse(value, "duplicate key in one bracket", "each key once")
        self.positions[here] = position
        bracket[words] = value

    def _value(self, path: Path) -> Any:
        """Parse words up to the next sign, joined by spaces, or a list in parentheses."""
        if self._skip("("):
            items: list[Any] = []
            while not self._skip(")"):
                self.positions[(*path, len(items))] = Position(self.token.line, self.token.column)
                items.append(self._words(path))
                if not self._skip(","):
                    self._expect(")", "',' or ')'")
                    break
            return items
        return self._words(path)

    def _words(self, path: Path = ()) -> str:
        if self.token.kind != "word":
            if path[2:]:
                at = Position(self.token.line, self.token.column)
                raise Place(self.source, {path: at}, path).refuse(str(self.token), "no value", "a word or a number")
            raise unexpected(self.token, "a word or a number", self.source)
        words = [self._advance().text]
        while self.token.kind == "word":
            words.append(self._advance().text)
        if words == ["status"] and self._is(":"):
            # A failure named by its status: status:429, status:5xx, status:500-504.
            self._advance()
            return f"status:{self._words()}"
        return " ".join(words)

"""Python call expressions as data: `@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))`. Parsed, never run."""

from datetime import timedelta
from typing import Any

import msgspec

from redrive.notation.errors import notation_error
from redrive.notation.place import Place, Position
from redrive.notation.scalars import bare_word
from redrive.notation.source import check_size
from redrive.notation.tokens import Token, tokens, unexpected

_DEEPEST = 20
_PYTHON_WORDS = {"None": None, "True": True, "False": False}
# A decorator is often pasted together with the first line of what it decorates.
_MAY_FOLLOW = ("def", "async", "class", "with", "for")


class Name(msgspec.Struct, frozen=True):
    """A name, dotted or not, that stands for something this text does not show."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Call(msgspec.Struct, frozen=True):
    """A name with its arguments."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    at: Position
    keyword_positions: dict[str, Position]

    def __repr__(self) -> str:
        given = [repr(one) for one in self.arguments] + [f"{key}={one!r}" for key, one in self.keywords.items()]
        return f"{self.name}({', '.join(given)})"


class Combined(msgspec.Struct, frozen=True):
    """Several expressions joined by one operator, such as `a | b | c`."""

    operator: str
    parts: tuple[Any, ...]

    def __repr__(self) -> str:
        return f" {self.operator} ".join(repr(part) for part in self.parts)


def parse_call(text: str, source: str) -> Call:
    """The one call that a text consists of; a leading @ and a following `def` line are allowed."""
    check_size(text, source)
    parser = _Parser(text, source)
    decorates = parser.skip("@")
    value = parser.expression()
    if decorates and isinstance(value, Name):
        # A bare decorator, `@retry`: the same as one called without arguments.
        value = Call(value.text, (), {}, Position(parser.first.line, parser.first.column), {})
    if not isinstance(value, Call):
        raise unexpected(parser.first, "a call such as retry(stop=stop_after_attempt(5))", source)
    token = parser.token
    if token.kind != "end" and not (token.kind == "sign" and token.text == ":") and token.text not in _MAY_FOLLOW:
        raise unexpected(token, "nothing after the call", source)
    return value


def parse_expression(text: str, source: str) -> Any:
    """The value of one expression: a Call, Name, Combined, list, or a plain value."""
    check_size(text, source)
    parser = _Parser(text, source)
    value = parser.expression()
    if parser.token.kind != "end":
        raise unexpected(parser.token, "one expression", source)
    return value


def as_plain(value: Any) -> Any:
    """Plain data: names as text, `timedelta(...)` as what it is; calls and combinations stay."""
    if isinstance(value, Name):
        return value.text
    if isinstance(value, list):
        return [as_plain(one) for one in value]
    if isinstance(value, Call) and value.name.rpartition(".")[2] == "timedelta":
        return _timedelta(value)
    return value


def keywords_as_data(call: Call, source: str) -> tuple[dict[str, Any], Place]:
    """A call's keyword arguments as a mapping that knows where each key stands."""
    if call.arguments:
        raise notation_error(
            f"{call.name} is given {call.arguments[0]!r} without a name",
            allowed="keyword arguments",
            source=source,
            line=call.at.line,
            column=call.at.column,
        )
    positions: dict[tuple[str | int, ...], Position] = {(key,): at for key, at in call.keyword_positions.items()}
    positions[()] = call.at
    return {key: as_plain(value) for key, value in call.keywords.items()}, Place(source, positions)


def _timedelta(call: Call) -> Any:
    units = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
    given = dict(zip(units, call.arguments, strict=False)) | call.keywords
    fits = all(
        key in units and isinstance(one, int | float) and not isinstance(one, bool) for key, one in given.items()
    )
    try:
        return timedelta(**given) if fits else call
    except (OverflowError, ValueError):
        return call


class _Parser:
    """One token of look-ahead over the text."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self._tokens = tokens(text, source)
        self.token: Token = next(self._tokens)
        self.first = self.token
        self._depth = 0

    def advance(self) -> Token:
        taken = self.token
        if taken.kind != "end":
            self.token = next(self._tokens)
        return taken

    def skip(self, sign: str) -> bool:
        if self.token.kind == "sign" and self.token.text == sign:
            self.advance()
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            raise unexpected(self.token, f"'{sign}'", self.source)

    def expression(self) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise unexpected(self.token, f"at most {_DEEPEST} calls and lists inside one another", self.source)
        parts = [self._term()]
        operator = ""
        while self.token.kind == "sign" and self.token.text in "|+&":
            if operator and self.token.text != operator:
                raise unexpected(self.token, f"one kind of operator at a time, here '{operator}'", self.source)
            operator = self.advance().text
            parts.append(self._term())
        self._depth -= 1
        return Combined(operator, tuple(parts)) if operator else parts[0]

    def _term(self) -> Any:
        token = self.token
        if token.kind == "string":
            return self.advance().text
        if token.kind == "word":
            return self._word()
        for opening, closing in (("(", ")"), ("[", "]")):
            if self.skip(opening):
                return self._items(opening, closing)
        raise unexpected(token, "a name, a number, a string, a call or a list", self.source)

    def _word(self) -> Any:
        token = self.advance()
        if self.token.kind == "sign" and self.token.text == "(" and not token.text[0].isdigit():
            return self._call(token)
        if token.text in _PYTHON_WORDS:
            return _PYTHON_WORDS[token.text]
        value = bare_word(token.text.replace("_", "") if token.text[0].isdigit() else token.text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if all(part.isidentifier() or part == "<locals>" for part in token.text.split(".")):
            return Name(token.text)
        raise unexpected(token, "a name, a number, a string, a call or a list", self.source)

    def _items(self, opening: str, closing: str) -> Any:
        items: list[Any] = []
        comma = False
        while not self.skip(closing):
            items.append(self.expression())
            comma = self.skip(",")
            if not comma:
                self.expect(closing)
                break
        # Round brackets around one value only group it.
        return items[0] if opening == "(" and len(items) == 1 and not comma else items

    def _call(self, name: Token) -> Call:
        self.expect("(")
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        places: dict[str, Position] = {}
        while not self.skip(")"):
            start = self.token
            value = self.expression()
            if isinstance(value, Name) and self.skip("="):
                if value.text in keywords:
                    raise unexpected(start, "each argument once", self.source)
                keywords[value.text] = self.expression()
                places[value.text] = Position(start.line, start.column)
            elif keywords:
                raise unexpected(start, "positional arguments before keyword arguments", self.source)
            else:
                arguments.append(value)
            if not self.skip(","):
                self.expect(")")
                break
        return Call(name.text, tuple(arguments), keywords, Position(name.line, name.column), places)

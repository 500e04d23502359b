"""Tokens of one statement, taken apart at its brackets and joined again with the right spaces between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redrive.flows.scripts.layout import CLOSING, OPENING
from redrive.notation.tokens import tokens as policy_tokens

if TYPE_CHECKING:
    from lark import Token

_OPERANDS = frozenset(
    ("NAME", "NUMBER", "STRING", "DURATION", "TRUE", "FALSE", "NONE", "POLICY", "RPAR", "RSQB", "RBRACE")
)
_NO_SPACE_AFTER = frozenset(("AT", "DOT", "SIGN", "TIGHT"))
_NO_SPACE_BEFORE = frozenset(("COMMA", "DOT", "COLON", "TIGHT"))


@dataclass(slots=True)
class Word:
    """A token, with the kind that says which spaces it wants."""

    text: str
    kind: str

    @property
    def flat(self) -> str:
        return self.text

    @property
    def last_kind(self) -> str:
        return self.kind


@dataclass(slots=True)
class Element:
    """What stands between two commas."""

    pieces: "list[Piece]" = field(default_factory=list)
    before: "list[Token]" = field(default_factory=list)
    """Comments on lines of their own, or in the midst of it."""
    after: "list[Token]" = field(default_factory=list)
    """The comment at its end."""
    below: "list[Token]" = field(default_factory=list)
    """Comments on lines of their own, with nothing behind them yet."""


@dataclass(slots=True)
class Group:
    """A bracket and what it holds."""

    opening: str
    closing: str
    kind: str
    separated: bool = False
    """By commas."""
    may_end_with_comma: bool = False
    elements: list[Element] = field(default_factory=list)
    at_end: "list[Token]" = field(default_factory=list)
    flat: str = ""
    has_comments: bool = False

    @property
    def last_kind(self) -> str:
        return OPENING[self.kind]

    @property
    def breakable(self) -> bool:
        return bool(self.elements or self.at_end)

    def begun(self) -> Word:
        """Its beginning alone, for the line before its elements."""
        return Word(self.opening, self.kind)

    def ended(self, indentation: int) -> Word:
        """Its end alone, for the line after its elements."""
        return Word(" " * indentation + self.closing, OPENING[self.kind])


Piece = Word | Group


def joined_flat(pieces: "Sequence[Piece]") -> str:
    """On one line."""
    text: list[str] = []
    last = ""
    for piece in pieces:
        if last and _spaced(last, piece.kind):
            text.append(" ")
        text.append(piece.flat)
        last = piece.last_kind
    return "".join(text)


def pieces_of(tokens: "Sequence[Token]", comments: "Sequence[Token]") -> list[Piece]:
    """The words and groups of a statement. `comments`: those inside its brackets."""
    everything: list[Token] = []
    for one in sorted((*tokens, *comments), key=lambda token: token.start_pos or 0):
        # A comment inside the brackets of a call stays with them.
        if one.type != "COMMENT" or not everything or (everything[-1].end_pos or 0) <= (one.start_pos or 0):
            everything.append(one)
    return _Joiner().pieces(everything)


class _Joiner:
    def __init__(self) -> None:
        self.stack: list[Group] = []
        self.top: list[Piece] = []
        self.last = ""
        """The kind of the token before."""
        self.last_line = 0
        self.spreads = False

    def pieces(self, everything: "Sequence[Token]") -> list[Piece]:
        for token in everything:
            if token.type == "COMMENT":
                self._comment(token)
                continue
            if token.type in OPENING:
                self._open(token)
            elif token.type in CLOSING:
                self._close()
            elif token.type == "COMMA" and self.stack:
                self._here()
                self.stack[-1].separated = True
                self.stack[-1].elements.append(Element())
            else:
                self.spreads |= token.type == "SPREAD"
                self._here().append(Word(_text(token), self._kind(token)))
            self.last, self.last_line = token.type, token.end_line or 0
        return self.top

    def _here(self) -> list[Piece]:
        if not self.stack:
            return self.top
        if not self.stack[-1].elements:
            self.stack[-1].elements.append(Element())
        element = self.stack[-1].elements[-1]
        # More of it follows, so that they stand in its midst.
        element.before += element.below
        element.below = []
        return element.pieces

    def _open(self, token: "Token") -> None:
        called = token.type == "LPAR" and self.last == "NAME"
        indexes = token.type == "LSQB" and self.last in _OPERANDS
        kind = token.type
        group = Group(str(token), {"(": ")", "[": "]", "{": "}"}[str(token)], kind)
        # Where a comma after the last element changes nothing. A call with one argument has none otherwise.
        group.may_end_with_comma = called or token.type == "LBRACE" or (token.type == "LSQB" and not indexes)
        group.separated = group.may_end_with_comma
        if called or indexes:
            self._here().append(Word("", "TIGHT"))
        self._here().append(group)
        self.stack.append(group)

    def _close(self) -> None:
        group = self.stack.pop()
        if group.elements and not group.elements[-1].pieces:
            # After a comma at the end there is no element; its comments are.
            last = group.elements.pop()
            group.at_end += last.before
            group.separated = True
        elif group.elements:
            group.at_end += group.elements[-1].below
        nested = [one for element in group.elements for one in element.pieces if isinstance(one, Group)]
        group.has_comments = bool(
            group.at_end
            or any(element.before or element.after for element in group.elements)
            or any(one.has_comments for one in nested)
        )
        inside = ", ".join(joined_flat(element.pieces) for element in group.elements)
        group.flat = f"{group.opening}{inside}{group.closing}"

    def _comment(self, token: "Token") -> None:
        group = self.stack[-1]
        if not group.elements:
            group.elements.append(Element())
        element = group.elements[-1]
        same_line = token.line == self.last_line
        if same_line and not element.pieces and len(group.elements) > 1:
            # Behind the comma: it is about what stands before it.
            self._after(group.elements[-2], token)
        elif same_line and element.pieces:
            self._after(element, token)
        else:
            (element.below if element.pieces else element.before).append(token)

    def _after(self, element: Element, token: "Token") -> None:
        """One comment fits behind an element; an earlier one goes above it."""
        element.before += element.after
        element.after = [token]

    def _kind(self, token: "Token") -> str:
        kind = token.type
        if kind in ("PLUS", "MINUS"):
            return kind if self.last in _OPERANDS else "SIGN"
        inside = self.stack[-1].kind if self.stack else ""
        if kind == "EQUAL" and inside == "LPAR":
            return "TIGHT"
        if kind == "COLON" and (inside == "LSQB" or (not inside and self.spreads)):
            return "TIGHT"
        return kind


def _spaced(before: str, after: str) -> bool:
    return before not in _NO_SPACE_AFTER and after not in _NO_SPACE_BEFORE


def _text(token: "Token") -> str:
    return _policy_text(str(token)) if token.type == "POLICY" else str(token)


def _policy_text(text: str) -> str:
    """The brackets of a call with the usual spaces; when they hold a comment, what is on their lines stays as it is."""
    if "#" in text:
        return "\n".join(line.strip() for line in text.split("\n") if line.strip())
    said: list[str] = []
    before = ""
    status = False
    for token in policy_tokens(text, ""):
        if token.kind == "end":
            break
        sign = token.text if token.kind == "sign" else ""
        tight = before in ("", "[", "(") or sign in ("]", ")", ",", ":") or (status and before == ":")
        said.append(token.text if tight else f" {token.text}")
        status = token.text == "status" or (status and sign == ":")
        before = sign or "word"
    return "".join(said)

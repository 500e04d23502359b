"""Groups the tokens of a statement by its brackets, and joins them with the right spaces."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from redrive.expressions.tokens import Token
from redrive.flows.scripts.layout import CLOSING, OPENING
from redrive.notation.tokens import tokens as policy_tokens

_OPERANDS = frozenset(("name", "number", "string", "duration", "True", "False", "None", "policy", *CLOSING))
_NO_SPACE_AFTER = frozenset(("@", ".", "sign", "tight"))
_NO_SPACE_BEFORE = frozenset((",", ".", ":", "tight"))


@dataclass(slots=True)
class Word:
    """A token, with the kind that decides about the spaces around it."""

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
    """What is between two commas."""

    pieces: "list[Piece]" = field(default_factory=list)
    before: list[Token] = field(default_factory=list)
    """Comments on lines of their own before or inside it."""
    after: list[Token] = field(default_factory=list)
    """The comment at its end."""
    below: list[Token] = field(default_factory=list)
    """Comments on lines of their own, with nothing of the element behind them yet."""


@dataclass(slots=True)
class Group:
    """A pair of brackets with its elements."""

    kind: str
    """The opening bracket."""
    closing: str
    separated: bool = False
    """Its elements are separated by commas."""
    may_end_with_comma: bool = False
    elements: list[Element] = field(default_factory=list)
    at_end: list[Token] = field(default_factory=list)
    flat: str = ""
    has_comments: bool = False

    @property
    def last_kind(self) -> str:
        return self.closing

    @property
    def breakable(self) -> bool:
        return bool(self.elements or self.at_end)

    def begun(self) -> Word:
        """The opening bracket, for the line before the elements."""
        return Word(self.kind, self.kind)

    def ended(self, indentation: int) -> Word:
        """The closing bracket, for the line after the elements."""
        return Word(" " * indentation + self.closing, self.closing)


Piece = Word | Group


def joined_flat(pieces: Sequence[Piece]) -> str:
    """The pieces on one line."""
    text: list[str] = []
    last = ""
    for piece in pieces:
        if last and _spaced(last, piece.kind):
            text.append(" ")
        text.append(piece.flat)
        last = piece.last_kind
    return "".join(text)


def pieces_of(tokens: Sequence[Token], comments: Sequence[Token]) -> list[Piece]:
    """The words and groups of a statement. `comments`: those inside its brackets."""
    everything: list[Token] = []
    for one in sorted((*tokens, *comments), key=lambda token: token.start):
        # A comment inside a policy stays with it.
        if one.kind != "comment" or not everything or everything[-1].end <= one.start:
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

    def pieces(self, everything: Sequence[Token]) -> list[Piece]:
        for token in everything:
            if token.kind == "comment":
                self._comment(token)
                continue
            if token.kind in OPENING:
                self._open(token)
            elif token.kind in CLOSING:
                self._close()
            elif token.kind == "," and self.stack:
                self._here()
                self.stack[-1].separated = True
                self.stack[-1].elements.append(Element())
            else:
                self.spreads |= token.kind == "spread"
                self._here().append(Word(_text(token), self._kind(token)))
            self.last, self.last_line = token.kind, token.line + token.text.count("\n")
        return self.top

    def _here(self) -> list[Piece]:
        if not self.stack:
            return self.top
        if not self.stack[-1].elements:
            self.stack[-1].elements.append(Element())
        element = self.stack[-1].elements[-1]
        # More of the element follows, so that these comments are inside it.
        element.before += element.below
        element.below = []
        return element.pieces

    def _open(self, token: Token) -> None:
        called = token.kind == "(" and self.last == "name"
        indexes = token.kind == "[" and self.last in _OPERANDS
        group = Group(token.kind, OPENING[token.kind])
        # Where a comma after the last element changes nothing.
        group.may_end_with_comma = called or token.kind == "{" or (token.kind == "[" and not indexes)
        group.separated = group.may_end_with_comma
        if called or indexes:
            self._here().append(Word("", "tight"))
        self._here().append(group)
        self.stack.append(group)

    def _close(self) -> None:
        group = self.stack.pop()
        if group.elements and not group.elements[-1].pieces:
            # After a trailing comma there is no element, but there may be comments.
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
        group.flat = f"{group.kind}{inside}{group.closing}"

    def _comment(self, token: Token) -> None:
        group = self.stack[-1]
        if not group.elements:
            group.elements.append(Element())
        element = group.elements[-1]
        same_line = token.line == self.last_line
        if same_line and not element.pieces and len(group.elements) > 1:
            # Behind the comma: it belongs to the element before.
            self._after(group.elements[-2], token)
        elif same_line and element.pieces:
            self._after(element, token)
        else:
            (element.below if element.pieces else element.before).append(token)

    def _after(self, element: Element, token: Token) -> None:
        """Put a comment behind an element; an earlier one moves above it."""
        element.before += element.after
        element.after = [token]

    def _kind(self, token: Token) -> str:
        kind = token.kind
        if kind in ("+", "-"):
            return kind if self.last in _OPERANDS else "sign"
        inside = self.stack[-1].kind if self.stack else ""
        if (kind, inside) in (("=", "("), (":", "[")) or (kind == ":" and not inside and self.spreads):
            return "tight"
        return kind


def _spaced(before: str, after: str) -> bool:
    return before not in _NO_SPACE_AFTER and after not in _NO_SPACE_BEFORE


def _text(token: Token) -> str:
    return _policy_text(token.text) if token.kind == "policy" else token.text


def _policy_text(text: str) -> str:
    """A policy with the usual spaces; with comments in it, its lines stay as they are."""
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

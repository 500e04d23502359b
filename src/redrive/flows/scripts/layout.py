"""From characters to lines of tokens: where a line ends, how blocks are indented, which brackets are a policy."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.limits import MOST_NESTING
from redrive.flows.scripts.literals import LiteralError, read_number, read_seconds, read_string

if TYPE_CHECKING:
    from lark import Token

OPENING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSING = frozenset(OPENING.values())
# Words that begin a statement and stand nowhere else: a bracket that is open there was never closed.
_BEGINS_STATEMENT = frozenset(
    (
        "FN",
        "RETURN",
        "WHILE",
        "TRY",
        "EXCEPT",
        "FINALLY",
        "RAISE",
        "BREAK",
        "CONTINUE",
        "PASS",
        "PARALLEL",
        "ELIF",
        "FOR",
    )
)
# Words of this language alone: as names of arguments and of actions they mean what they mean in Python.
_SOFT = frozenset(("FN", "PARALLEL", "SPREAD", "SLEEP"))
_EQUALS = re.compile(r"[ \t]*=")
_LITERALS = {"NUMBER": read_number, "STRING": read_string, "DURATION": read_seconds}


class TooDeep(Exception):
    """The text is nested deeper than anything is read."""


@dataclass(slots=True)
class Line:
    """A logical line: what stands between two ends of lines, where brackets join lines of the text."""

    tokens: "list[Token]"
    """Without spaces and comments; the last one is the end of the line."""
    opens: bool
    """It is indented more than the line before it."""
    closes: int
    """Blocks that end before it."""
    broken: bool = False
    """A bracket in it is never closed, which is told."""


@dataclass(slots=True)
class _Layout:
    problems: Problems
    text: str
    levels: list[str] = field(default_factory=lambda: [""])
    """The indentation of each open block."""
    open: "list[Token]" = field(default_factory=list)
    """Brackets that are open."""
    line: "list[Token]" = field(default_factory=list)

    def lines(self, raw: "Iterable[Token]") -> Iterator[Line]:
        indentation = ""
        fresh = True
        last: Token | None = None
        for token in raw:
            kind = token.type
            if kind == "_NEWLINE":
                fresh = True
                if not self.open:
                    if self.line:
                        yield self._end(indentation)
                    indentation = ""
            elif kind == "SPACE":
                if fresh and not self.line:
                    indentation = str(token)
            elif kind != "COMMENT":
                if fresh and self.open and kind in _BEGINS_STATEMENT and self._never_closed(token):
                    yield self._end(indentation, broken=True)
                    indentation = _before(token, self.text)
                fresh = False
                self._take(token)
                last = token
        if self.open:
            self._tell_never_closed(self.open[0])
        if self.line:
            yield self._end(indentation, broken=bool(self.open))
        if last is not None:
            yield Line([_mark("_END", last)], opens=False, closes=len(self.levels) - 1)

    def _never_closed(self, token: "Token") -> bool:
        """Whether a word on a new line begins a statement, although a bracket is open."""
        if _EQUALS.match(self.text, token.end_pos or 0):
            return False
        self._tell_never_closed(self.open[0])
        self.open.clear()
        return True

    def _tell_never_closed(self, token: "Token") -> None:
        self.problems.at_token(token, f"this '{token}' is never closed")

    def _take(self, token: "Token") -> None:
        kind = token.type
        self.line.append(token)
        if kind in OPENING:
            self.open.append(token)
            if len(self.open) > MOST_NESTING:
                self.problems.at_token(token, f"more than {MOST_NESTING} brackets in one another")
                raise TooDeep
        elif kind in CLOSING and self.open:
            self.open.pop()

    def _end(self, indentation: str, broken: bool = False) -> Line:
        tokens = [*_with_policies(self.line, self.text), _mark("_NEWLINE", self.line[-1])]
        self.line = []
        for index, token in enumerate(tokens):
            self._check(token, tokens, index)
        opens, closes = self._indent(indentation, tokens[0])
        return Line(tokens, opens, closes, broken)

    def _check(self, token: "Token", tokens: "list[Token]", index: int) -> None:
        kind = token.type
        if kind in _SOFT and _is_a_name(tokens, index):
            token.type = "NAME"
        elif kind == "NAME" and not token.isidentifier():
            self.problems.at_token(token, f"'{token}' cannot be a name")
        elif kind in _LITERALS:
            try:
                _LITERALS[kind](str(token))
            except LiteralError as error:
                self.problems.at_token(token, str(error))

    def _indent(self, indentation: str, first: "Token") -> tuple[bool, int]:
        levels = self.levels
        if indentation == levels[-1]:
            return False, 0
        if indentation.startswith(levels[-1]):
            levels.append(indentation)
            if len(levels) > MOST_NESTING + 1:
                self.problems.at_token(first, f"more than {MOST_NESTING} blocks in one another")
                raise TooDeep
            return True, 0
        closed: list[str] = []
        while not indentation.startswith(levels[-1]):
            closed.append(levels.pop())
        if indentation != levels[-1]:
            # Between two blocks: it is taken for a line of the inner one.
            levels.append(closed.pop())
            hint = "; tabs and spaces do not mix" if "\t" in indentation + levels[-1] else ""
            self.problems.at_token(first, f"this indentation fits no block above{hint}")
        return False, len(closed)


def lines_of(tokens: "Iterable[Token]", text: str, problems: Problems) -> Iterator[Line]:
    """The logical lines of a text, from all its tokens; the last one has one token, `_END`, and ends all blocks.

    TooDeep, with its problem told, where the text is nested too deep.
    """
    return _Layout(problems, text).lines(tokens)


def _before(token: "Token", text: str) -> str:
    """What stands before a token on its line."""
    start = token.start_pos or 0
    return text[start - (token.column or 1) + 1 : start]


def _is_a_name(tokens: "list[Token]", index: int) -> bool:
    before = tokens[index - 1].type if index else ""
    after = tokens[index + 1].type if index + 1 < len(tokens) else ""
    return before in ("AT", "DOT") or (before in ("LPAR", "COMMA") and after == "EQUAL")


def _mark(kind: str, after: "Token") -> "Token":
    """A token of no width, at the end of another."""
    from lark import Token

    line, column, end = after.end_line, after.end_column, after.end_pos
    return Token(kind, "", end, line, column, line, column, end)


def _with_policies(tokens: "list[Token]", text: str) -> "Iterator[Token]":
    """The brackets that follow the call of an action, taken together as one token."""
    from lark import Token

    depth = 0
    calls: list[int] = []
    """Depths at which the arguments of an action are open."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        yield token
        at += 1
        if token.type in OPENING:
            if token.type == "LPAR" and _names_an_action(tokens, at - 2):
                calls.append(depth)
            depth += 1
        elif token.type in CLOSING:
            depth -= 1
            if calls and calls[-1] == depth:
                calls.pop()
                end = _end_of_brackets(tokens, at)
                if end > at:
                    first, last = tokens[at], tokens[end - 1]
                    written = text[first.start_pos : last.end_pos]
                    yield Token(
                        "POLICY",
                        written,
                        first.start_pos,
                        first.line,
                        first.column,
                        last.end_line,
                        last.end_column,
                        last.end_pos,
                    )
                    at = end


def _names_an_action(tokens: "list[Token]", at: int) -> bool:
    """Whether what ends here is `@name` or `@module.name`."""
    while at > 1 and tokens[at - 1].type == "DOT":
        at -= 2
    return at > 0 and tokens[at - 1].type == "AT"


def _end_of_brackets(tokens: "list[Token]", at: int) -> int:
    """The place after all brackets that begin here, each at the next one that closes it."""
    while at < len(tokens) and tokens[at].type == "LSQB":
        depth = 0
        for end in range(at, len(tokens)):
            depth += (tokens[end].type == "LSQB") - (tokens[end].type == "RSQB")
            if depth == 0:
                break
        else:
            return at
        at = end + 1
    return at

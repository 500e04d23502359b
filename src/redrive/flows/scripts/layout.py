"""Groups the tokens of a script into logical lines and blocks, and the brackets behind an action call into one."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from redrive.expressions.nodes import Position
from redrive.expressions.parser import MOST_NESTING, TooDeep
from redrive.expressions.tokens import EXPRESSION_WORDS, Token, end_token, tokens_of
from redrive.flows.scripts.errors import Problems

STATEMENT_WORDS = (
    *("fn", "return", "if", "elif", "else", "for", "while", "break", "continue", "pass", "try", "except", "finally"),
    *("raise", "parallel", "spread", "sleep"),
)
KEYWORDS = tuple(dict.fromkeys((*STATEMENT_WORDS, "as", *EXPRESSION_WORDS)))
"""Words that cannot be names."""
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())
# A bracket that is open where one of these words begins a line was never closed.
_BEGIN_STATEMENTS = frozenset(STATEMENT_WORDS) - {"if", "else", "spread", "sleep"}
# Words of this language alone: names of arguments and of actions may be the same.
_SOFT = frozenset(("fn", "parallel", "spread", "sleep"))
_EQUALS = re.compile(r"[ \t]*=")


@dataclass(slots=True)
class Line:
    """A logical line: it continues inside brackets."""

    tokens: list[Token]
    """Without spaces and comments; the last one is of kind "end"."""
    level: int
    """The number of blocks it is inside of."""
    broken: bool = False
    """One of its brackets is never closed, which has been reported."""
    body: "list[Line]" = field(default_factory=list)
    """The lines of the block that it opens."""

    @property
    def at(self) -> Position:
        return self.tokens[0].at


def script_tokens(text: str) -> Iterator[Token]:
    """All tokens of a script, spaces and comments included."""
    return tokens_of(text, frozenset(KEYWORDS))


def blocks(lines: Iterable[Line]) -> list[Line]:
    """The lines at the top, each with the lines of its block inside it."""
    top: list[Line] = []
    around: list[Line] = []
    for line in lines:
        del around[line.level :]
        (around[-1].body if around else top).append(line)
        around.append(line)
    return top


def lines_of(tokens: Iterable[Token], text: str, problems: Problems) -> Iterator[Line]:
    """The logical lines of a script; TooDeep when it is nested too deeply."""
    return _Layout(problems, text).lines(tokens)


@dataclass(slots=True)
class _Layout:
    problems: Problems
    text: str
    levels: list[str] = field(default_factory=list)
    """The indentation of each open block."""
    open: list[Token] = field(default_factory=list)
    """Open brackets."""
    line: list[Token] = field(default_factory=list)

    def lines(self, tokens: Iterable[Token]) -> Iterator[Line]:
        indentation = ""
        fresh = True
        for token in tokens:
            kind = token.kind
            if kind == "newline":
                fresh = True
                if not self.open:
                    if self.line:
                        yield self._end(indentation)
                    indentation = ""
            elif kind == "space":
                if fresh and not self.line:
                    indentation = token.text
            elif kind != "comment":
                if fresh and self.open and kind in _BEGIN_STATEMENTS and not _EQUALS.match(self.text, token.end):
                    yield self._end(indentation, broken=True)
                    indentation = self.text[token.start - token.column + 1 : token.start]
                fresh = False
                self._take(token)
        if self.line:
            yield self._end(indentation, broken=bool(self.open))

    def _take(self, token: Token) -> None:
        self.line.append(token)
        if token.kind in OPENING:
            self.open.append(token)
            if len(self.open) > MOST_NESTING:
                raise TooDeep(token.at)
        elif token.kind in CLOSING and self.open:
            self.open.pop()

    def _end(self, indentation: str, broken: bool = False) -> Line:
        if broken:
            self.problems.at(self.open[0].at, f"this '{self.open[0].text}' is never closed")
            self.open.clear()
        tokens = [*_with_policies(self.line, self.text), end_token(self.line[-1])]
        self.line = []
        for index, token in enumerate(tokens):
            if token.kind in _SOFT and _is_a_name(tokens, index):
                tokens[index] = token._replace(kind="name")
        return Line(tokens, self._level(indentation, tokens[0]), broken)

    def _level(self, indentation: str, first: Token) -> int:
        levels = self.levels
        if not levels:
            levels.append(indentation)
            if indentation:
                self.problems.at(first.at, "this line is indented more than its block")
        if not indentation.startswith(levels[0]):
            # The first line of the script was indented, which has been reported.
            levels[:] = [indentation]
        if indentation != levels[-1] and indentation.startswith(levels[-1]):
            levels.append(indentation)
            if len(levels) > MOST_NESTING + 1:
                raise TooDeep(first.at)
        closed = ""
        while not indentation.startswith(levels[-1]):
            closed = levels.pop()
        if indentation != levels[-1]:
            # Between two blocks: taken as a line of the inner one.
            levels.append(closed)
            hint = "; tabs and spaces do not mix" if "\t" in indentation + closed else ""
            self.problems.at(first.at, f"this indentation matches no block above{hint}")
        return len(levels) - 1


def _is_a_name(tokens: list[Token], index: int) -> bool:
    before = tokens[index - 1].kind if index else ""
    after = tokens[index + 1].kind if index + 1 < len(tokens) else ""
    return before in ("@", ".") or (before in ("(", ",") and after == "=")


def _with_policies(tokens: list[Token], text: str) -> Iterator[Token]:
    """The tokens of a line, with all brackets that follow an action call as one."""
    depth = 0
    calls: list[int] = []
    """Depths at which the arguments of an action are open."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        yield token
        at += 1
        if token.kind in OPENING:
            if token.kind == "(" and _names_an_action(tokens, at - 2):
                calls.append(depth)
            depth += 1
        elif token.kind in CLOSING:
            depth -= 1
            if calls and calls[-1] == depth:
                calls.pop()
                end = _end_of_brackets(tokens, at)
                if end > at:
                    first = tokens[at]
                    written = text[first.start : tokens[end - 1].end]
                    yield Token("policy", written, first.start, first.line, first.column)
                    at = end


def _names_an_action(tokens: list[Token], at: int) -> bool:
    """Whether `@name` or `@module.name` ends here."""
    while at > 1 and tokens[at - 1].kind == ".":
        at -= 2
    return at > 0 and tokens[at - 1].kind == "@"


def _end_of_brackets(tokens: list[Token], at: int) -> int:
    """The index behind all square brackets that begin here."""
    while at < len(tokens) and tokens[at].kind == "[":
        depth = 0
        for end in range(at, len(tokens)):
            depth += (tokens[end].kind == "[") - (tokens[end].kind == "]")
            if depth == 0:
                break
        else:
            return at
        at = end + 1
    return at

"""Text to nodes. All that is wrong with a text is found in one go: after a line without sense, the next is read."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from redrive.flows.scripts.building import Builder
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.layout import Line, TooDeep, lines_of
from redrive.flows.scripts.limits import LONGEST_SCRIPT, MOST_LINES
from redrive.flows.scripts.nodes import Function, Script
from redrive.flows.scripts.policies import Policies
from redrive.flows.scripts.wording import problem_with, word_meant

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

# What stands in for a line that makes no sense, so that the lines around it still do.
_ANY_CALL = ("NAME", "LPAR", "RPAR", "_NEWLINE")
_HEADS: dict[str, tuple[str, ...]] = {
    "FN": ("FN", "NAME", "LPAR", "RPAR", "COLON", "_NEWLINE"),
    "ELIF": ("ELIF", "TRUE", "COLON", "_NEWLINE"),
    "ELSE": ("ELSE", "COLON", "_NEWLINE"),
    "FOR": ("FOR", "NAME", "IN", "NAME", "COLON", "_NEWLINE"),
    "WHILE": ("WHILE", "TRUE", "COLON", "_NEWLINE"),
    "TRY": ("TRY", "COLON", "_NEWLINE"),
    "EXCEPT": ("EXCEPT", "COLON", "_NEWLINE"),
    "FINALLY": ("FINALLY", "COLON", "_NEWLINE"),
    "PARALLEL": ("PARALLEL", "COLON", "_NEWLINE"),
    "IF": ("IF", "TRUE", "COLON", "_NEWLINE"),
}
_ANY_HANDLER = ("EXCEPT", "COLON", "_NEWLINE", "_INDENT", *_ANY_CALL, "_DEDENT")
_GOES_ON = frozenset(("ELIF", "ELSE", "EXCEPT", "FINALLY"))


def parse(text: str, source: str = "<script>", longest: int = LONGEST_SCRIPT) -> Script:
    """The script that a text is; ScriptError with all that is wrong with it."""
    script, problems = read_script(text, source, longest)
    problems.raise_found()
    # Without problems there is one.
    return cast("Script", script)


def read_script(text: str, source: str, longest: int = LONGEST_SCRIPT) -> tuple[Script | None, Problems]:
    """What is wrong with a text, and the script that it is: also one with problems, when every line makes sense."""
    text = normal_text(text)
    refused = too_long(text, longest)
    problems = Problems(source, () if refused else text.split("\n"))
    if refused:
        problems.add(1, 1, f"{refused}; make it several, or leave large data to actions")
        return None, problems
    policies = Policies(problems)
    functions: dict[str, Function] = {}
    reader = _Reader(problems, policies)
    with suppress(TooDeep):
        tree = reader.read(text)
        functions = Builder(problems, policies).functions(tree) if tree is not None else {}
    if not functions and not problems:
        problems.add(1, 1, "the script is empty; write fn main(): and what it does")
    script = Script(functions, source, text) if functions and not reader.made_up else None
    return script, problems


def too_long(text: str, longest: int) -> str:
    """Why a text is not even read; empty when it is."""
    if len(text) > longest:
        return f"the script has {len(text):,} characters; at most {longest:,}"
    lines = text.count("\n") + (not text.endswith("\n"))
    if lines > MOST_LINES and longest == LONGEST_SCRIPT:
        return f"the script has {lines:,} lines; at most {MOST_LINES:,}"
    return ""


def normal_text(text: str) -> str:
    """Without a byte order mark, and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=1)
def grammar() -> "Lark":
    """The tables of the parser, made when the first script is read."""
    from lark import Lark

    written = files("redrive.flows.scripts").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(written, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=True)


@lru_cache(maxsize=1)
def _builders() -> dict[Any, Any]:
    """What builds the tree, by rule. Most rules of an expression only hand on what they have: that is made quick."""
    callbacks: dict[Any, Any] = grammar().parse_interactive("").parser_state.parse_conf.callbacks
    quick = {
        rule: itemgetter(0)
        for rule in callbacks
        if getattr(getattr(rule, "options", None), "expand1", False)
        and len(rule.expansion) == 1
        and not rule.expansion[0].name.startswith("_")
    }
    return {**callbacks, **quick}


class _Reader:
    """Feeds the parser line by line, and sets it right again where a line does not fit."""

    def __init__(self, problems: Problems, policies: Policies) -> None:
        self.problems = problems
        self.policies = policies
        self.grammar = grammar()
        self.parser: Any = self.grammar.parse_interactive("")
        self.parser.parser_state.parse_conf.callbacks = _builders()
        self.levels: list[bool] = []
        """For each open block, whether the parser knows of it."""
        self.last: Token | None = None
        """The end of the line before."""
        self.bad: set[int] = set()
        """Levels whose last statement makes no sense."""
        self.made_up = False
        """Something stands in for what makes no sense."""

    def read(self, text: str) -> "Tree[Token] | None":
        from lark.exceptions import UnexpectedToken

        try:
            lines = lines_of(self.grammar.lex(text, dont_ignore=True), text, self.problems)
            for line, following in pairwise(_with_none(lines)):
                if line is not None:
                    self._read_line(line, following is not None and following.opens)
            tree: Tree[Token] = self.parser.feed_eof()
        except UnexpectedToken as error:
            # Nothing that could stand in helped. The problem that led here is told already, or is this one.
            if not self.problems:
                self.problems.add(error.line or 1, error.column or 1, "the script makes no sense from here on")
            return None
        return tree

    def _read_line(self, line: Line, heads_block: bool) -> None:
        from lark.exceptions import UnexpectedToken

        self._enter(line)
        self.last = line.tokens[-1]
        first = line.tokens[0]
        for token in line.tokens:
            if token.type == "POLICY":
                self.policies.read(token)
        level = len(self.levels)
        self.bad = {one for one in self.bad if one < level or (one == level and first.type in _GOES_ON)}
        if first.type == "_END":
            self._close_try(first)
            return
        saved = self.parser.copy(deepcopy_values=False)
        for index, token in enumerate(line.tokens):
            try:
                self.parser.feed_token(token)
            except UnexpectedToken:
                self.parser = saved
                self._tell(line, index, level)
                self.bad.add(level)
                self._stand_in(line, heads_block)
                return

    def _enter(self, line: Line) -> None:
        """Begin and end blocks before a line."""
        first = line.tokens[0]
        wanted = "_INDENT" in self.parser.choices()
        if line.opens:
            if wanted:
                self._feed(("_INDENT",), first)
            else:
                self.problems.at_token(first, "this line is indented more than its block")
            self.levels.append(wanted)
            return
        if wanted:
            self.problems.at_token(first, "expected an indented line here: a block begins above")
            self._feed(("_INDENT", *_ANY_CALL, "_DEDENT"), first)
        for _ in range(line.closes):
            self._close_try(first)
            if self.levels.pop():
                # A block ends where its last line does.
                self._feed(("_DEDENT",), first if self.last is None else self.last)

    def _close_try(self, at: "Token") -> None:
        """A `try` that is left without a handler."""
        if self._needs_handler():
            self.problems.at_token(at, "expected 'except' or 'finally': the 'try' above has neither")
            self._feed(_ANY_HANDLER, at)

    def _needs_handler(self) -> bool:
        """A `try` block has ended here, and nothing followed it yet."""
        return "EXCEPT" in self.parser.choices() and self._takes("EXCEPT") and not self._takes("NAME")

    def _takes(self, kind: str) -> bool:
        from lark import Token
        from lark.exceptions import UnexpectedToken

        trial = self._trial()
        try:
            trial.feed_token(Token(kind, ""))
        except UnexpectedToken:
            return False
        return True

    def _trial(self) -> Any:
        """A copy of the parser that builds nothing, to see what it would take."""
        trial = self.parser.copy(deepcopy_values=False)
        trial.parser_state.parse_conf = copy(trial.parser_state.parse_conf)
        trial.parser_state.parse_conf.callbacks = {}
        return trial

    def _tell(self, line: Line, index: int, level: int) -> None:
        if line.broken or (line.tokens[0].type in _GOES_ON and level in self.bad):
            # What is behind it is told already.
            return
        accepted: set[str] = set()
        if not self.problems.full:
            # Fed again: the token that did not fit has changed the parser's mind about those before it.
            again = self._trial()
            for token in line.tokens[:index]:
                again.feed_token(token)
            accepted = again.accepts()
        token, message = problem_with(self.grammar, line.tokens, index, accepted)
        self.problems.at_token(token, message)

    def _stand_in(self, line: Line, heads_block: bool) -> None:
        """Feed a line that makes sense, of the same kind as far as that can be seen."""
        from lark.exceptions import UnexpectedToken

        first = line.tokens[0]
        if self._needs_handler() and first.type not in ("EXCEPT", "FINALLY"):
            self._feed(_ANY_HANDLER, first)
        same = _HEADS.get(word_meant(first).upper(), _HEADS["IF"])
        candidates: tuple[tuple[str, ...], ...] = (same, _HEADS["IF"]) if heads_block else (_ANY_CALL,)
        for kinds in candidates:
            saved = self.parser.copy(deepcopy_values=False)
            try:
                self._feed(kinds, first, next((str(one) for one in line.tokens[1:2] if one.type == "NAME"), ""))
            except UnexpectedToken:
                self.parser = saved
            else:
                return

    def _feed(self, kinds: Iterable[str], at: "Token", called: str = "") -> None:
        from lark import Token

        for kind in kinds:
            self.made_up |= kind not in ("_INDENT", "_DEDENT")
            self.parser.feed_token(Token.new_borrow_pos(kind, called if kind == "NAME" else "", at))


def _with_none(lines: Iterator[Line]) -> Iterator[Line | None]:
    yield from lines
    yield None

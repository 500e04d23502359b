"""Parses scripts. All problems of a text are found in one go: behind a line that cannot be read, the next one is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

from redrive.expressions import nodes as expressions
from redrive.expressions.hints import found_instead
from redrive.expressions.nodes import Position
from redrive.expressions.parser import AN_OPERATOR, MOST_NESTING, Parser, TooDeep, Unreadable
from redrive.flows.scripts import nodes
from redrive.flows.scripts.call_syntax import CallSyntax
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.layout import Line, blocks, lines_of, script_tokens
from redrive.flows.scripts.nodes import Block, ScriptTree, Statement
from redrive.flows.scripts.syntax_hints import (
    BLOCK_WORDS,
    END_OF_LINE,
    policy_without_action,
    problem_with,
    word_meant,
)

MAIN = "main"
LONGEST_SCRIPT = 250_000
"""Characters."""
MOST_LINES = 5_000
_AUGMENTED = ("+=", "-=", "*=", "/=", "//=", "%=", "**=")
_CONTINUED_BY = {
    **dict.fromkeys(("if", "elif"), ("elif", "else")),
    **dict.fromkeys(("try", "except"), ("except", "else", "finally")),
}
"""Words of the lines that continue a statement."""


def parse(text: str, source: str = "<script>") -> ScriptTree:
    """The syntax tree of a script; ScriptError with all its problems."""
    script, problems = read_script(text, source)
    problems.raise_found()
    # Without problems there is one.
    return cast("ScriptTree", script)


def read_script(text: str, source: str) -> tuple[ScriptTree | None, Problems]:
    """A script and its problems. It has a tree even with some problems, as long as every line could be read."""
    text = normal_text(text)
    refused = _too_long(text)
    problems = Problems(source, () if refused else text.split("\n"))
    if refused:
        problems.add(1, 1, f"{refused}; split it, or leave large data to actions")
        return None, problems
    reader = _Reader(problems)
    functions: dict[str, nodes.Function] = {}
    try:
        functions = reader.functions(blocks(lines_of(script_tokens(text), text, problems)))
    except TooDeep as error:
        problems.at(error.at, error.message)
    if not functions and not problems:
        problems.add(1, 1, "the script is empty; write fn main(): and what it does")
    return (ScriptTree(functions, source, text) if functions and not reader.unreadable else None), problems


def _too_long(text: str) -> str:
    if len(text) > LONGEST_SCRIPT:
        return f"the script has {len(text):,} characters; at most {LONGEST_SCRIPT:,} are allowed"
    lines = text.count("\n") + (not text.endswith("\n"))
    return f"the script has {lines:,} lines; at most {MOST_LINES:,} are allowed" if lines > MOST_LINES else ""


def normal_text(text: str) -> str:
    """The text without a byte order mark, and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


T = TypeVar("T")


class _Reader:
    """Reads the lines of one script."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.unreadable = False
        """A line could not be read, so that the tree lacks something."""
        self._calls = CallSyntax(problems)
        self._around: list[str] = []
        """The words of the blocks around the line that is read."""

    def functions(self, lines: Sequence[Line]) -> dict[str, nodes.Function]:
        """The functions by name. Statements outside all functions are `main`, which comes last then."""
        found: dict[str, nodes.Function] = {}
        loose = [line for line in lines if _word(line) != "fn"]
        for line in lines:
            function = self._read(line, self._function) if _word(line) == "fn" else None
            if function is None:
                continue
            if function.name in found:
                first = found[function.name].at.line
                self.problems.at(function.at, f"function '{function.name}' is already defined on line {first}")
            found[function.name] = function
        if loose:
            body = self._statements_of(loose)
            if MAIN in found:
                message = f"this is outside all functions; put it into 'main', on line {found[MAIN].at.line}"
                self.problems.at(loose[0].at, message)
            found[MAIN] = nodes.Function(MAIN, (), body, implicit=True, at=loose[0].at)
        return found

    def _read(self, line: Line, read: Callable[[Parser, Line], T]) -> T | None:
        """What a line says; None when it cannot be read, which is reported. Its block is looked at all the same."""
        parser = Parser(line.tokens, self._calls.dialect, self.problems.at, len(self._around))
        try:
            if bracket := policy_without_action(line.tokens):
                message = "only the call of an action has a policy; write @ before its name"
                raise Unreadable(line.tokens.index(bracket), message=message)
            return read(parser, line)
        except Unreadable as error:
            self.unreadable = True
            if self.problems.full:
                # Only counted: it need not be put into words.
                self.problems.at(line.tokens[error.index].at, "")
            elif not line.broken:
                token, message = problem_with(line.tokens, error)
                self.problems.at(token.at, message)
        if line.body:
            self._block(line, _word(line))
        return None

    # Blocks

    def _block(self, line: Line, word: str) -> Block:
        """The block that a line opens."""
        if not line.body:
            self.problems.at(line.tokens[-1].at, "expected an indented line below: a block begins here")
        with self._inside(word, line.at):
            return self._statements_of(line.body)

    @contextmanager
    def _inside(self, word: str, at: Position) -> Iterator[None]:
        self._around.append(word)
        if len(self._around) > MOST_NESTING:
            raise TooDeep(at)
        yield
        self._around.pop()

    def _statements_of(self, lines: Sequence[Line]) -> Block:
        compound: dict[str, Callable[[Parser, Line], Statement]] = {
            "for": self._for,
            "while": self._while,
            "parallel": self._parallel,
        }
        found: list[Statement | None] = []
        index = 0
        while index < len(lines):
            line, word = lines[index], _word(lines[index])
            index += 1
            following: list[Line] = []
            while index < len(lines) and _word(lines[index]) in _CONTINUED_BY.get(word, ()):
                following.append(lines[index])
                index += 1
            if word == "if":
                found.append(self._if(line, following))
            elif word == "try":
                found.append(self._try(line, following))
            else:
                found.append(self._read(line, compound.get(line.tokens[0].kind, self._simple)))
                self._look_at(following)
        return tuple(one for one in found if one is not None)

    def _look_at(self, lines: Sequence[Line]) -> None:
        """The blocks of lines that have no meaning where they are."""
        for line in lines:
            self.unreadable = True
            if line.body:
                self._block(line, _word(line))

    def _refuse(self, lines: Sequence[Line]) -> None:
        """Lines that continue a statement which has ended."""
        if lines:
            self.problems.at(lines[0].at, found_instead(lines[0].tokens[0], "a statement"))
            self._look_at(lines)

    def _keyword(self, parser: Parser, *words: str) -> None:
        """The word that a line begins with. One that is misspelt is reported."""
        if parser.token.kind not in words:
            raise Unreadable(1, END_OF_LINE)
        parser.index += 1

    def _header_end(self, parser: Parser, expected: str = f"':' or {AN_OPERATOR}") -> None:
        """The `:` of a line that opens a block, and the end of the line."""
        parser.expect(":", expected)
        if parser.token.kind != "end":
            raise Unreadable(parser.index, message="a block begins on a line of its own, indented")

    def _function(self, parser: Parser, line: Line) -> nodes.Function:
        self._keyword(parser, "fn")
        name = parser.name()
        parser.expect("(")
        built: dict[str, nodes.Parameter] = {}

        def parameter() -> None:
            token = parser.token
            if token.kind != "name":
                hint = f"a parameter is a name, with a default or without: fn {name.text}(a, b=1)"
                raise Unreadable(parser.index, message=hint)
            parser.index += 1
            default = parser.expression() if parser.take("=") else None
            if token.text in built:
                self.problems.at(token.at, f"parameter '{token.text}' is already there")
            elif default is None and built and next(reversed(built.values())).default is not None:
                self.problems.at(token.at, f"'{token.text}' needs a default, as the parameter before it has one")
            built[token.text] = nodes.Parameter(token.text, default, at=token.at)

        parser.separated(")", parameter)
        self._header_end(parser, "':'")
        return nodes.Function(name.text, tuple(built.values()), self._block(line, "fn"), at=line.at)

    def _if(self, line: Line, following: Sequence[Line]) -> Statement:
        branches = [self._read(line, self._branch)]
        otherwise: Block | None = ()
        for index, one in enumerate(following):
            if _word(one) == "else":
                otherwise = self._read(one, self._plain_block)
                self._refuse(following[index + 1 :])
                break
            branches.append(self._read(one, self._branch))
        return nodes.If(tuple(one for one in branches if one is not None), otherwise or (), at=line.at)

    def _branch(self, parser: Parser, line: Line) -> nodes.Branch:
        self._keyword(parser, "if", "elif")
        test = parser.expression()
        self._header_end(parser)
        return nodes.Branch(test, self._block(line, "if"), at=line.at)

    def _plain_block(self, parser: Parser, line: Line) -> Block:
        """The block of a `try`, `else` or `finally`."""
        self._keyword(parser, "try", "else", "finally")
        self._header_end(parser, "':'")
        return self._block(line, _word(line))

    def _for(self, parser: Parser, line: Line) -> Statement:
        self._keyword(parser, "for")
        names = [parser.name()]
        while parser.take(","):
            names.append(parser.name())
        if len({one.text for one in names}) < len(names):
            self.problems.at(names[0].at, "a name is used twice here")
        parser.expect("in", "'in' or ','")
        items = parser.expression()
        self._header_end(parser)
        return nodes.For(tuple(one.text for one in names), items, self._block(line, "for"), at=line.at)

    def _while(self, parser: Parser, line: Line) -> Statement:
        self._keyword(parser, "while")
        test = parser.expression()
        self._header_end(parser)
        return nodes.While(test, self._block(line, "while"), at=line.at)

    def _try(self, line: Line, following: Sequence[Line]) -> Statement:
        body = self._read(line, self._plain_block)
        handlers: list[nodes.Handler | None] = []
        parts: dict[str, Block | None] = {}
        for index, one in enumerate(following):
            word = _word(one)
            if "finally" in parts or word in parts or (word == "except" and parts) or (word == "else" and not handlers):
                self._refuse(following[index:])
                break
            if word == "except":
                handlers.append(self._read(one, self._handler))
            else:
                parts[word] = self._read(one, self._plain_block)
        if not following:
            self.problems.at(line.at, "expected 'except' or 'finally' after this 'try'")
        for handler in handlers[:-1]:
            if handler is not None and not handler.types:
                self.problems.at(handler.at, "an 'except' without types catches everything; put it last")
        caught = tuple(one for one in handlers if one is not None)
        return nodes.Try(body or (), caught, parts.get("else") or (), parts.get("finally") or (), at=line.at)

    def _handler(self, parser: Parser, line: Line) -> nodes.Handler:
        self._keyword(parser, "except")
        types: list[str] = []
        name = None
        if parser.token.kind != ":":
            if parser.take("("):
                types = parser.separated(")", lambda: self._calls.dotted_name(parser))
                if not types:
                    raise Unreadable(parser.index - 1, "a name")
            else:
                types = [self._calls.dotted_name(parser)]
            name = parser.name().text if parser.take("as") else None
        self._header_end(parser, "':'" if name or not types else "'as' or ':'")
        return nodes.Handler(tuple(types), name, self._block(line, "except"), at=line.at)

    def _parallel(self, parser: Parser, line: Line) -> Statement:
        self._keyword(parser, "parallel")
        self._header_end(parser, "':'")
        if not line.body:
            self._block(line, "parallel")
        branches: list[nodes.ParallelBranch] = []
        assigned: set[str] = set()
        with self._inside("parallel", line.at):
            for one in line.body:
                branch = self._read(one, self._parallel_branch)
                if branch is not None:
                    if branch.name in assigned:
                        self.problems.at(branch.at, f"'{branch.name}' is assigned twice in one 'parallel'")
                    assigned |= {branch.name} if branch.name else set()
                    branches.append(branch)
        return nodes.Parallel(tuple(branches), at=line.at)

    def _parallel_branch(self, parser: Parser, line: Line) -> nodes.ParallelBranch:
        name = None
        if [one.kind for one in parser.tokens[:2]] == ["name", "="]:
            name = parser.name().text
            parser.index += 1
        found = self._calls.any_call(parser)
        self._end(parser, line)
        return nodes.ParallelBranch(name, found, at=line.at)

    # Statements of one line

    def _simple(self, parser: Parser, line: Line) -> Statement:
        statement: Statement
        word = line.tokens[0].kind
        if word in BLOCK_WORDS:
            raise Unreadable(0, "a statement")
        if word in ("return", "sleep", "raise", "break", "continue", "pass"):
            parser.index += 1
        match word:
            case "return":
                value = None if parser.token.kind == "end" else self._calls.value(parser)
                statement = nodes.Return(value, at=line.at)
            case "sleep":
                statement = nodes.Sleep(parser.expression(), at=line.at)
            case "raise":
                statement = self._raise(parser, line)
            case "break" | "continue" | "pass":
                if word != "pass" and not {"for", "while"} & {*self._around}:
                    self.problems.at(line.at, f"'{word}' belongs into a 'for' or a 'while'")
                statement = nodes.Jump(word, at=line.at)
            case _:
                statement = self._assignment(parser, line)
        self._end(parser, line)
        return statement

    def _end(self, parser: Parser, line: Line) -> None:
        """The end of a line that opens no block."""
        if parser.token.kind != "end":
            raise Unreadable(parser.index, END_OF_LINE)
        if line.body:
            self.problems.at(line.body[0].at, "this line is indented more than its block")
            self._statements_of(line.body)

    def _assignment(self, parser: Parser, line: Line) -> Statement:
        first = self._calls.value(parser)
        sign = parser.token.kind
        if sign != "=" and sign not in _AUGMENTED:
            return nodes.ExpressionStatement(first, at=line.at)
        parser.index += 1
        value = self._calls.value(parser)
        if not isinstance(first, expressions.Name | expressions.Index):
            self.problems.at(first.at, "only a name or an element can be assigned: name = ..., name[index] = ...")
            first = expressions.Name("_", at=first.at)
        if sign == "=":
            return nodes.Assign(first, value, at=line.at)
        return nodes.AugmentedAssign(first, sign[:-1], value, at=line.at)

    def _raise(self, parser: Parser, line: Line) -> Statement:
        if parser.token.kind == "end":
            if "except" not in self._around:
                self.problems.at(line.at, "'raise' alone belongs into an 'except'; elsewhere name what to raise")
            return nodes.Raise(None, None, at=line.at)
        name = self._calls.dotted_name(parser)
        message = None
        if parser.take("(") and not parser.take(")"):
            message = parser.expression()
            parser.take(",")
            parser.expect(")", f"')' or {AN_OPERATOR}")
        return nodes.Raise(name, message, at=line.at)


def _word(line: Line) -> str:
    """The word that a line which opens a block begins with, or was meant to; empty for other lines."""
    first = line.tokens[0]
    if first.kind in BLOCK_WORDS:
        return first.kind
    meant = word_meant(first) if first.kind == "name" and line.body else ""
    return meant if meant in BLOCK_WORDS else ""

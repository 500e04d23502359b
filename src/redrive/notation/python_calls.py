"""Python calls as data: `@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))`. The code is parsed, never run."""

import ast
import re
import warnings
from datetime import timedelta
from typing import Any

import msgspec

from redrive.errors import NotationError
from redrive.notation.errors import Path, notation_error
from redrive.notation.place import Place, Position
from redrive.notation.source import check_size

_DEEPEST = 50
_LEADING = re.compile(r"(?:\s|#[^\n]*)*@?")
# A decorator is often pasted together with what it decorates.
_FOLLOWING = re.compile(r"^\s*(?:@|(?:async|def|class|with|for)\b)|:\s*\Z", re.MULTILINE)
_OPERATORS: dict[type[ast.operator], str] = {ast.BitOr: "|", ast.BitAnd: "&", ast.Add: "+"}
_TIMEDELTA = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
_READABLE = "a name, a number, a string, a call or a list"


class Name(msgspec.Struct, frozen=True):
    """A name, dotted or not; what it refers to is not known."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Call(msgspec.Struct, frozen=True):
    """A call, with its arguments read."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    node: ast.expr
    at: Position
    keyword_positions: dict[str, Position]

    def __repr__(self) -> str:
        return ast.unparse(self.node)


class Combined(msgspec.Struct, frozen=True):
    """Several expressions joined by one operator, such as `a | b | c`."""

    operator: str
    parts: tuple[Any, ...]
    node: ast.expr

    def __repr__(self) -> str:
        return ast.unparse(self.node)


def parse_call(text: str, source: str) -> Call:
    """Read the call that a text consists of; a leading `@` and a decorated function after the call are allowed."""
    text = _with_plain_line_ends(text)
    leading = _LEADING.match(text)
    start = leading.end() if leading else 0
    following = _FOLLOWING.search(text, start)
    parsed = _Source(text, source, start, following.start() if following else len(text))
    value = parsed.value()
    if isinstance(value, Name) and text[start - 1 : start] == "@":
        # A bare decorator, `@retry`, is the same as one called without arguments.
        value = Call(value.text, (), {}, parsed.root, parsed.position(parsed.root), {})
    if not isinstance(value, Call):
        raise parsed.refuse(parsed.root, "one call such as retry(stop=stop_after_attempt(5))")
    return value


def parse_expression(text: str, source: str) -> Any:
    """Read one expression: a Call, a Name, a Combined, a list or a plain value."""
    text = _with_plain_line_ends(text)
    return _Source(text, source, 0, len(text)).value()


def _with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_plain(value: Any) -> Any:
    """Turn names into text and `timedelta(...)` into a timedelta; other calls and combinations stay as they are."""
    if isinstance(value, Name):
        return value.text
    if isinstance(value, list):
        return [as_plain(one) for one in value]
    if isinstance(value, Call) and value.name.rpartition(".")[2] == "timedelta":
        return _timedelta(value)
    return value


def keywords_as_data(call: Call, source: str) -> tuple[dict[str, Any], Place]:
    """Return a call's keyword arguments as a mapping, and the place that knows the position of each key."""
    if call.arguments:
        raise notation_error(
            f"{call.name} has the positional argument {call.arguments[0]!r}",
            allowed="keyword arguments",
            source=source,
            line=call.at.line,
            column=call.at.column,
        )
    positions: dict[Path, Position] = {(key,): at for key, at in call.keyword_positions.items()}
    positions[()] = call.at
    return {key: as_plain(value) for key, value in call.keywords.items()}, Place(source, positions)


def _timedelta(call: Call) -> Any:
    given = dict(zip(_TIMEDELTA, call.arguments, strict=False)) | call.keywords
    fits = all(
        key in _TIMEDELTA and isinstance(one, int | float) and not isinstance(one, bool) for key, one in given.items()
    )
    try:
        return timedelta(**given) if fits else call
    except (OverflowError, ValueError):
        return call


class _Source:
    """The expression between `start` and `end` of a text, parsed so that its nodes have the text's positions."""

    def __init__(self, text: str, source: str, start: int, end: int) -> None:
        check_size(text, source)
        self._source = source
        # Blanks instead of what comes before keep the columns; inside parentheses indentation has no meaning.
        blanks = re.sub(r"[^\n]", " ", text[:start])
        self._text = f"(\n{blanks}{text[start:end]}\n)"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.root: ast.expr = ast.parse(self._text, mode="eval").body
        except SyntaxError as error:
            raise self._error(error.msg, (error.lineno or 2) - 1, error.offset or 1, "a Python expression") from None
        except (ValueError, MemoryError, RecursionError):
            raise self._error("not readable as Python", 1, 1, "a Python expression") from None

    def position(self, node: ast.expr | ast.keyword) -> Position:
        line = self._text.split("\n")[node.lineno - 1]
        return Position(node.lineno - 1, len(line.encode()[: node.col_offset].decode()) + 1)

    def refuse(self, node: ast.expr, allowed: str) -> NotationError:
        found = ast.get_source_segment(self._text, node)
        return self._error(f"found '{found}'", *self.position(node), allowed)

    def _error(self, problem: str, line: int, column: int, allowed: str) -> NotationError:
        return notation_error(
            f"{problem} (column {column})", allowed=allowed, source=self._source, line=line, column=column
        )

    def value(self, node: ast.expr | None = None, depth: int = 0) -> Any:
        node = node or self.root
        if depth > _DEEPEST:
            raise self.refuse(node, f"at most {_DEEPEST} expressions inside one another")
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List() | ast.Tuple():
                return [self.value(one, depth + 1) for one in node.elts]
            case ast.Call():
                return self._call(node, depth)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                operator = _OPERATORS[type(node.op)]
                left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
                parts = left.parts if isinstance(left, Combined) and left.operator == operator else (left,)
                return Combined(operator, (*parts, right), node)
            case ast.Name() | ast.Attribute():
                return Name(self._dotted_name(node))
        raise self.refuse(node, _READABLE)

    def _dotted_name(self, node: ast.expr) -> str:
        parts: list[str] = []
        part = node
        while isinstance(part, ast.Attribute):
            parts.append(part.attr)
            part = part.value
        if not isinstance(part, ast.Name):
            raise self.refuse(node, _READABLE)
        return ".".join([part.id, *reversed(parts)])

    def _call(self, node: ast.Call, depth: int) -> Call:
        keywords: dict[str, Any] = {}
        positions: dict[str, Position] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in keywords:
                raise self.refuse(keyword.value, "each argument once, by its name")
            keywords[keyword.arg] = self.value(keyword.value, depth + 1)
            positions[keyword.arg] = self.position(keyword)
        arguments = tuple(self.value(one, depth + 1) for one in node.args)
        return Call(self._dotted_name(node.func), arguments, keywords, node, self.position(node), positions)

"""Python calls as data: `@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))`. The code is parsed, never run."""

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Any

from redrive.notation.errors import Path, notation_error
from redrive.notation.place import Place, Position
from redrive.notation.python_nodes import NodeReader
from redrive.notation.python_values import Call, Name, as_plain
from redrive.notation.source import check_size

_LEADING = re.compile(r"(?:\s|#[^\n]*)*@?")
# A decorator is often pasted together with what it decorates.
_FOLLOWING = re.compile(r"^\s*(?:@|(?:async|def|class|with|for)\b)|:\s*\Z", re.MULTILINE)


def parse_call(text: str, source: str) -> Call:
    """Read the call that a text consists of; a leading `@` and a decorated function after the call are allowed."""
    text = with_plain_line_ends(text)
    leading = _LEADING.match(text)
    start = leading.end() if leading else 0
    following = _FOLLOWING.search(text, start)
    root, reader = _parsed(text, source, start, following.start() if following else len(text))
    value = reader.value(root)
    if isinstance(value, Name) and text[start - 1 : start] == "@":
        # A bare decorator, `@retry`, is the same as one called without arguments.
        value = Call(value.text, (), {}, root, reader.position(root), {})
    if not isinstance(value, Call):
        raise reader.refuse(root, "one call such as retry(stop=stop_after_attempt(5))")
    return value


def parse_expression(text: str, source: str) -> Any:
    """Read one expression: a Call, a Name, a Combined, a list or a plain value."""
    text = with_plain_line_ends(text)
    root, reader = _parsed(text, source, 0, len(text))
    return reader.value(root)


def with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def keywords_as_data(call: Call, source: str, positional: Sequence[str] = ()) -> tuple[dict[str, Any], Place]:
    """Return a call's arguments as a mapping, and the place that knows the position of each key.

    `positional`: the names of the arguments that may be given without one.
    """
    if len(call.arguments) > len(positional):
        raise notation_error(
            f"{call.name} has the positional argument {call.arguments[len(positional)]!r}",
            allowed="keyword arguments",
            source=source,
            line=call.at.line,
            column=call.at.column,
        )
    given = dict(zip(positional, call.arguments, strict=False)) | call.keywords
    positions: dict[Path, Position] = {(key,): call.keyword_positions.get(key, call.at) for key in given}
    positions[()] = call.at
    return {key: as_plain(value) for key, value in given.items()}, Place(source, positions)


def _parsed(text: str, source: str, start: int, end: int) -> tuple[ast.expr, NodeReader]:
    """Parse the expression between `start` and `end` of a text, so that its nodes have the text's positions."""
    check_size(text, source)
    # Blanks instead of what comes before keep the columns; inside parentheses indentation has no meaning.
    blanks = re.sub(r"[^\n]", " ", text[:start])
    text = f"(\n{blanks}{text[start:end]}\n)"
    reader = NodeReader(text, source, shift=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body, reader
    except SyntaxError as error:
        raise reader.error(error.msg, (error.lineno or 2) - 1, error.offset or 1, "a Python expression") from None
    except (ValueError, MemoryError, RecursionError):
        raise reader.error("not readable as Python", 1, 1, "a Python expression") from None

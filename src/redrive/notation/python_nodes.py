"""Reads expressions of Python source as values. The code is parsed, never run."""

import ast
import copy
from collections.abc import Callable
from typing import Any

from redrive.errors import NotationError
from redrive.notation.errors import notation_error
from redrive.notation.place import Position
from redrive.notation.python_values import Call, Combined, Name, Unknown, computed

_DEEPEST = 50
_OPERATORS: dict[type[ast.operator], str] = {ast.BitOr: "|", ast.BitAnd: "&", ast.Add: "+"}
_READABLE = "a name, a number, a string, a call or a list"

Resolve = Callable[[str], "ast.expr | str"]
"""Name -> the expression that it stands for, or else the name with the module it was imported from."""


class NodeReader:
    """Reads expression nodes of one text."""

    def __init__(
        self, text: str, source: str, *, resolve: Resolve = lambda name: name, lenient: bool = False, shift: int = 0
    ) -> None:
        """`lenient`: what cannot be read becomes Unknown instead of an error. `shift`: lines added before the text."""
        self._text = text
        self._lines = text.split("\n")
        self._source = source
        self._resolve = resolve
        self._lenient = lenient
        self._shift = shift

    def with_names(self, resolve: Resolve) -> "NodeReader":
        """Return a reader of the same text in which names mean something else."""
        other = copy.copy(self)
        other._resolve = resolve
        return other

    def position(self, node: ast.expr | ast.keyword | ast.stmt) -> Position:
        line = self._lines[node.lineno - 1]
        return Position(node.lineno - self._shift, len(line.encode()[: node.col_offset].decode()) + 1)

    def text_of(self, node: ast.expr) -> str:
        """Return an expression as it is written; if it takes several lines, on one."""
        if node.end_lineno != node.lineno:
            return ast.unparse(node)
        return self._lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()

    def refuse(self, node: ast.expr, allowed: str) -> NotationError:
        found = ast.get_source_segment(self._text, node)
        return self.error(f"found '{found}'", *self.position(node), allowed)

    def error(self, problem: str, line: int, column: int, allowed: str) -> NotationError:
        return notation_error(
            f"{problem} (column {column})", allowed=allowed, source=self._source, line=line, column=column
        )

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Read an expression: a plain value, a list, a dict, a Name, a Call, a Combined, or an Unknown."""
        if depth > _DEEPEST:
            raise self.refuse(node, f"at most {_DEEPEST} expressions inside one another")
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List() | ast.Tuple():
                return self._items(node.elts, depth)
            case ast.Dict() if all(isinstance(key, ast.Constant) for key in node.keys):
                return {
                    key.value: self.value(value, depth + 1)
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
            case ast.Call() if not self._lenient or self.dotted_name(node.func) is not None:
                return self._call(node, depth)
            case ast.BinOp():
                return self._operation(node, depth)
            case ast.Name() | ast.Attribute():
                return self._name(node, depth)
        return self._not_read(node)

    def dotted_name(self, node: ast.expr) -> str | None:
        """Return `a.b.c` as text, as written; None for anything else."""
        parts: list[str] = []
        part = node
        while isinstance(part, ast.Attribute):
            parts.append(part.attr)
            part = part.value
        return ".".join([part.id, *reversed(parts)]) if isinstance(part, ast.Name) else None

    def qualified_name(self, node: ast.expr) -> str | None:
        """Return `a.b.c` with the module that `a` was imported from; None for anything else."""
        written = self.dotted_name(node)
        if written is None:
            return None
        found = self._resolve(written)
        return found if isinstance(found, str) else written

    def _name(self, node: ast.expr, depth: int) -> Any:
        written = self.dotted_name(node)
        if written is None:
            return self._not_read(node)
        if written.endswith(".__name__"):
            return written.split(".")[-2]
        found = self._resolve(written)
        if isinstance(found, str):
            return Name(found, written if written != found else "")
        return self.value(found, depth + 1)

    def _not_read(self, node: ast.expr) -> Unknown:
        if not self._lenient:
            raise self.refuse(node, _READABLE)
        return Unknown(node)

    def _items(self, nodes: list[ast.expr], depth: int) -> list[Any]:
        items: list[Any] = []
        for one in nodes:
            value = self.value(one.value if isinstance(one, ast.Starred) and self._lenient else one, depth + 1)
            if isinstance(one, ast.Starred) and isinstance(value, list):
                items += value
            else:
                items.append(value)
        return items

    def _operation(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        result = computed(node, left, right)
        if result is not None:
            return result
        if type(node.op) not in _OPERATORS:
            return self._not_read(node)
        operator = _OPERATORS[type(node.op)]
        if operator == "+" and isinstance(left, list) and isinstance(right, list):
            return [*left, *right]
        parts = left.parts if isinstance(left, Combined) and left.operator == operator else (left,)
        return Combined(operator, (*parts, right), node)

    def _call(self, node: ast.Call, depth: int) -> Call:
        keywords: dict[str, Any] = {}
        positions: dict[str, Position] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, depth + 1)
            if keyword.arg is None and self._lenient and (spread := settings_of(value)) is not None:
                keywords |= spread
                positions |= dict.fromkeys(spread, self.position(keyword))
                continue
            if keyword.arg is None and self._lenient:
                problem = f"**{ast.unparse(keyword.value)} is not known from this file"
                raise self.error(problem, *self.position(keyword), "settings that are written out")
            if keyword.arg is None or keyword.arg in keywords:
                raise self.refuse(keyword.value, "each argument once, by its name")
            keywords[keyword.arg] = value
            positions[keyword.arg] = self.position(keyword)
        arguments = tuple(self._items(node.args, depth))
        name = self.qualified_name(node.func)
        if name is None:
            raise self.refuse(node.func, _READABLE)
        return Call(name, arguments, keywords, node, self.position(node), positions)


def settings_of(value: Any) -> dict[str, Any] | None:
    """Return the settings in `{"a": 1}` or `dict(a=1)`, for `**settings`; None for anything else."""
    if isinstance(value, Call) and value.name == "dict" and not value.arguments:
        return value.keywords
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None

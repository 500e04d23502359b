"""Parses expressions by recursive descent. They group as in Python."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from redrive.expressions import nodes
from redrive.expressions.literals import LiteralError, read_number, read_string
from redrive.expressions.nodes import Argument, Node, Position
from redrive.expressions.tokens import Token

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NESTING = 50
"""Blocks and expressions inside one another."""

# Precedence, from the loosest to the tightest.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(7)
_PRECEDENCE = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "is", "not in", "is not"), _COMPARISON),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT),
}
_CONSTANTS = {"True": True, "False": False, "None": None}
AN_OPERATOR = "an operator"
"""What parsers expect behind a value, beside the end of it."""


class Unreadable(Exception):
    """The token at `index` is not allowed there. `message` says why, or else `expected` says what is."""

    def __init__(self, index: int, expected: str = "", message: str = "") -> None:
        self.index = index
        self.expected = expected
        self.message = message


class TooDeep(Exception):
    """The text is nested more deeply than is read."""

    def __init__(self, at: Position) -> None:
        self.at = at
        self.message = f"nested too deeply: at most {MOST_NESTING} blocks and expressions may be inside one another"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the host of the language adds to expressions."""

    atoms: "Mapping[str, Callable[[Parser], Node]]" = field(default_factory=dict)
    """Token kind -> the parser of the atom that begins with it."""
    attributes_of_anything: bool = False
    """`a[0].b` is an attribute too, not only `a.b`."""
    tuples: bool = False
    """`(a, b)` is a list."""


T = TypeVar("T")
Report: TypeAlias = "Callable[[Position, str], None]"


class Parser:
    """Reads a list of tokens that ends with one of kind "end". `report` is called for literals that cannot be read."""

    def __init__(self, tokens: Sequence[Token], dialect: Dialect, report: Report, depth: int = 0) -> None:
        self.tokens = tokens
        self.index = 0
        self.report = report
        self._dialect = dialect
        self._depth = depth

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.index]

    def take(self, kind: str) -> Token | None:
        """Step over the next token if it is of this kind."""
        token = self.tokens[self.index]
        if token.kind != kind:
            return None
        self.index += 1
        return token

    def expect(self, kind: str, expected: str = "") -> Token:
        """Step over the next token; Unreadable if it is of another kind."""
        token = self.take(kind)
        if token is None:
            raise Unreadable(self.index, expected or f"'{kind}'")
        return token

    def name(self) -> Token:
        return self.expect("name", "a name")

    @contextmanager
    def deeper(self, levels: int = 1) -> "Iterator[None]":
        self._depth += levels
        if self._depth > MOST_NESTING:
            raise TooDeep(self.token.at)
        yield
        self._depth -= levels

    def expression(self) -> Node:
        then = self._binary(_OR)
        if not self.take("if"):
            return then
        test = self._binary(_OR)
        self.expect("else", f"'else' or {AN_OPERATOR}")
        with self.deeper():
            return nodes.Conditional(test, then, self.expression(), at=then.at)

    def _operator(self) -> str:
        kind = self.token.kind
        if kind == "not":
            return "not in" if self.tokens[self.index + 1].kind == "in" else ""
        if kind == "is" and self.tokens[self.index + 1].kind == "not":
            return "is not"
        return kind if kind in _PRECEDENCE else ""

    def _binary(self, lowest: int) -> Node:
        left = self._unary(lowest)
        while (operator := self._operator()) and (level := _PRECEDENCE[operator]) >= lowest:
            rest: list[tuple[str, Node]] = []
            with self.deeper():
                while operator and _PRECEDENCE[operator] == level:
                    self.index += 1 + (" " in operator)
                    rest.append((operator, self._binary(level + 1)))
                    operator = self._operator()
            if level in (_OR, _AND):
                left = nodes.Logic(rest[0][0], (left, *(one for _, one in rest)), at=left.at)
            else:
                kind = nodes.Comparison if level == _COMPARISON else nodes.Arithmetic
                left = kind(left, tuple(rest), at=left.at)
        return left

    def _unary(self, lowest: int) -> Node:
        token = self.token
        if token.kind in ("+", "-") or (token.kind == "not" and lowest <= _NOT):
            self.index += 1
            with self.deeper():
                operand = self._binary(_NOT) if token.kind == "not" else self._unary(_SIGN)
            return nodes.Unary(token.kind, operand, at=token.at)
        base = self._item()
        if not self.take("**"):
            return base
        with self.deeper():
            return nodes.Arithmetic(base, (("**", self._unary(_SIGN)),), at=base.at)

    def _item(self) -> Node:
        value = self._atom()
        levels = 0
        while self.token.kind in ("[", "."):
            levels += 1
            with self.deeper(levels):
                value = self._subscript(value) if self.token.kind == "[" else self._attribute(value)
        return value

    def _attribute(self, value: Node) -> Node:
        dot = self.index
        names_follow = [one.kind for one in self.tokens[dot + 1 : dot + 3]]
        if names_follow == ["name", "("] or not (isinstance(value, nodes.Name) or self._dialect.attributes_of_anything):
            raise Unreadable(dot, f"{AN_OPERATOR} or the end of the line")
        self.index += 1
        return nodes.Attribute(value, self.name().text, at=value.at)

    def _subscript(self, value: Node) -> Node:
        self.expect("[")
        parts: list[Node | None] = [None]
        while not self.take("]"):
            if self.take(":"):
                if len(parts) == 3:
                    raise Unreadable(self.index - 1, "']'")
                parts.append(None)
            elif parts[-1] is None:
                parts[-1] = self.expression()
            else:
                raise Unreadable(self.index, f"']', ':' or {AN_OPERATOR}")
        if len(parts) == 1:
            if parts[0] is None:
                raise Unreadable(self.index - 1, "a value")
            return nodes.Index(value, parts[0], at=value.at)
        return nodes.Slice(value, *parts, *[None] * (3 - len(parts)), at=value.at)

    def _atom(self) -> Node:
        token = self.token
        if extension := self._dialect.atoms.get(token.kind):
            return extension(self)
        match token.kind:
            case "name":
                self.index += 1
                return self._call(token) if self.token.kind == "(" else nodes.Name(token.text, at=token.at)
            case "number" | "string":
                self.index += 1
                return nodes.Literal(self._literal(token), at=token.at)
            case "True" | "False" | "None":
                self.index += 1
                return nodes.Literal(_CONSTANTS[token.kind], at=token.at)
            case "(":
                return self._parenthesized()
            case "[":
                self.index += 1
                return nodes.ListDisplay(tuple(self.separated("]", self.expression)), at=token.at)
            case "{":
                self.index += 1
                return nodes.DictDisplay(tuple(self.separated("}", self._pair)), at=token.at)
        raise Unreadable(self.index, "a value")

    def _literal(self, token: Token) -> int | float | str | None:
        try:
            return read_number(token.text) if token.kind == "number" else read_string(token.text)
        except LiteralError as error:
            self.report(token.at, str(error))
            return None

    def _parenthesized(self) -> Node:
        opening = self.expect("(")
        with self.deeper():
            inside = self.expression()
            if self._dialect.tuples and self.take(","):
                return nodes.ListDisplay((inside, *self.separated(")", self.expression)), at=opening.at)
        self.expect(")", f"')' or {AN_OPERATOR}")
        return inside

    def _pair(self) -> tuple[Node, Node]:
        key = self.expression()
        self.expect(":", f"':' or {AN_OPERATOR}")
        return key, self.expression()

    def separated(self, closing: str, read: Callable[[], T]) -> list[T]:
        """The elements up to the closing bracket, separated by commas."""
        found: list[T] = []
        with self.deeper():
            while not self.take(closing):
                found.append(read())
                if self.token.kind != closing:
                    self.expect(",", f"'{closing}', ',' or {AN_OPERATOR}")
        return found

    def _call(self, name: Token) -> Node:
        self.expect("(")
        positional: list[Node] = []
        named: dict[str, Argument] = {}

        def one() -> None:
            if self.token.kind == "name" and self.tokens[self.index + 1].kind == "=":
                self.argument(named)
                return
            if named:
                self.report(self.token.at, "put arguments without a name before those with one")
            positional.append(self.expression())

        self.separated(")", one)
        return nodes.Call(name.text, tuple(positional), tuple(named.values()), at=name.at)

    def argument(self, named: dict[str, Argument]) -> None:
        """Read `name=value`; a name that is there already is reported."""
        name = self.name()
        self.expect("=")
        if name.text in named:
            self.report(name.at, f"argument '{name.text}' is given twice")
        named[name.text] = Argument(name.text, self.expression(), at=name.at)

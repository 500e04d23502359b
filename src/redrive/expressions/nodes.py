"""The syntax tree of an expression. Every node knows its position; positions do not count when trees are compared.

Chains are flat (`a + b - c` is one node), so a tree is at most about as deep as its text is nested.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class Position(NamedTuple):
    """Line and column in the text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything in a syntax tree."""

    at: Position = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """`None`, `True`, `12`, `1.5`, `"text"`."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class ListDisplay(Node):
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class DictDisplay(Node):
    """`{"a": 1}`, keys and values in order."""

    pairs: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`value[index]`."""

    value: Node
    index: Node


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`value[start:stop:step]`."""

    value: Node
    start: Node | None
    stop: Node | None
    step: Node | None


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`value.name`. The host of the language decides what it means."""

    value: Node
    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-a`, `+a`, `not a`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`first + a - b`: evaluated from left to right, all of one precedence. `**` has exactly one in `rest`."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`first < a <= b`, chained as in Python: each operand is evaluated once, the first false comparison ends it."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`a and b and c`: gives the operand that decided, as in Python."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`then if test else otherwise`."""

    test: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`name=value` in a call."""

    name: str
    value: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`name(a, b=c)`. No argument name occurs twice."""

    name: str
    positional: tuple[Node, ...]
    named: tuple[Argument, ...]


_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def children(node: Node) -> list[Node]:
    """The nodes directly inside a node, in the order of the text."""
    found: list[Node] = []
    names = _FIELDS.get(type(node))
    if names is None:
        names = _FIELDS[type(node)] = tuple(one.name for one in fields(node) if one.name != "at")
    for name in names:
        _collect(getattr(node, name), found)
    return found


def _collect(value: Any, found: list[Node]) -> None:
    if isinstance(value, Node):
        found.append(value)
    elif type(value) is tuple:
        for one in value:
            _collect(one, found)


def walk(*begin: Node) -> Iterator[Node]:
    """These nodes and all nodes inside them, in the order of the text."""
    waiting = list(reversed(begin))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))

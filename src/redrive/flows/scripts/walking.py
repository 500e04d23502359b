"""Look at all nodes inside of a node, in the order of the text."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from redrive.flows.scripts import nodes

_FIELDS = {
    kind: tuple(field.name for field in fields(kind) if field.name != "span")
    for kind in vars(nodes).values()
    if isinstance(kind, type) and issubclass(kind, nodes.Node)
}
"""Where nodes may hold others."""


def children(node: nodes.Node) -> list[nodes.Node]:
    found: list[nodes.Node] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, nodes.Node):
            found.append(value)
        elif type(value) is tuple and value:
            _add_nodes(value, found)
    return found


def _add_nodes(values: tuple[Any, ...], found: list[nodes.Node]) -> None:
    for value in values:
        if isinstance(value, nodes.Node):
            found.append(value)
        elif type(value) is tuple:
            _add_nodes(value, found)


def walk(*begin: nodes.Node) -> Iterator[nodes.Node]:
    """These nodes and all that is inside of them."""
    waiting = list(reversed(begin))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def expressions_of(statement: nodes.Statement) -> list[nodes.Node]:
    """What a statement itself evaluates, without the blocks in it."""
    if isinstance(statement, nodes.If):
        return [branch.test for branch in statement.branches]
    return [one for one in children(statement) if not isinstance(one, nodes.Statement | nodes.Handler)]

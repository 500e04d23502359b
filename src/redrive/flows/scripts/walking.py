"""Look at all nodes inside of a node, in the order of the text."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from redrive.flows.scripts import nodes


def children(node: nodes.Node) -> Iterator[nodes.Node]:
    for field in fields(node):
        yield from _nodes_in(getattr(node, field.name))


def _nodes_in(value: Any) -> Iterator[nodes.Node]:
    if isinstance(value, nodes.Node):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from _nodes_in(part)


def walk(*begin: nodes.Node) -> Iterator[nodes.Node]:
    """These nodes and all that is inside of them."""
    waiting = list(reversed(begin))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(children(node))))


def waiting_functions(script: nodes.Script) -> frozenset[str]:
    """The functions that may wait for an action or a timer, themselves or in what they call."""
    found: set[str] = set()
    calls: dict[str, set[str]] = {}
    for name, function in script.functions.items():
        inside = list(walk(*function.body))
        calls[name] = {node.name for node in inside if isinstance(node, nodes.Call)}
        if any(isinstance(node, nodes.ActionCall | nodes.Sleep) for node in inside):
            found.add(name)
    while more := {name for name, called in calls.items() if name not in found and called & found}:
        found |= more
    return frozenset(found)

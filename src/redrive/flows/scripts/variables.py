"""Which names are a function's own: as in Python, all that it assigns anywhere."""

from collections.abc import Iterator

from redrive.flows.scripts import nodes


def variables_of(function: nodes.Function) -> frozenset[str]:
    return frozenset((*(one.name for one in function.parameters), *assigned_in(function.body)))


def assigned_in(block: nodes.Block) -> Iterator[str]:
    """The names that the statements of a block assign, those in inner blocks included."""
    for node in block:
        match node:
            case nodes.Assign() | nodes.AugmentedAssign():
                if isinstance(node.target, nodes.Name):
                    yield node.target.name
            case nodes.For():
                yield from node.names
            case nodes.Parallel():
                yield from (branch.name for branch in node.branches if branch.name is not None)
            case nodes.Try():
                yield from (handler.name for handler in node.handlers if handler.name is not None)
            case _:
                pass
        for inner in blocks_of(node):
            yield from assigned_in(inner)


def blocks_of(node: nodes.Statement) -> list[nodes.Block]:
    """The blocks that a statement has."""
    match node:
        case nodes.If():
            return [*(branch.body for branch in node.branches), node.otherwise]
        case nodes.For() | nodes.While():
            return [node.body]
        case nodes.Try():
            return [node.body, *(handler.body for handler in node.handlers), node.otherwise, node.final]
        case _:
            return []

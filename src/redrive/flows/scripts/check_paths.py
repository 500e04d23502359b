"""What is never reached, and what never ends."""

import builtins

from redrive import errors
from redrive.failures.matching import lineage
from redrive.flows.scripts import nodes
from redrive.flows.scripts.error_values import caught_names
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.variables import assigned_in, blocks_of
from redrive.flows.scripts.walking import walk

_EVERY = frozenset(("Exception", "BaseException", "builtins.Exception", "builtins.BaseException"))
_CLASSES: dict[str, type] = {
    name: kind
    for module in (builtins, errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
# A function may wait, raise, or change what is tested. An element may be what is tested by another name, or missing.
_WAITS_OR_MAY_END_A_LOOP = (nodes.ActionCall, nodes.Sleep, nodes.Call, nodes.Index, nodes.Slice)


class PathChecker:
    """Follows a function from above."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._tries = 0
        """Those around what is looked at whose handlers an error there may reach."""

    def check(self, function: nodes.Function) -> None:
        self._block(function.body)

    def _block(self, block: nodes.Block) -> bool:
        """Whether what follows the block can be reached."""
        goes_on = True
        told = False
        for node in block:
            if not goes_on and not told:
                self._problems.at(
                    node.span, "this is never reached; remove it, or what ends above it", "warning", "unreachable-code"
                )
                told = True
            goes_on = self._statement(node) and goes_on
        return goes_on

    def _statement(self, node: nodes.Statement) -> bool:
        match node:
            case nodes.Return() | nodes.Raise() | nodes.Break() | nodes.Continue():
                return False
            case nodes.If():
                ways = [self._block(branch.body) for branch in node.branches]
                return self._block(node.otherwise) or any(ways)
            case nodes.For():
                self._block(node.body)
                return True
            case nodes.While():
                self._block(node.body)
                self._loop(node)
                return not _is_true(node.test) or _leaves(node.body, nodes.Break)
            case nodes.Try():
                return self._try(node)
            case _:
                return True

    def _try(self, node: nodes.Try) -> bool:
        self._handlers(node)
        self._tries += bool(node.handlers)
        goes_on = self._block(node.body)
        self._tries -= bool(node.handlers)
        if node.otherwise:
            if not goes_on:
                message = "this else is never reached: the try above it never comes to its end"
                self._problems.at(node.otherwise[0].span, message, "warning", "unreachable-code")
            goes_on = self._block(node.otherwise) and goes_on
        ways = [self._block(handler.body) for handler in node.handlers]
        return self._block(node.final) and (goes_on or any(ways))

    def _handlers(self, node: nodes.Try) -> None:
        """Those that come after one that catches the same."""
        before: dict[str, int] = {}
        for handler in node.handlers:
            for name in handler.types or ("Exception",):
                earlier = next((one for one in _caught_by(name) if one in before), None)
                every = next((one for one in before if one in _EVERY), None)
                catcher = earlier or every
                if catcher is not None:
                    what = f"except {name}" if handler.types else "this except"
                    message = (
                        f"{what} is never reached: except {catcher} in line {before[catcher]} catches it before; "
                        "put the narrower one first, or remove it"
                    )
                    self._problems.at(handler.span, message, "warning", "unreachable-handler")
            for name in caught_names(handler.types or ("Exception",)):
                before.setdefault(name, handler.span.line)

    def _loop(self, node: nodes.While) -> None:
        # A script with this problem does not start, so it is told only where nothing can end the loop. A limit of steps
        # ends the others.
        if self._tries or _leaves(node.body, nodes.Break, nodes.Return, nodes.Raise):
            return
        if any(isinstance(part, _WAITS_OR_MAY_END_A_LOOP) for part in walk(node)):
            return
        names = {part.name for part in walk(node.test) if isinstance(part, nodes.Name)}
        if names & {*assigned_in(node.body)}:
            return
        what = "this loop never ends" if _is_true(node.test) else "nothing in this loop changes what it tests"
        message = f"{what}, and it waits for nothing; add a break, an action, or a sleep"
        self._problems.at(node.span, message, rule="endless-loop")


def _caught_by(name: str) -> tuple[str, ...]:
    """The names by which an earlier handler would catch errors of this name."""
    (current,) = caught_names((name,))
    known = _CLASSES.get(current)
    return lineage(known) if known is not None else (current, current.rpartition(".")[2])


def _is_true(test: nodes.Expression) -> bool:
    return isinstance(test, nodes.Literal) and bool(test.value)


def _leaves(block: nodes.Block, *kinds: type[nodes.Node]) -> bool:
    """Whether something in a loop's body leaves it; a break in an inner loop leaves that one only."""
    for node in block:
        if isinstance(node, kinds):
            return True
        outer = tuple(kind for kind in kinds if kind is not nodes.Break)
        inner = outer if isinstance(node, nodes.For | nodes.While) else kinds
        if inner and any(_leaves(one, *inner) for one in blocks_of(node)):
            return True
    return False

"""Finds code that is never reached, and loops that never end."""

from redrive.expressions import nodes as expressions
from redrive.expressions.nodes import walk
from redrive.failures.matching import lineage
from redrive.flows.scripts import nodes
from redrive.flows.scripts.error_values import ERROR_CLASSES, caught_names
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.nodes import assigned_in, blocks_of

_EVERY = frozenset(("Exception", "BaseException", "builtins.Exception", "builtins.BaseException"))
# A function may wait, raise, or change what the loop tests. An element may be the tested value under another name.
_WAITS_OR_MAY_END_A_LOOP = (nodes.ActionCall, nodes.Sleep, expressions.Call, expressions.Index, expressions.Slice)


class PathChecker:
    """Follows a function in order."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._tries = 0
        """How many `try` with handlers are around the statement."""

    def check(self, function: nodes.Function) -> None:
        self._block(function.body)

    def _block(self, block: nodes.Block) -> bool:
        """Whether the statement behind the block can be reached."""
        goes_on = True
        reported = False
        for node in block:
            if not goes_on and not reported:
                self._problems.at(
                    node.at,
                    "this is never reached; remove it, or what leaves the block above it",
                    "warning",
                    "unreachable-code",
                )
                reported = True
            goes_on = self._statement(node) and goes_on
        return goes_on

    def _statement(self, node: nodes.Statement) -> bool:
        match node:
            case nodes.Return() | nodes.Raise():
                return False
            case nodes.Jump(word=word):
                return word == "pass"
            case nodes.If():
                ways = [self._block(branch.body) for branch in node.branches]
                return self._block(node.otherwise) or any(ways)
            case nodes.For():
                self._block(node.body)
                return True
            case nodes.While():
                self._block(node.body)
                self._loop(node)
                return not _is_true(node.test) or _leaves(node.body, also_ends=False)
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
                message = "this else is never reached: the try above it never completes"
                self._problems.at(node.otherwise[0].at, message, "warning", "unreachable-code")
            goes_on = self._block(node.otherwise) and goes_on
        ways = [self._block(handler.body) for handler in node.handlers]
        return self._block(node.final) and (goes_on or any(ways))

    def _handlers(self, node: nodes.Try) -> None:
        """Warn about handlers behind one that catches the same."""
        before: dict[str, int] = {}
        for handler in node.handlers:
            for name in handler.types or ("Exception",):
                earlier = next((one for one in _caught_by(name) if one in before), None)
                every = next((one for one in before if one in _EVERY), None)
                catcher = earlier or every
                if catcher is not None:
                    what = f"except {name}" if handler.types else "this except"
                    message = (
                        f"{what} is never reached: except {catcher} in line {before[catcher]} catches it first; "
                        "put the narrower one first, or remove it"
                    )
                    self._problems.at(handler.at, message, "warning", "unreachable-handler")
            for name in caught_names(handler.types or ("Exception",)):
                before.setdefault(name, handler.at.line)

    def _loop(self, node: nodes.While) -> None:
        # A script with this error does not start, so it is reported only where nothing can end the loop. The limit of
        # steps ends other endless loops.
        if self._tries or _leaves(node.body, also_ends=True):
            return
        if any(isinstance(part, _WAITS_OR_MAY_END_A_LOOP) for part in walk(node)):
            return
        names = {part.name for part in walk(node.test) if isinstance(part, expressions.Name)}
        if names & {*assigned_in(node.body)}:
            return
        what = "this loop never ends" if _is_true(node.test) else "nothing in this loop changes what it tests"
        message = f"{what}, and it never waits; add a break, an action or a sleep"
        self._problems.at(node.at, message, rule="endless-loop")


def _caught_by(name: str) -> tuple[str, ...]:
    """The names with which an earlier handler catches errors of this name."""
    (current,) = caught_names((name,))
    known = ERROR_CLASSES.get(current)
    return lineage(known) if known is not None else (current, current.rpartition(".")[2])


def _is_true(test: expressions.Node) -> bool:
    return isinstance(test, expressions.Literal) and bool(test.value)


def _leaves(block: nodes.Block, also_ends: bool) -> bool:
    """Whether a `break` leaves the loop with this body; `also_ends`: or a `return` or `raise` does."""
    for node in block:
        if isinstance(node, nodes.Jump) and node.word == "break":
            return True
        if also_ends and isinstance(node, nodes.Return | nodes.Raise):
            return True
        # A break in an inner loop leaves that one only.
        if isinstance(node, nodes.For | nodes.While):
            if also_ends and any(isinstance(one, nodes.Return | nodes.Raise) for one in walk(*node.body)):
                return True
        elif any(_leaves(one, also_ends) for one in blocks_of(node)):
            return True
    return False

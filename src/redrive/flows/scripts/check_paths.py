"""Follows the functions of a script in order: finds variables without a value, dead code, and endless loops."""

from redrive.expressions import nodes as expressions
from redrive.expressions.nodes import children, walk
from redrive.failures.matching import lineage
from redrive.flows.scripts import nodes
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.error_values import ERROR_CLASSES, caught_names
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.nodes import assigned_in, blocks_of

Names = frozenset[str]
_FOREIGN = {"true": "True", "false": "False", "null": "None", "none": "None", "nil": "None", "undefined": "None"}
"""Constants of other languages."""
_EVERY = frozenset(("Exception", "BaseException", "builtins.Exception", "builtins.BaseException"))
# A function may wait, raise, or change what the loop tests. An element may be the tested value under another name.
_WAITS_OR_MAY_END_A_LOOP = (nodes.ActionCall, nodes.Sleep, expressions.Call, expressions.Index, expressions.Slice)


class PathChecker:
    """Follows one function, with the names that may have a value on some path."""

    def __init__(self, function: nodes.Function, problems: Problems) -> None:
        self._function = function
        self._variables = function.variables
        self._problems = problems
        self._tries = 0
        """How many `try` with handlers are around the statement."""

    def check(self) -> None:
        for parameter in self._function.parameters:
            if parameter.default is not None:
                self._read(parameter.default, frozenset())
        self._block(self._function.body, frozenset(one.name for one in self._function.parameters))

    def _block(self, block: nodes.Block, known: Names) -> tuple[Names, bool]:
        """The names known behind the block, and whether the statement behind it can be reached."""
        goes_on = True
        reported = False
        for node in block:
            if not goes_on and not reported:
                message = "this is never reached; remove it, or what leaves the block above it"
                self._problems.at(node.at, message, "warning", "unreachable-code")
                reported = True
            known, reached = self._statement(node, known)
            goes_on = reached and goes_on
        return known, goes_on

    def _statement(self, node: nodes.Statement, known: Names) -> tuple[Names, bool]:
        match node:
            case nodes.Assign():
                self._read(node.value, known)
                return self._target(node.target, known), True
            case nodes.AugmentedAssign():
                self._read(node.target, known)
                self._read(node.value, known)
                return self._target(node.target, known), True
            case nodes.If():
                after, goes_on = self._block(node.otherwise, known)
                for branch in node.branches:
                    self._read(branch.test, known)
                    names, reached = self._block(branch.body, known)
                    after, goes_on = after | names, goes_on or reached
                return after, goes_on
            case nodes.For():
                self._read(node.items, known)
                names, _ = self._block(node.body, known | {*node.names, *assigned_in(node.body)})
                return known | names, True
            case nodes.While():
                inside = known | {*assigned_in(node.body)}
                self._read(node.test, inside)
                names, _ = self._block(node.body, inside)
                self._loop(node)
                return names, not _is_true(node.test) or _leaves(node.body, also_ends=False)
            case nodes.Try():
                return self._try(node, known)
            case nodes.Parallel():
                for line in node.branches:
                    self._read(line.call, known)
                self._parallel(node, known)
                return known | {line.name for line in node.branches if line.name is not None}, True
            case _:
                for child in children(node):
                    self._read(child, known)
                leaves = isinstance(node, nodes.Return | nodes.Raise)
                return known, not leaves and not (isinstance(node, nodes.Jump) and node.word != "pass")

    def _try(self, node: nodes.Try, known: Names) -> tuple[Names, bool]:
        self._handlers(node)
        self._tries += bool(node.handlers)
        after, goes_on = self._block(node.body, known)
        self._tries -= bool(node.handlers)
        if node.otherwise and not goes_on:
            message = "this else is never reached: the try above it never completes"
            self._problems.at(node.otherwise[0].at, message, "warning", "unreachable-code")
        after, reached = self._block(node.otherwise, after)
        goes_on = reached and goes_on
        # The body may have failed anywhere.
        before_handlers = known | {*assigned_in(node.body)}
        before_final = before_handlers | {*assigned_in(node.otherwise)}
        for handler in node.handlers:
            caught = {handler.name} if handler.name is not None else set()
            names, reached = self._block(handler.body, before_handlers | caught)
            # As in Python, the name of the error ends with its handler.
            after |= names - (caught - known)
            before_final |= {*assigned_in(handler.body)}
            goes_on = goes_on or reached
        names, reached = self._block(node.final, before_final | after)
        return after | names, reached and goes_on

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

    def _parallel(self, node: nodes.Parallel, known: Names) -> None:
        """Warn about branches that read what another one assigns: they see the value from before."""
        assigned = {line.name: line.at.line for line in node.branches if line.name is not None}
        for branch in node.branches:
            for part in walk(branch.call):
                if isinstance(part, expressions.Name) and part.name in assigned and part.name in known:
                    if part.name == branch.name:
                        continue
                    message = (
                        f"{part.name!r} is assigned in line {assigned[part.name]} of the same 'parallel'; it still has "
                        "its old value here, as all calls begin at once; move one of them out of the 'parallel'"
                    )
                    self._problems.at(part.at, message, "warning", "parallel-order")

    def _target(self, target: expressions.Name | expressions.Index, known: Names) -> Names:
        if isinstance(target, expressions.Name):
            return known | {target.name}
        self._read(target, known)
        return known

    def _read(self, node: expressions.Node, known: Names) -> None:
        if isinstance(node, expressions.Name):
            if node.name not in known:
                self._report_name(node, known)
            return
        if isinstance(node, nodes.Spread):
            self._read(node.items, known)
            self._read(node.call, known | {node.name})
            return
        for child in children(node):
            self._read(child, known)

    def _report_name(self, node: expressions.Name, known: Names) -> None:
        name = node.name
        if name in self._variables:
            message = f"{name!r} has no value here yet, on any path; assign it first"
            self._problems.at(node.at, message, rule="used-before-assignment")
            return
        if name in _FOREIGN:
            message = f"nothing is named {name!r}; write {_FOREIGN[name]}"
        elif name in BUILTINS:
            message = f"{name!r} is a function; write {BUILTINS[name].usage(name)}"
        else:
            otherwise = "assign it first, or make it a parameter"
            hint = self._problems.hint(name, sorted(known | self._variables), otherwise)
            message = f"nothing is named {name!r}; {hint}"
        self._problems.at(node.at, message, rule="unknown-name")


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

"""Finds variables that have no value where they are used, on any path through the script."""

from redrive.expressions import nodes as expressions
from redrive.expressions.nodes import children, walk
from redrive.flows.scripts import nodes
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.nodes import assigned_in

Names = frozenset[str]
_FOREIGN = {"true": "True", "false": "False", "null": "None", "none": "None", "nil": "None", "undefined": "None"}
"""Constants of other languages."""


class NameChecker:
    """Follows a function in order, with the names that may have a value."""

    def __init__(self, function: nodes.Function, problems: Problems) -> None:
        self._function = function
        self._variables = function.variables
        self._problems = problems

    def check(self) -> None:
        for parameter in self._function.parameters:
            if parameter.default is not None:
                self._read(parameter.default, frozenset())
        self._block(self._function.body, frozenset(one.name for one in self._function.parameters))

    def _block(self, block: nodes.Block, known: Names) -> Names:
        for node in block:
            known = self._statement(node, known)
        return known

    def _statement(self, node: nodes.Statement, known: Names) -> Names:
        match node:
            case nodes.Assign():
                self._read(node.value, known)
                return self._target(node.target, known)
            case nodes.AugmentedAssign():
                self._read(node.target, known)
                self._read(node.value, known)
                return self._target(node.target, known)
            case nodes.If():
                after: Names = frozenset()
                for branch in node.branches:
                    self._read(branch.test, known)
                    after |= self._block(branch.body, known)
                return after | self._block(node.otherwise, known)
            case nodes.For():
                self._read(node.items, known)
                inside = known | {*node.names, *assigned_in(node.body)}
                return known | self._block(node.body, inside)
            case nodes.While():
                inside = known | {*assigned_in(node.body)}
                self._read(node.test, inside)
                return self._block(node.body, inside)
            case nodes.Try():
                return self._try(node, known)
            case nodes.Parallel():
                for line in node.branches:
                    self._read(line.call, known)
                self._parallel(node, known)
                return known | {line.name for line in node.branches if line.name is not None}
            case _:
                for child in children(node):
                    self._read(child, known)
                return known

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

    def _try(self, node: nodes.Try, known: Names) -> Names:
        after = self._block(node.body, known)
        # The body may have failed anywhere.
        before_handlers = known | {*assigned_in(node.body)}
        after = self._block(node.otherwise, after)
        for handler in node.handlers:
            caught = {handler.name} if handler.name is not None else set()
            # As in Python, the name of the error ends with its handler.
            after |= self._block(handler.body, before_handlers | caught) - (caught - known)
        before_final = after | before_handlers
        for handler in node.handlers:
            before_final |= {*assigned_in(handler.body)}
        return after | self._block(node.final, before_final | {*assigned_in(node.otherwise)})

    def _target(self, target: expressions.Name | expressions.Index, known: Names) -> Names:
        if isinstance(target, expressions.Name):
            return known | {target.name}
        self._read(target, known)
        return known

    def _read(self, node: expressions.Node, known: Names) -> None:
        if isinstance(node, expressions.Name):
            if node.name not in known:
                self._tell(node, known)
            return
        if isinstance(node, nodes.Spread):
            self._read(node.items, known)
            self._read(node.call, known | {node.name})
            return
        for child in children(node):
            self._read(child, known)

    def _tell(self, node: expressions.Name, known: Names) -> None:
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

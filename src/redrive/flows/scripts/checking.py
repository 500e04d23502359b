"""Checks scripts before they run. Each problem has its position, and says what to write instead."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from redrive.errors import ArgumentsError, DurationError
from redrive.expressions import nodes as expressions
from redrive.expressions.nodes import walk
from redrive.failures.duration import read_duration
from redrive.flows.scripts import nodes
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.check_paths import PathChecker
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES, RAISABLE, error_meant
from redrive.flows.scripts.errors import Problem, Problems
from redrive.flows.scripts.parsing import read_script
from redrive.flows.values.named_arguments import check_names, with_more_names
from redrive.notation.linting.linter import lint

if TYPE_CHECKING:
    from redrive.flows.action import Action


WARNINGS = ("no-main", "parallel-order", "unknown-error", "unreachable-code", "unreachable-handler")
"""Rules that warn, beside those of the policy linter."""

Actions: TypeAlias = "Mapping[str, Action[Any, Any]] | None"


def check_text(text: str, source: str, actions: Actions = None) -> list[Problem]:
    """All problems of a text. If a line cannot be read, only syntax errors are reported."""
    script, problems = read_script(text, source)
    if script is not None:
        _check(script, actions, problems)
    return problems.found


def check(script: nodes.ScriptTree, actions: Actions = None) -> list[Problem]:
    """All errors and warnings, ordered by position. Without `actions`, action calls are not checked."""
    problems = Problems(script.source, script.text.split("\n"))
    _check(script, actions, problems)
    return problems.found


def _check(script: nodes.ScriptTree, actions: Actions, problems: Problems) -> None:
    if script.entry is None:
        first = next(iter(script.functions.values()))
        message = "no function is named main; rename the one that flows run, or name it when you start a flow"
        problems.at(first.at, message, "warning", "no-main")
    for function in script.functions.values():
        _NodeChecker(script, function, actions, problems).check()
        PathChecker(function, problems).check()


class _NodeChecker:
    """Checks each node of a function by itself."""

    def __init__(
        self,
        script: nodes.ScriptTree,
        function: nodes.Function,
        actions: Actions,
        problems: Problems,
    ) -> None:
        self._script = script
        self._function = function
        self._variables = function.variables
        self._actions = actions
        self._problems = problems
        self._caught = {node.name for node in walk(function) if isinstance(node, nodes.Handler)}

    def check(self) -> None:
        checks: dict[type, Any] = {
            nodes.ActionCall: self._action_call,
            expressions.Call: self._call,
            expressions.Attribute: self._attribute,
            expressions.Comparison: self._comparison,
            nodes.Raise: self._raise,
            nodes.Handler: self._handler,
            nodes.Sleep: self._sleep,
            nodes.PolicyBrackets: self._policy,
        }
        for node in walk(self._function):
            look = checks.get(type(node))
            if look is not None:
                look(node)

    def _action_call(self, node: nodes.ActionCall) -> None:
        if self._actions is None:
            return
        action = self._actions.get(node.name)
        if action is None:
            hint = self._problems.hint(
                node.name, list(self._actions), "register it with @action, or name its module with --import"
            )
            self._problems.at(node.at, f"no action is named {node.name!r}; {hint}", rule="unknown-action")
            return
        names = {one.name: one for one in node.arguments}
        left: dict[str, Any] = with_more_names(action.function, names)
        parameters = list(inspect.signature(action.function).parameters.values())
        misspelt = False
        while True:
            try:
                check_names(left, parameters, "the call")
            except ArgumentsError as error:
                if error.name in left:
                    misspelt = True
                    del left[error.name]
                    self._problems.at(names[error.name].at, f"action {node.name}: {error}", rule="action-arguments")
                    continue
                # A misspelt argument is not reported as missing too.
                if not misspelt:
                    self._problems.at(node.at, f"action {node.name}: {error}", rule="action-arguments")
            return

    def _call(self, node: expressions.Call) -> None:
        named = tuple(one.name for one in node.named)
        if node.name in self._variables:
            message = f"{node.name!r} is a variable here and cannot be called; rename the variable"
            self._problems.at(node.at, message, rule="not-a-function")
            return
        function, builtin = self._script.functions.get(node.name), BUILTINS.get(node.name)
        problem: str | None
        if function is not None:
            problem = function.problem(len(node.positional), named)
        elif builtin is not None:
            problem = builtin.problem(node.name, len(node.positional), named)
        else:
            self._unknown_function(node)
            return
        if problem is not None:
            self._problems.at(node.at, problem, rule="call-arguments")

    def _unknown_function(self, node: expressions.Call) -> None:
        if self._actions is not None and node.name in self._actions:
            message = f"{node.name!r} is an action; write @{node.name}(...)"
        else:
            hint = self._problems.hint(
                node.name, [*self._script.functions, *BUILTINS], f"an action is called with @: @{node.name}(...)"
            )
            message = f"no function is named {node.name!r}; {hint}"
        self._problems.at(node.at, message, rule="unknown-function")

    def _attribute(self, node: expressions.Attribute) -> None:
        # Any variable may hold an error caught elsewhere.
        if node.name in ERROR_ATTRIBUTES:
            return
        name = node.value.name if isinstance(node.value, expressions.Name) else ""
        if name in self._caught:
            hint = self._problems.hint(node.name, ERROR_ATTRIBUTES, f"it has {', '.join(ERROR_ATTRIBUTES)}")
            message = f"an error has no {node.name!r}; {hint}"
        else:
            message = f'only an error caught with `as` has attributes; for a dict write {name}["{node.name}"]'
        self._problems.at(node.at, message, rule="attribute")

    def _comparison(self, node: expressions.Comparison) -> None:
        left: expressions.Node = node.first
        for operator, right in node.rest:
            if operator in ("is", "is not") and not (_is_constant(left) or _is_constant(right)):
                instead = "==" if operator == "is" else "!="
                message = f"`{operator}` is for None, True and False; compare other values with {instead}"
                self._problems.at(node.at, message, rule="identity")
            left = right

    def _raise(self, node: nodes.Raise) -> None:
        if node.error is not None and node.error not in RAISABLE:
            hint = self._problems.hint(
                node.error, list(RAISABLE), "use Permanent, or one of Python's errors, such as ValueError"
            )
            self._problems.at(node.at, f"raise cannot name {node.error!r}; {hint}", rule="unknown-error")

    def _handler(self, node: nodes.Handler) -> None:
        for name in node.types:
            self._misspelt(name, node.at.line, node.at.column, "except")

    def _misspelt(self, name: str, line: int, column: int, where: str) -> None:
        meant = error_meant(name)
        if meant:
            message = f"{where} {name}: unknown error; did you mean {meant!r}?"
            self._problems.add(line, column, message, "warning", "unknown-error")

    def _sleep(self, node: nodes.Sleep) -> None:
        if isinstance(node.duration, expressions.Literal):
            try:
                read_duration(node.duration.value)
            except DurationError as error:
                self._problems.at(node.duration.at, str(error), rule="duration")

    def _policy(self, node: nodes.PolicyBrackets) -> None:
        for index, rule in enumerate(node.policy.rules):
            at = node.reading.positions.get(f"brackets[{index}]", node.at)
            for name in rule.match.names:
                self._misspelt(name, at.line, at.column, "policy:")
        for finding in lint(node.reading):
            if finding.severity != "info":
                found = node.reading.positions.get(finding.key)
                line, column = (found.line, found.column) if found else (node.at.line, node.at.column)
                message = f"{finding.text}; {finding.instead}"
                self._problems.add(line, column, message, finding.severity, finding.id)


def _is_constant(node: expressions.Node) -> bool:
    return isinstance(node, expressions.Literal) and (node.value is None or isinstance(node.value, bool))

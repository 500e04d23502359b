"""What is wrong with a script that can be read: each problem with its place, and what to write instead."""

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from redrive.errors import ArgumentsError, DurationError
from redrive.failures.duration import read_duration
from redrive.flows.named_arguments import check_names, with_more_names
from redrive.flows.scripts import nodes
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.check_names import NameChecker
from redrive.flows.scripts.check_paths import PathChecker
from redrive.flows.scripts.compiled_calls import argument_problem
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES, RAISABLE, error_meant
from redrive.flows.scripts.errors import Problem, Problems
from redrive.flows.scripts.near_names import near_name
from redrive.flows.scripts.parsing import read_script
from redrive.flows.scripts.variables import variables_of
from redrive.flows.scripts.walking import walk
from redrive.notation.linter import lint

if TYPE_CHECKING:
    from redrive.flows.action import Action


WARNINGS = ("no-main", "parallel-order", "unknown-error", "unreachable-code", "unreachable-handler")
"""What is told as a warning, beside what the linter says about policies."""

Actions: TypeAlias = "Mapping[str, Action[Any, Any]] | None"


def check_text(text: str, source: str, actions: Actions = None) -> list[Problem]:
    """All that is wrong with a text. Where a line makes no sense, what the others mean is not known either."""
    script, problems = read_script(text, source)
    if script is not None:
        _check(script, actions, problems)
    return problems.found


def check(script: nodes.Script, actions: Actions = None) -> list[Problem]:
    """All that the checker has to say, in the order of the text. Without actions, calls of these are not checked."""
    problems = Problems(script.source, script.text.split("\n"))
    _check(script, actions, problems)
    return problems.found


def _check(script: nodes.Script, actions: Actions, problems: Problems) -> None:
    if script.entry is None:
        first = next(iter(script.functions.values()))
        message = "no function is named main, which a flow runs; name one so, or say which when a flow is started"
        problems.at(first.span, message, "warning", "no-main")
    for function in script.functions.values():
        _NodeChecker(script, function, actions, problems).check()
        NameChecker(function, problems).check()
        PathChecker(problems).check(function)


class _NodeChecker:
    """Looks at each node of a function by itself."""

    def __init__(
        self,
        script: nodes.Script,
        function: nodes.Function,
        actions: Actions,
        problems: Problems,
    ) -> None:
        self._script = script
        self._function = function
        self._variables = variables_of(function)
        self._actions = actions
        self._problems = problems
        self._caught = {node.name for node in walk(function) if isinstance(node, nodes.Handler)}

    def check(self) -> None:
        checks: dict[type, Any] = {
            nodes.ActionCall: self._action_call,
            nodes.Call: self._call,
            nodes.Attribute: self._attribute,
            nodes.Comparison: self._comparison,
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
            hint = self._near(
                node.name, list(self._actions), "register it with @action, or name its module with --import"
            )
            self._problems.at(node.span, f"no action is named {node.name!r}; {hint}", rule="unknown-action")
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
                    self._problems.at(names[error.name].span, f"action {node.name}: {error}", rule="action-arguments")
                    continue
                # What a wrong name was meant for is not missing too.
                if not misspelt:
                    self._problems.at(node.span, f"action {node.name}: {error}", rule="action-arguments")
            return

    def _call(self, node: nodes.Call) -> None:
        named = tuple(one.name for one in node.named)
        if node.name in self._variables:
            message = f"{node.name!r} is a variable here, and cannot be called; give the variable another name"
            self._problems.at(node.span, message, rule="not-a-function")
            return
        function, builtin = self._script.functions.get(node.name), BUILTINS.get(node.name)
        problem: str | None
        if function is not None:
            problem = argument_problem(function, len(node.positional), named)
        elif builtin is not None:
            problem = builtin.check(node.name, len(node.positional), named)
        else:
            self._unknown_function(node)
            return
        if problem is not None:
            self._problems.at(node.span, problem, rule="call-arguments")

    def _unknown_function(self, node: nodes.Call) -> None:
        if self._actions is not None and node.name in self._actions:
            message = f"{node.name!r} is an action; write @{node.name}(...)"
        else:
            hint = self._near(
                node.name, [*self._script.functions, *BUILTINS], f"an action is called with @: @{node.name}(...)"
            )
            message = f"no function is named {node.name!r}; {hint}"
        self._problems.at(node.span, message, rule="unknown-function")

    def _attribute(self, node: nodes.Attribute) -> None:
        # Any variable may hold an error that was caught elsewhere.
        if node.name in ERROR_ATTRIBUTES:
            return
        name = node.value.name
        if name in self._caught:
            hint = self._near(node.name, ERROR_ATTRIBUTES, f"it has {', '.join(ERROR_ATTRIBUTES)}")
            message = f"an error has no {node.name!r}; {hint}"
        else:
            message = f'only an error caught with `as` has attributes; the parts of data are {name}["{node.name}"]'
        self._problems.at(node.span, message, rule="attribute")

    def _comparison(self, node: nodes.Comparison) -> None:
        left: nodes.Expression = node.first
        for operator, right in node.rest:
            if operator in ("is", "is not") and not (_is_constant(left) or _is_constant(right)):
                instead = "==" if operator == "is" else "!="
                message = f"`{operator}` is for None, True and False; compare other values with {instead}"
                self._problems.at(node.span, message, rule="identity")
            left = right

    def _raise(self, node: nodes.Raise) -> None:
        if node.error is not None and node.error not in RAISABLE:
            hint = self._near(
                node.error, list(RAISABLE), "use Permanent, or one of Python's errors, such as ValueError"
            )
            self._problems.at(node.span, f"raise cannot name {node.error!r}; {hint}", rule="unknown-error")

    def _handler(self, node: nodes.Handler) -> None:
        for name in node.types:
            self._misspelt(name, node.span.line, node.span.column, "except")

    def _near(self, name: str, known: Sequence[str], otherwise: str) -> str:
        # What is not told need not be looked for.
        return "" if self._problems.full else near(name, known, otherwise)

    def _misspelt(self, name: str, line: int, column: int, where: str) -> None:
        meant = error_meant(name)
        if meant:
            message = f"{where} {name}: no error is known by that name; did you mean {meant!r}?"
            self._problems.add(line, column, message, "warning", "unknown-error")

    def _sleep(self, node: nodes.Sleep) -> None:
        if isinstance(node.duration, nodes.Literal):
            try:
                read_duration(node.duration.value)
            except DurationError as error:
                self._problems.at(node.duration.span, str(error), rule="duration")

    def _policy(self, node: nodes.PolicyBrackets) -> None:
        for index, rule in enumerate(node.policy.rules):
            at = node.reading.positions.get(f"brackets[{index}]", node.span)
            for name in rule.match.names:
                self._misspelt(name, at.line, at.column, "policy:")
        for finding in lint(node.reading):
            if finding.severity != "info":
                found = node.reading.positions.get(finding.key)
                line, column = (found.line, found.column) if found else (node.span.line, node.span.column)
                message = f"{finding.text}; {finding.instead}"
                self._problems.add(line, column, message, finding.severity, finding.id)


def near(name: str, known: Sequence[str], otherwise: str) -> str:
    """A hint: the known name that was probably meant."""
    close = near_name(name, known)
    return f"did you mean {close!r}?" if close else otherwise


def _is_constant(node: nodes.Expression) -> bool:
    return isinstance(node, nodes.Literal) and (node.value is None or isinstance(node.value, bool))

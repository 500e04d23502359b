"""`when`: a condition over the inputs of a step, such as `total > 0 and country in ["DE", "AT"]`.

Conditions are expressions with keys of objects (`order.total` or `order["total"]`) and a few functions.
"""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from redrive.errors import ScriptLimitError
from redrive.expressions import functions, nodes
from redrive.expressions.hints import expression_hint, found_instead
from redrive.expressions.limits import Budget, Scope
from redrive.expressions.nodes import Node, Position, walk
from redrive.expressions.parser import AN_OPERATOR, Dialect, Parser, TooDeep, Unreadable
from redrive.expressions.tokens import Token, end_token, tokens_of
from redrive.expressions.translator import Translator, evaluator
from redrive.flows.graphs.value_types import kind_of
from redrive.notation.place import similar

LONGEST_CONDITION = 500
FUNCTIONS = {
    name: functions.FUNCTIONS[name]
    for name in ("abs", "endswith", "len", "lower", "max", "min", "round", "startswith", "upper")
}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_DIALECT = Dialect(attributes_of_anything=True, tuples=True)
_REFUSED_NODES: Mapping[type[Node], str] = {nodes.Slice: "a slice of a list", nodes.DictDisplay: "an object"}
_REFUSED_OPERATORS = {"**": "a power", "is": "`is` (write ==)", "is not": "`is not` (write !=)"}


class ConditionError(ValueError):
    """A condition that cannot be read, or cannot be answered for the values given."""


def check_condition(condition: str, names: Collection[str]) -> None:
    """ConditionError in one line for what `holds` could never answer. `names`: the inputs it may use."""
    for node in walk(_parsed(condition)):
        if isinstance(node, nodes.Name) and node.name not in names and node.name not in _WORDS:
            known = ", ".join(sorted(names)) or "none"
            hint = similar(node.name, tuple(names)) or f"; its inputs are: {known}"
            raise ConditionError(f"{node.name!r} is not an input of the step{hint}")


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Whether the condition is true for these inputs; ConditionError where that cannot be told."""
    evaluate = _evaluator(condition)
    try:
        answer = evaluate(Scope({**_WORDS, **values}, Budget()))
    except UnboundLocalError as error:
        raise ConditionError(f"when {condition!r}: there is no value {str(error).split(chr(39))[1]!r}") from None
    except KeyError:
        raise ConditionError(f"when {condition!r}: a key is missing") from None
    except IndexError:
        raise ConditionError(f"when {condition!r}: a list is too short") from None
    except ZeroDivisionError:
        raise ConditionError(f"when {condition!r}: a division by zero") from None
    except (ConditionError, ScriptLimitError, TypeError) as error:
        raise ConditionError(f"when {condition!r}: {error}") from None
    except (ArithmeticError, ValueError, RecursionError) as error:
        raise ConditionError(f"when {condition!r}: it cannot be answered ({type(error).__name__})") from None
    if not isinstance(answer, bool):
        raise ConditionError(f"when {condition!r}: it gives {kind_of(answer)}, not true or false; write a comparison")
    return answer


@lru_cache(maxsize=1000)
def _evaluator(condition: str) -> Callable[[Scope], Any]:
    tree = _parsed(condition)
    names = {node.name for node in walk(tree) if isinstance(node, nodes.Name)}
    return evaluator(Translator(names, {}, FUNCTIONS).expression(tree), {"attribute": _key})


def _key(scope: Scope, value: Any, name: str) -> Any:
    """`value.name`, which is a key of an object."""
    if not isinstance(value, dict):
        raise ConditionError(f"{kind_of(value)} has no key {name!r}")
    if name not in value:
        raise ConditionError(f"there is no key {name!r}")
    return value[name]


@lru_cache(maxsize=1000)
def _parsed(condition: str) -> Node:
    if len(condition) > LONGEST_CONDITION:
        raise ConditionError(f"a condition has at most {LONGEST_CONDITION} characters; this one has {len(condition)}")
    tokens = [one for one in tokens_of(condition) if one.kind not in ("space", "newline")]
    tokens.append(end_token(tokens[-1] if tokens else None))
    try:
        tree = _read(tokens)
    except TooDeep as error:
        raise ConditionError(f"not a condition: {error.message} (column {error.at.column})") from None
    except Unreadable as error:
        token, message = expression_hint(tokens, error.index, error.expected, FUNCTIONS) or (
            tokens[error.index],
            found_instead(tokens[error.index], error.expected).replace("of the line", "of the condition"),
        )
        raise ConditionError(f"not a condition: {message} (column {token.column})") from None
    for node in walk(tree):
        _check_node(node)
    return tree


def _read(tokens: list[Token]) -> Node:
    parser = Parser(tokens, _DIALECT, _refuse)
    tree = parser.expression()
    if parser.token.kind != "end":
        raise Unreadable(parser.index, f"{AN_OPERATOR} or the end of the line")
    return tree


def _refuse(at: Position, message: str) -> None:
    raise ConditionError(f"not a condition: {message} (column {at.column})")


def _check_node(node: Node) -> None:
    refused = _REFUSED_NODES.get(type(node), "")
    if isinstance(node, nodes.Arithmetic | nodes.Comparison):
        refused = next((_REFUSED_OPERATORS[sign] for sign, _ in node.rest if sign in _REFUSED_OPERATORS), "")
    if refused:
        _refuse(node.at, f"{refused} cannot be used")
    if isinstance(node, nodes.Call):
        function = FUNCTIONS.get(node.name)
        if function is None:
            allowed = similar(node.name, tuple(FUNCTIONS)) or f"; there are {', '.join(FUNCTIONS)}"
            _refuse(node.at, f"{node.name!r} is not a function{allowed}")
        elif node.named:
            _refuse(node.at, "functions take their arguments by position")
        elif problem := function.problem(node.name, len(node.positional), ()):
            _refuse(node.at, problem)

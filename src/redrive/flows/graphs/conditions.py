"""`when`: a condition over the inputs of a step, such as `total > 0 and country in ["DE", "AT"]`.

Names, numbers, texts, lists, comparisons, arithmetic, `and` / `or` / `not`, keys of objects (`order.total` or
`order["total"]`) and a few functions. There is nothing in it that loops, repeats or grows.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import simpleeval  # type: ignore[import-untyped]  # the library has no types

from redrive.flows.graphs.value_types import kind_of
from redrive.notation.place import similar

LONGEST_CONDITION = 500
_DEEPEST = 30
_LONGEST_SUM = 10_000
_MOST_DIGITS = 20

_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


class ConditionError(ValueError):
    """A condition that cannot be read, or cannot be answered for the values it was asked about."""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConditionError(f"{kind_of(value)} where a number is needed")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ConditionError(f"{kind_of(value)} where a string is needed")
    return value


def _of_numbers(calculate: Callable[..., Any]) -> Callable[..., Any]:
    # Python's own operators also repeat lists and format texts, to any size.
    return lambda *values: calculate(*map(_number, values))


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > _LONGEST_SUM:
            raise ConditionError(f"a text of more than {_LONGEST_SUM} characters")
        return left + right
    return _number(left) + _number(right)


def _round(value: Any, digits: Any = 0) -> Any:
    if not isinstance(digits, int) or not 0 <= digits <= _MOST_DIGITS:
        raise ConditionError(f"round takes from 0 to {_MOST_DIGITS} digits")
    return round(_number(value), digits)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": lambda value: abs(_number(value)),
    "endswith": lambda text, end: _text(text).endswith(_text(end)),
    "len": len,
    "lower": lambda text: _text(text).lower(),
    "max": max,
    "min": min,
    "round": _round,
    "startswith": lambda text, start: _text(text).startswith(_text(start)),
    "upper": lambda text: _text(text).upper(),
}

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _add,
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
    ast.USub: _of_numbers(operator.neg),
    ast.UAdd: _of_numbers(operator.pos),
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: operator.contains(many, one),
    ast.NotIn: lambda one, many: not operator.contains(many, one),
}

_ALLOWED = (
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.BinOp, ast.Compare, ast.IfExp, ast.Call, ast.Load),
    *(ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.List, ast.Tuple, *_OPERATORS),
)


class _Evaluator(simpleeval.EvalWithCompoundTypes):  # type: ignore[misc]  # the library has no types
    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(operators=dict(_OPERATORS), names={**_WORDS, **values})
        self.functions = dict(FUNCTIONS)

    def _check_disallowed_items(self, item: Any) -> None:
        """Values are JSON, so there is nothing to find; looking into each of them each time would take long."""

    def _eval_attribute(self, node: ast.Attribute) -> Any:
        value = self._eval(node.value)
        if not isinstance(value, dict):
            raise ConditionError(f"{kind_of(value)} has no key {node.attr!r}")
        if node.attr not in value:
            raise ConditionError(f"there is no key {node.attr!r}")
        return value[node.attr]


def check_condition(condition: str, names: Collection[str]) -> None:
    """ConditionError in one line for what `holds` could never answer. `names`: the inputs it may use."""
    tree = _parsed(condition)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in functions and node.id not in names and node.id not in _WORDS:
            known = ", ".join(sorted(names)) or "none"
            hint = similar(node.id, tuple(names)) or f"; its inputs are: {known}"
            raise ConditionError(f"{node.id!r} is not an input of the step{hint}")


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Whether the condition is true for these inputs; ConditionError where it cannot be told."""
    tree = _parsed(condition)
    try:
        answer = _Evaluator(values).eval(condition, previously_parsed=tree)
    except ConditionError as error:
        raise ConditionError(f"when {condition!r}: {error}") from None
    except simpleeval.NameNotDefined as error:
        raise ConditionError(f"when {condition!r}: there is no value {error.name!r}") from None
    except KeyError:
        raise ConditionError(f"when {condition!r}: a key is missing") from None
    except IndexError:
        raise ConditionError(f"when {condition!r}: a list is too short") from None
    except ZeroDivisionError:
        raise ConditionError(f"when {condition!r}: a division by zero") from None
    except TypeError as error:
        raise ConditionError(f"when {condition!r}: {error}") from None
    except (simpleeval.InvalidExpression, ArithmeticError, ValueError, RecursionError) as error:
        raise ConditionError(f"when {condition!r}: it cannot be answered ({type(error).__name__})") from None
    if not isinstance(answer, bool):
        raise ConditionError(f"when {condition!r}: it gives {kind_of(answer)}, not true or false; write a comparison")
    return answer


@lru_cache(maxsize=1000)
def _parsed(condition: str) -> ast.AST:
    if len(condition) > LONGEST_CONDITION:
        raise ConditionError(f"a condition of {len(condition)} characters; at most {LONGEST_CONDITION} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(condition.strip(), mode="eval").body
    except SyntaxError as error:
        raise ConditionError(f"not a condition: {error.msg} (column {error.offset or 1})") from None
    except (ValueError, MemoryError, RecursionError):
        raise ConditionError("not a condition: it cannot be read") from None
    _check_nodes(tree)
    return tree


def _check_nodes(tree: ast.AST) -> None:
    level = [tree]
    for _ in range(_DEEPEST):
        for node in level:
            _check_node(node)
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise ConditionError("not a condition: it is nested too deep")


def _check_node(node: ast.AST) -> None:
    if not isinstance(node, _ALLOWED):
        raise ConditionError(f"not a condition: {_in_words(node)} cannot be used")
    if isinstance(node, ast.Constant) and not isinstance(node.value, str | int | float | bool | None):
        raise ConditionError(f"not a condition: {type(node.value).__name__} values cannot be used")
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
            allowed = similar(name, tuple(FUNCTIONS)) or f"; there are {', '.join(FUNCTIONS)}"
            raise ConditionError(f"not a condition: {name!r} is not a function{allowed}")
        if node.keywords:
            raise ConditionError("not a condition: functions take their arguments by position")


def _in_words(node: ast.AST) -> str:
    words: Mapping[type[ast.AST], str] = {
        ast.Pow: "a power",
        ast.Slice: "a part of a list",
        ast.Is: "`is` (write ==)",
        ast.IsNot: "`is not` (write !=)",
        ast.Lambda: "a function",
        ast.Dict: "an object",
        ast.JoinedStr: "an f-string",
    }
    return words.get(type(node), type(node).__name__)

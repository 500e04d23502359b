"""Translates expressions into Python code, which then runs without a look at the syntax tree.

The code is built as Python's own syntax tree, never as text. It consists of constants, of calls to the functions that
it is given by name, and of Python's `and`, `or`, `if`, lists and `await`: no name and no attribute in it comes from the
text of an expression. Variables are items of the scope.
"""

import ast
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar, cast

from redrive.expressions import nodes
from redrive.expressions.functions import FUNCTIONS, Function
from redrive.expressions.nodes import Node
from redrive.expressions.operations import ARITHMETIC, COMPARISONS, IN_PLACE, dict_of, item_of, set_item, slice_of
from redrive.near_names import near_name

T = TypeVar("T", bound=ast.AST)
SCOPE = "scope"
"""The parameter of translated code."""

Extension: TypeAlias = "Callable[[Any, Translator], ast.expr]"
_LONGEST_NESTED = 20
_NEGATIONS = {"-": ast.USub, "+": ast.UAdd, "not": ast.Not}


def _refuse(kind: type[Exception], message: str, *values: Any) -> Any:
    raise kind(message)


def operators() -> dict[str, Any]:
    """The names that translated expressions use, as the globals of their code."""
    return {
        **{f"binary {sign}": run for sign, run in (*ARITHMETIC.items(), *COMPARISONS.items())},
        **{f"binary {sign}=": run for sign, run in IN_PLACE.items()},
        **{f"function {name}": one.run for name, one in FUNCTIONS.items()},
        **{kind.__name__: kind for kind in (NameError, TypeError, AttributeError)},
        "item": item_of,
        "set item": set_item,
        "slice": slice_of,
        "dict": dict_of,
        "refuse": _refuse,
        "never": object(),
        "__builtins__": {},
    }


class Translator:
    """Translates the expressions of one scope. `variables`: the names that may have values there."""

    def __init__(
        self,
        variables: Collection[str],
        extensions: Mapping[type[Node], Extension],
        functions: Mapping[str, Function] = FUNCTIONS,
    ) -> None:
        self.variables = variables
        self._extensions = extensions
        self._functions = functions
        self._temporaries = 0

    def expression(self, node: Node) -> ast.expr:
        return placed(self._translated(node), node)

    def all(self, several: Collection[Node]) -> list[ast.expr]:
        return [self.expression(one) for one in several]

    def _translated(self, node: Node) -> ast.expr:
        if extension := self._extensions.get(type(node)):
            return extension(node, self)
        match node:
            case nodes.Literal(value=value):
                return constant(value)
            case nodes.Name(name=name):
                return self._name(name)
            case nodes.Arithmetic():
                return self._arithmetic(node)
            case nodes.Comparison():
                return self._comparison(node)
            case nodes.Index(value=value, index=index):
                return call("item", scope(), *self.all([value, index]))
            case nodes.Slice(value=value, start=start, stop=stop, step=step):
                ends = [constant(None) if end is None else self.expression(end) for end in (start, stop, step)]
                return call("slice", scope(), self.expression(value), *ends)
            case nodes.Logic(operator=operator, operands=operands):
                return ast.BoolOp(ast.And() if operator == "and" else ast.Or(), self.all(operands))
            case nodes.Unary(operator=operator, operand=operand):
                return ast.UnaryOp(_NEGATIONS[operator](), self.expression(operand))
            case nodes.Conditional(test=test, then=then, otherwise=otherwise):
                return ast.IfExp(*self.all([test, then, otherwise]))
            case nodes.ListDisplay(items=items):
                return ast.List(self.all(items), _LOAD)
            case nodes.DictDisplay(pairs=pairs):
                return call("dict", scope(), *self.all([part for pair in pairs for part in pair]))
            case nodes.Attribute(value=value, name=name):
                return call("attribute", scope(), self.expression(value), constant(name))
            case nodes.Call():
                return self.function_call(node)
        raise TypeError(f"{type(node).__name__} is not an expression")

    def _name(self, name: str) -> ast.expr:
        if name in self.variables:
            return ast.Subscript(scope(), constant(name), _LOAD)
        if name in self._functions:
            return self.refusal(NameError, f"{name!r} is a function: write {name}(...)")
        close = near_name(name, sorted(self.variables))
        hint = f"; did you mean {close!r}?" if close else ""
        return self.refusal(NameError, f"name '{name}' is not defined{hint}")

    def refusal(self, kind: type[Exception], message: str, after: Collection[Node] = ()) -> ast.expr:
        """Known to be wrong beforehand, and raised when it is reached, after evaluating `after`, as Python does."""
        return call("refuse", load(kind.__name__), constant(message), *self.all(after))

    def _arithmetic(self, node: nodes.Arithmetic) -> ast.expr:
        left = self.expression(node.first)
        before: list[ast.expr] = []
        for index, (sign, operand) in enumerate(node.rest):
            if index % _LONGEST_NESTED == _LONGEST_NESTED - 1:
                # Python's compiler is recursive: a long chain is put into a variable, part by part.
                name = self._temporary()
                assigned = ast.NamedExpr(ast.Name(name, ast.Store()), left)
                before.append(placed(ast.Compare(assigned, [ast.Is()], [load("never")]), operand))
                left = load(name)
            left = placed(call(f"binary {sign}", scope(), left, self.expression(operand)), operand)
        return ast.BoolOp(ast.Or(), [*before, left]) if before else left

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"operand {self._temporaries}"

    def _comparison(self, node: nodes.Comparison) -> ast.expr:
        left = self.expression(node.first)
        compared: list[ast.expr] = []
        for index, (sign, operand) in enumerate(node.rest):
            right = self.expression(operand)
            following: ast.expr = right
            if index + 1 < len(node.rest):
                # Evaluated once, and compared twice.
                name = self._temporary()
                right = placed(ast.NamedExpr(ast.Name(name, ast.Store()), right), operand)
                following = load(name)
            compared.append(placed(call(f"binary {sign}", scope(), left, right), operand))
            left = following
        return compared[0] if len(compared) == 1 else ast.BoolOp(ast.And(), compared)

    def function_call(self, node: nodes.Call) -> ast.expr:
        """A call of one of the language's functions."""
        function = self._functions.get(node.name)
        if function is None:
            return self.refusal(NameError, f"no function is named {node.name!r}")
        given = [*node.positional, *(one.value for one in node.named)]
        problem = function.problem(node.name, len(node.positional), tuple(one.name for one in node.named))
        if problem is not None:
            return self.refusal(TypeError, problem, given)
        made = call(f"function {node.name}", scope(), *self.all(node.positional))
        made.keywords = [ast.keyword(one.name, self.expression(one.value)) for one in node.named]
        return made


def evaluator(expression: ast.expr, names: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A Python function of the scope that evaluates a translated expression. `names`: what else its code uses."""
    tree = ast.parse(f"lambda {SCOPE}: 0", mode="eval")
    cast("ast.Lambda", tree.body).body = expression
    ast.fix_missing_locations(tree)
    code = compile(tree, "<expression>", "eval")
    run: Callable[[Any], Any] = eval(code, {**operators(), **names})  # noqa: S307 - the tree holds only our own nodes
    return run


def placed(made: T, node: Node) -> T:
    """The code, with the position of the node that it stands for."""
    # Every tree that is placed has these, which Python's types do not say.
    code: Any = made
    code.lineno = code.end_lineno = node.at.line
    code.col_offset = code.end_col_offset = 0
    return made


# One node for each name, however often the code uses it: long scripts would have very many.
_LOAD = ast.Load()


@lru_cache(maxsize=1000)
def load(name: str) -> ast.expr:
    return ast.Name(name, _LOAD)


def scope() -> ast.expr:
    return load(SCOPE)


def constant(value: Any) -> ast.expr:
    return ast.Constant(value)


def call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(name), list(arguments), [])

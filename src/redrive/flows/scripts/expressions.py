"""Expressions: from the tree of the parser to nodes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from redrive.flows.scripts import nodes
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.layout import TooDeep
from redrive.flows.scripts.limits import MOST_NESTING
from redrive.flows.scripts.literals import LiteralError, read_number, read_seconds, read_string
from redrive.flows.scripts.nodes import Expression, Span
from redrive.flows.scripts.policies import Policies
from redrive.flows.scripts.wording import NO_ACTION, POLICY_KEYS

if TYPE_CHECKING:
    from lark import Token, Tree

_CONSTANTS = {"TRUE": True, "FALSE": False, "NONE": None}


def span_of(found: Any) -> Span:
    """Of a token or a tree."""
    at = found if hasattr(found, "type") else found.meta
    return Span(at.line, at.column, at.end_line, at.end_column)


def trees(tree: "Tree[Token]") -> "list[Tree[Token]]":
    """The children that are trees."""
    return [cast("Tree[Token]", child) for child in tree.children if hasattr(child, "data")]


def name_of(found: Any) -> str:
    """Of a token, or of names with dots between them."""
    return str(found) if hasattr(found, "type") else ".".join(str(one) for one in found.children)


class ExpressionBuilder:
    def __init__(self, problems: Problems, policies: Policies) -> None:
        self.problems = problems
        self.policies = policies
        self.depth = 0
        """Of blocks and expressions around the one that is built."""
        self._builders: dict[str, Callable[[Any, Span], Expression]] = {
            "conditional": self._conditional,
            "or": lambda tree, span: nodes.Logic("or", self._all(tree.children), span=span),
            "and": lambda tree, span: nodes.Logic("and", self._all(tree.children), span=span),
            "negation": lambda tree, span: nodes.Unary("not", self.build(tree.children[0]), span=span),
            "comparison": self._comparison,
            "sum": self._arithmetic,
            "product": self._arithmetic,
            "power": self._arithmetic,
            "sign": self._sign,
            "index": self._index,
            "slice": self._slice,
            "attribute": self._attribute,
            "constant": lambda tree, span: nodes.Literal(_CONSTANTS[tree.children[0].type], span=span),
            "list": lambda tree, span: nodes.ListDisplay(self._all(tree.children), span=span),
            "dict": self._dict,
            "call": self._call,
            "action_call": self._action_call,
            "spread": self._spread,
        }

    def build(self, found: Any) -> Expression:
        span = span_of(found)
        if hasattr(found, "type"):
            return self._leaf(found, span)
        with self.deeper(span):
            return self._builders[str(found.data)](found, span)

    def build_optional(self, found: Any) -> Expression | None:
        return None if found is None else self.build(found)

    @contextmanager
    def deeper(self, span: Span) -> Iterator[None]:
        """Around what stands inside something; TooDeep, with its problem told, where that goes on for too long."""
        if self.depth == MOST_NESTING:
            self.problems.at(span, f"more than {MOST_NESTING} blocks and expressions in one another")
            raise TooDeep
        self.depth += 1
        yield
        self.depth -= 1

    def _all(self, found: list[Any]) -> tuple[Expression, ...]:
        return tuple(self.build(one) for one in found if one is not None)

    def _leaf(self, token: "Token", span: Span) -> Expression:
        text = str(token)
        try:
            if token.type == "NUMBER":
                return nodes.Literal(read_number(text), span=span)
            if token.type == "STRING":
                return nodes.Literal(read_string(text), span=span)
            if token.type == "DURATION":
                return nodes.Duration(text, read_seconds(text), span=span)
        except LiteralError:
            # Told where the line was read.
            return nodes.Literal(None, span=span)
        return nodes.Name(text, span=span)

    def _conditional(self, tree: "Tree[Token]", span: Span) -> Expression:
        then, test, otherwise = self._all(tree.children)
        return nodes.Conditional(test, then, otherwise, span=span)

    def _comparison(self, tree: "Tree[Token]", span: Span) -> Expression:
        first, *rest = tree.children
        built = self.build(first)
        pairs: list[tuple[nodes.ComparisonOperator, Expression]] = []
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            words = " ".join(str(word) for word in cast("Tree[Token]", operator).children)
            pairs.append((cast("nodes.ComparisonOperator", words), self.build(operand)))
        return nodes.Comparison(built, tuple(pairs), span=span)

    def _arithmetic(self, tree: "Tree[Token]", span: Span) -> Expression:
        first, *rest = tree.children
        built = self.build(first)
        pairs: list[tuple[nodes.ArithmeticOperator, Expression]] = []
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            pairs.append((cast("nodes.ArithmeticOperator", str(operator)), self.build(operand)))
        return nodes.Arithmetic(built, tuple(pairs), span=span)

    def _sign(self, tree: "Tree[Token]", span: Span) -> Expression:
        sign, operand = tree.children
        return nodes.Unary(cast("nodes.UnaryOperator", str(sign)), self.build(operand), span=span)

    def _index(self, tree: "Tree[Token]", span: Span) -> Expression:
        value, index = self._all(tree.children)
        return nodes.Index(value, index, span=span)

    def _slice(self, tree: "Tree[Token]", span: Span) -> Expression:
        value, *ends = tree.children
        built = self.build(value)
        start, stop, step = (self.build_optional(one) for one in ends)
        if isinstance(built, nodes.Call) and isinstance(start, nodes.Name) and start.name in POLICY_KEYS:
            self.problems.at(span, NO_ACTION)
        return nodes.Slice(built, start, stop, step, span=span)

    def _attribute(self, tree: "Tree[Token]", span: Span) -> Expression:
        value, name = tree.children
        return nodes.Attribute(nodes.Name(str(value), span=span_of(value)), str(name), span=span)

    def _dict(self, tree: "Tree[Token]", span: Span) -> Expression:
        pairs = (cast("tuple[Expression, Expression]", self._all(pair.children)) for pair in trees(tree))
        return nodes.DictDisplay(tuple(pairs), span=span)

    def _call(self, tree: "Tree[Token]", span: Span) -> Expression:
        name, *arguments = tree.children
        positional: list[Expression] = []
        named: list[Any] = []
        for one in arguments:
            if one is None:
                continue
            if getattr(one, "data", None) == "argument":
                named.append(one)
                continue
            if named:
                self.problems.at(span_of(one), "arguments without a name come first")
            positional.append(self.build(one))
        return nodes.Call(str(name), tuple(positional), self._arguments(named), span=span)

    def _action_call(self, tree: "Tree[Token]", span: Span) -> Expression:
        name, *arguments, policy = tree.children
        named = self._arguments([one for one in arguments if one is not None])
        brackets = None if policy is None else self.policies.of(cast("Token", policy))
        return nodes.ActionCall(name_of(name), named, brackets, span=span)

    def _arguments(self, found: list[Any]) -> tuple[nodes.Argument, ...]:
        built: dict[str, nodes.Argument] = {}
        for one in found:
            name, value = one.children
            if str(name) in built:
                self.problems.at(span_of(one), f"the argument '{name}' is there already")
            built[str(name)] = nodes.Argument(str(name), self.build(value), span=span_of(one))
        return tuple(built.values())

    def _spread(self, tree: "Tree[Token]", span: Span) -> Expression:
        items, name, call = tree.children
        built = cast("nodes.ActionCall | nodes.Call", self.build(call))
        return nodes.Spread(self.build(items), str(name), built, span=span)

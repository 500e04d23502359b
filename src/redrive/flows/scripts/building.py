"""From the tree of the parser to nodes, with the checks that are about what a script may say at all."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redrive.flows.scripts import nodes
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.expressions import ExpressionBuilder, name_of, span_of, trees
from redrive.flows.scripts.nodes import Block, Statement
from redrive.flows.scripts.policies import Policies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lark import Token, Tree

MAIN = "main"
T = TypeVar("T")


class Builder:
    """Builds the functions of one script."""

    def __init__(self, problems: Problems, policies: Policies) -> None:
        self.problems = problems
        self.expressions = ExpressionBuilder(problems, policies)
        self._loops = self._handlers = 0
        """How many are around the statement that is built."""
        self._statements: dict[str, Callable[[Any], Statement]] = {
            "assign": self._assign,
            "augmented_assign": self._augmented_assign,
            "expression_statement": lambda tree: nodes.ExpressionStatement(self._value(tree, 0), span=span_of(tree)),
            "return": lambda tree: nodes.Return(self._optional(tree, 0), span=span_of(tree)),
            "sleep": lambda tree: nodes.Sleep(self._value(tree, 0), span=span_of(tree)),
            "raise": self._raise,
            "break": lambda tree: self._in_loop(nodes.Break(span=span_of(tree)), "break"),
            "continue": lambda tree: self._in_loop(nodes.Continue(span=span_of(tree)), "continue"),
            "pass": lambda tree: nodes.Pass(span=span_of(tree)),
            "if": self._if,
            "for": self._for,
            "while": self._while,
            "try": self._try,
            "try_finally": self._try_finally,
            "parallel": self._parallel,
        }

    def functions(self, tree: "Tree[Token]") -> dict[str, nodes.Function]:
        """By name. Statements that stand in no function are `main`, which comes last then."""
        found: dict[str, nodes.Function] = {}
        loose: list[Tree[Token]] = []
        for child in _once(trees(tree)):
            if child.data == "function":
                function = self._function(child)
                if function.name and function.name in found:
                    line = found[function.name].span.line
                    self.problems.at(function.span, f"the function '{function.name}' is there already, on line {line}")
                found[function.name] = function
            else:
                loose.append(child)
        if loose:
            body = self._statements_of(loose)
            span = nodes.Span(*body[0].span[:2], *body[-1].span[2:])
            if MAIN in found:
                message = f"this stands in no function; put it into 'main', on line {found[MAIN].span.line}"
                self.problems.at(span, message)
            found[MAIN] = nodes.Function(MAIN, (), body, implicit=True, span=span)
        return found

    def _function(self, tree: "Tree[Token]") -> nodes.Function:
        *parameters, block = trees(tree)
        built: dict[str, nodes.Parameter] = {}
        for parameter in parameters:
            name, default = parameter.children
            one = nodes.Parameter(name_of(name), self.expressions.build_optional(default), span=span_of(parameter))
            if one.name in built:
                self.problems.at(one.span, f"the parameter '{one.name}' is there already")
            elif one.default is None and built and next(reversed(built.values())).default is not None:
                self.problems.at(one.span, f"'{one.name}' needs a default, as the parameter before it has one")
            built[one.name] = one
        return nodes.Function(name_of(tree.children[0]), tuple(built.values()), self._block(block), span=span_of(tree))

    def _block(self, tree: "Tree[Token]") -> Block:
        with self.expressions.deeper(span_of(tree)):
            return self._statements_of(trees(tree))

    def _statements_of(self, found: "Iterable[Tree[Token]]") -> Block:
        return tuple(self._statements[str(one.data)](one) for one in _once(found))

    def _value(self, tree: "Tree[Token]", index: int) -> nodes.Expression:
        return self.expressions.build(tree.children[index])

    def _optional(self, tree: "Tree[Token]", index: int) -> nodes.Expression | None:
        return self.expressions.build_optional(tree.children[index])

    def _assign(self, tree: "Tree[Token]") -> Statement:
        target, value = (self.expressions.build(child) for child in tree.children)
        return nodes.Assign(self._target(target), value, span=span_of(tree))

    def _augmented_assign(self, tree: "Tree[Token]") -> Statement:
        target, operator, value = tree.children
        sign = cast("nodes.ArithmeticOperator", str(operator)[:-1])
        built = self._target(self.expressions.build(target))
        return nodes.AugmentedAssign(built, sign, self.expressions.build(value), span=span_of(tree))

    def _target(self, target: nodes.Expression) -> nodes.Name | nodes.Index:
        if isinstance(target, nodes.Name | nodes.Index):
            return target
        self.problems.at(target.span, "only a name or an element can be assigned: name = ..., name[index] = ...")
        return nodes.Name("_", span=target.span)

    def _raise(self, tree: "Tree[Token]") -> Statement:
        error, message = tree.children
        if error is None and not self._handlers:
            self.problems.at(span_of(tree), "'raise' alone stands in an 'except'; else name what to raise")
        name = None if error is None else name_of(error)
        return nodes.Raise(name, self.expressions.build_optional(message), span=span_of(tree))

    def _in_loop(self, statement: T, word: str) -> T:
        if not self._loops:
            self.problems.at(cast("nodes.Node", statement).span, f"'{word}' stands in a 'for' or a 'while'")
        return statement

    def _if(self, tree: "Tree[Token]") -> Statement:
        test, block, *rest = tree.children
        branches = [self._branch(tree, test, block)]
        otherwise: Block = ()
        for found in _once(cast("Tree[Token]", one) for one in rest if one is not None):
            if found.data == "elif":
                branches.append(self._branch(found, *found.children))
            else:
                otherwise = self._optional_block(found)
        return nodes.If(tuple(branches), otherwise, span=span_of(tree))

    def _branch(self, tree: "Tree[Token]", test: Any, block: Any) -> nodes.Branch:
        built = self.expressions.build(test)
        return nodes.Branch(built, self._block(block), span=_head(tree, built.span))

    def _for(self, tree: "Tree[Token]") -> Statement:
        names, items, block = tree.children
        called = tuple(str(name) for name in cast("Tree[Token]", names).children)
        if len(set(called)) < len(called):
            self.problems.at(span_of(names), "a name stands here twice")
        built = self.expressions.build(items)
        return nodes.For(called, built, self._loop_body(block), span=span_of(tree))

    def _while(self, tree: "Tree[Token]") -> Statement:
        test, block = tree.children
        return nodes.While(self.expressions.build(test), self._loop_body(block), span=span_of(tree))

    def _loop_body(self, block: Any) -> Block:
        self._loops += 1
        body = self._block(block)
        self._loops -= 1
        return body

    def _try(self, tree: "Tree[Token]") -> Statement:
        block, *handlers, otherwise, final = cast("list[Tree[Token]]", tree.children)
        body = self._block(block)
        built = tuple(self._handler(one) for one in _once(handlers))
        for one in built[:-1]:
            if not one.types:
                self.problems.at(one.span, "an 'except' without types catches everything; put it last")
        return nodes.Try(body, built, self._optional_block(otherwise), self._optional_block(final), span=span_of(tree))

    def _try_finally(self, tree: "Tree[Token]") -> Statement:
        body, final = trees(tree)
        return nodes.Try(self._block(body), (), (), self._optional_block(final), span=span_of(tree))

    def _optional_block(self, tree: Any) -> Block:
        """Of an `else` or a `finally`."""
        return () if tree is None else self._block(tree.children[0])

    def _handler(self, tree: "Tree[Token]") -> nodes.Handler:
        types, name, block = tree.children
        named = () if types is None else tuple(name_of(one) for one in trees(cast("Tree[Token]", types)))
        start = span_of(tree)
        self._handlers += 1
        body = self._block(cast("Tree[Token]", block))
        self._handlers -= 1
        end = name if name is not None else types
        head = start if end is None else _head(tree, span_of(end))
        return nodes.Handler(named, None if name is None else str(name), body, span=head)

    def _parallel(self, tree: "Tree[Token]") -> Statement:
        branches: list[nodes.ParallelBranch] = []
        assigned: set[str] = set()
        with self.expressions.deeper(span_of(tree)):
            for one in _once(trees(tree)):
                name, call = one.children
                if name is not None:
                    if str(name) in assigned:
                        self.problems.at(span_of(name), f"'{name}' is assigned twice in one 'parallel'")
                    assigned.add(str(name))
                built = cast("nodes.ActionCall | nodes.Call", self.expressions.build(call))
                branches.append(nodes.ParallelBranch(None if name is None else str(name), built, span=span_of(one)))
        return nodes.Parallel(tuple(branches), span=span_of(tree))


def _head(tree: "Tree[Token]", end: nodes.Span) -> nodes.Span:
    start = span_of(tree)
    return nodes.Span(start.line, start.column, end.end_line, end.end_column)


def _once(found: "Iterable[Tree[Token]]") -> "Iterator[Tree[Token]]":
    """Each statement once: where the parser was set back, it may have kept one twice."""
    last = (0, 0)
    for one in found:
        begins = span_of(one)[:2]
        if begins != last:
            yield one
        last = begins

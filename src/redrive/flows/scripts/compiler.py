"""Compiles scripts to Python code: each function becomes an `async def` that takes its variables as a scope.

Control flow becomes Python's own, so that `finally`, `break`, `return` and `raise` mean exactly what they mean there.
Every statement first counts its steps. Lines of the code are those of the script, so tracebacks name them.
"""

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from redrive.expressions.nodes import Attribute, Call, Name, Node, children, walk
from redrive.expressions.translator import (
    SCOPE,
    Extension,
    Translator,
    call,
    constant,
    load,
    operators,
    placed,
    scope,
)
from redrive.flows.scripts import execution, nodes
from redrive.flows.scripts.action_calls import ActionSite
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES, RAISABLE, caught_names
from redrive.flows.scripts.nodes import Block, Statement
from redrive.near_names import did_you_mean

_PARTS_A_STEP = 10
"""Parts of an expression that count as a step."""
_MOST_OPEN = 12
"""Loops and `try` nested in one Python function, which allows 20. Deeper blocks become functions of their own."""


def compile_script(script: nodes.ScriptTree, file: str) -> dict[str, execution.Code]:
    """The functions of a script by name. `file`: what tracebacks call it."""
    module = _Module(script.functions)
    body = [module.function(one) for one in script.functions.values()]
    tree = ast.fix_missing_locations(ast.Module([*body, *module.blocks], []))
    names = {**operators(), **_RUNTIME, **module.objects, "__name__": execution.CODE_MODULE}
    with warnings.catch_warnings():
        # Newer versions of Python warn about a `finally` that leaves a loop or a function.
        warnings.simplefilter("ignore", SyntaxWarning)
        code = compile(tree, file, "exec")
    exec(code, names)  # noqa: S102 - the tree holds nothing but what the compiler and the translator put into it
    return {name: names[_function_name(name)] for name in script.functions}


_RUNTIME: dict[str, Any] = {
    "step": execution.step,
    "call": execution.call_function,
    "result": execution.result,
    "sleep": execution.sleep,
    "spread": execution.spread,
    "parallel": execution.parallel,
    "caught": execution.caught_by,
    "raised": execution.raised,
    "attribute": execution.attribute_of,
    "forget": execution.forget,
    "action": execution.run_action,
    "Exception": Exception,
    **{f"function {name}": one.run for name, one in BUILTINS.items()},
}


def _function_name(name: str) -> str:
    return f"fn {name}"


class _Module:
    """What the functions of one script share."""

    def __init__(self, functions: Mapping[str, nodes.Function]) -> None:
        self.functions = functions
        self.objects: dict[str, Any] = {}
        """What the code refers to by name."""
        self.blocks: list[ast.stmt] = []
        """Python functions for parts of the script's functions."""
        self._numbers = 0

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def add(self, value: Any) -> ast.expr:
        name = f"object {self.number()}"
        self.objects[name] = value
        return load(name)

    def function(self, node: nodes.Function) -> ast.stmt:
        # As in Python, defaults see nothing of the function itself.
        outside = _Code(self, frozenset())
        body: list[ast.stmt] = []
        for one in node.parameters:
            if one.default is not None:
                test = ast.Compare(constant(one.name), [ast.NotIn()], [scope()])
                value = outside.expressions.expression(one.default)
                then = [_steps(one.default), _store(one.name, value)]
                body.append(placed(ast.If(test, then, []), one))
        return coroutine(_function_name(node.name), [*body, *_Code(self, node.variables).block(node.body)], node)


def coroutine(name: str, body: Sequence[ast.stmt], node: Node) -> ast.stmt:
    """`async def name(scope)`."""
    made = cast("ast.AsyncFunctionDef", ast.parse(f"async def f({SCOPE}): pass").body[0])
    made.name, made.body = name, list(body)
    return placed(made, node)


def _steps(*evaluated: Node) -> ast.stmt:
    return ast.Expr(call("step", scope(), constant(1 + sum(1 for _ in walk(*evaluated)) // _PARTS_A_STEP)))


def _evaluated(node: Statement) -> list[Node]:
    """What a statement itself evaluates, without its blocks."""
    if isinstance(node, nodes.If):
        return [branch.test for branch in node.branches]
    return [one for one in children(node) if not isinstance(one, Statement | nodes.Handler)]


def _store(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Subscript(scope(), constant(name), ast.Store())], value)


class _Code:
    """Compiles the statements of one Python function. `outlined`: it is a block of another one."""

    def __init__(self, module: _Module, variables: frozenset[str], outlined: bool = False) -> None:
        self._module = module
        self._variables = variables
        self._outlined = outlined
        self._open = 0
        """Loops and `try` around the statement."""
        self._loops = 0
        self.expressions = _expressions(module, variables)

    def block(self, block: Block) -> list[ast.stmt]:
        return [placed(made, node) for node in block for made in self._statement(node)]

    def _inner(self, block: Block, opened: int = 1, loop: bool = False) -> list[ast.stmt]:
        """A block inside a loop or `try`; empty when it is not written."""
        if not block:
            return []
        self._open += opened
        self._loops += loop
        made = self.block(block) if self._open <= _MOST_OPEN else self._outline(block)
        self._open -= opened
        self._loops -= loop
        return made

    def _outline(self, block: Block) -> list[ast.stmt]:
        """A block as a function of its own, which says how to go on: "break", "continue", or a tuple to return."""
        name = f"block {self._module.number()}"
        inner = _Code(self._module, self._variables, outlined=True)
        self._module.blocks.append(coroutine(name, inner.block(block), block[0]))
        made: list[ast.stmt] = [
            ast.Assign([ast.Name("signal", ast.Store())], ast.Await(call(name, scope()))),
        ]
        if self._loops:
            for word, jump in (("break", ast.Break()), ("continue", ast.Continue())):
                test = ast.Compare(load("signal"), [ast.Eq()], [constant(word)])
                made.append(ast.If(test, [jump], []))
        value = load("signal") if self._outlined else ast.Subscript(load("signal"), constant(0), ast.Load())
        made.append(ast.If(load("signal"), [ast.Return(value)], []))
        return [placed(one, block[0]) for one in made]

    def _statement(self, node: Statement) -> Iterator[ast.stmt]:
        evaluate = self.expressions.expression
        yield _steps(*_evaluated(node))
        match node:
            case nodes.Assign():
                if isinstance(node.target, Name):
                    yield _store(node.target.name, evaluate(node.value))
                else:
                    parts = (node.value, node.target.value, node.target.index)
                    yield ast.Expr(call("set item", scope(), *self.expressions.all(parts)))
            case nodes.AugmentedAssign():
                yield from self._augmented(node)
            case nodes.ExpressionStatement():
                yield ast.Expr(evaluate(node.value))
            case nodes.If():
                yield from self._if(node)
            case nodes.For():
                yield self._for(node)
            case nodes.While():
                yield ast.While(evaluate(node.test), [_steps(node.test), *self._inner(node.body, loop=True)], [])
            case nodes.Jump():
                yield self._jump(node.word)
            case nodes.Return():
                value = constant(None) if node.value is None else call("result", scope(), evaluate(node.value))
                yield ast.Return(ast.Tuple([value], ast.Load()) if self._outlined else value)
            case nodes.Sleep():
                yield ast.Expr(ast.Await(call("sleep", scope(), evaluate(node.duration))))
            case nodes.Raise():
                yield self._raise(node)
            case nodes.Try():
                yield from self._try(node)
            case nodes.Parallel():
                branches = [
                    ast.Tuple([constant(one.name), _branch(self._module, self._variables, one.call)], ast.Load())
                    for one in node.branches
                ]
                yield ast.Expr(ast.Await(call("parallel", scope(), *branches)))

    def _augmented(self, node: nodes.AugmentedAssign) -> Iterator[ast.stmt]:
        evaluate = self.expressions.expression
        sign = f"binary {node.operator}="
        if isinstance(node.target, Name):
            yield _store(node.target.name, call(sign, scope(), evaluate(node.target), evaluate(node.value)))
            return
        for name, part in (("container", node.target.value), ("index", node.target.index)):
            yield ast.Assign([ast.Name(name, ast.Store())], evaluate(part))
        place = [load("container"), load("index")]
        new = call(sign, scope(), call("item", scope(), *place), evaluate(node.value))
        yield ast.Expr(call("set item", scope(), new, *place))

    def _if(self, node: nodes.If) -> list[ast.stmt]:
        choices: list[tuple[Node, ast.expr, list[ast.stmt]]] = [
            (one, self.expressions.expression(one.test), self.block(one.body)) for one in node.branches
        ]
        return self._first_of(choices, self.block(node.otherwise))

    def _first_of(
        self, choices: Sequence[tuple[Node, ast.expr, list[ast.stmt]]], otherwise: list[ast.stmt]
    ) -> list[ast.stmt]:
        """The statements of the first choice whose test is true."""
        if len(choices) <= _MOST_OPEN:
            for node, test, body in reversed(choices):
                otherwise = [placed(ast.If(test, body, otherwise), node)]
            return otherwise
        # Python's compiler is recursive: many choices are not nested in one another, but compared with a number.
        name = f"choice {self._module.number()}"
        numbers: list[ast.expr] = [
            placed(ast.IfExp(test, constant(number), constant(0)), node)
            for number, (node, test, _) in enumerate(choices, 1)
        ]
        chosen = ast.Assign([ast.Name(name, ast.Store())], ast.BoolOp(ast.Or(), numbers))
        made: list[ast.stmt] = [placed(chosen, choices[0][0])]
        for number, (node, _, body) in enumerate([*choices, (choices[0][0], constant(0), otherwise)], 1):
            test = ast.Compare(load(name), [ast.Eq()], [constant(number % (len(choices) + 1))])
            made += [placed(ast.If(test, body, []), node)] if body else []
        return made

    def _for(self, node: nodes.For) -> ast.stmt:
        names: list[ast.expr] = [ast.Subscript(scope(), constant(name), ast.Store()) for name in node.names]
        target = names[0] if len(names) == 1 else ast.Tuple(names, ast.Store())
        assigned = ast.Expr(call("step", scope(), constant(len(names) // _PARTS_A_STEP)))
        items = self.expressions.expression(node.items)
        return ast.For(target, items, [assigned, *self._inner(node.body, loop=True)], [])

    def _jump(self, word: str) -> ast.stmt:
        if word == "pass":
            return ast.Pass()
        if not self._loops:
            # Its loop is around the function that this block is outlined from.
            return ast.Return(constant(word))
        return ast.Break() if word == "break" else ast.Continue()

    def _raise(self, node: nodes.Raise) -> ast.stmt:
        if node.error is None:
            return ast.Raise()
        if node.error not in RAISABLE:
            wrong = f"raise cannot name {node.error!r}: use ValueError or another of Python's errors"
            return ast.Expr(self.expressions.refusal(NameError, wrong))
        message = [] if node.message is None else [self.expressions.expression(node.message)]
        return ast.Raise(call("raised", scope(), constant(node.error), *message))

    def _try(self, node: nodes.Try) -> Iterator[ast.stmt]:
        final = bool(node.final)
        body = self._inner(node.body, 1 + final)
        if not node.handlers:
            yield ast.Try(body, [], [], self._inner(node.final))
            return
        choices: list[tuple[Node, ast.expr, list[ast.stmt]]] = []
        for handler in node.handlers:
            types = self._module.add(frozenset(caught_names(handler.types)))
            test = call("caught", scope(), types, load("error"))
            choices.append((handler, test, self._handler(handler, final)))
        caught = ast.ExceptHandler(load("Exception"), "error", self._first_of(choices, [ast.Raise()]))
        yield ast.Try(
            body,
            [placed(caught, node)],
            self._inner(node.otherwise, 1 + final),
            self._inner(node.final),
        )

    def _handler(self, handler: nodes.Handler, final: bool) -> list[ast.stmt]:
        body = self._inner(handler.body, 3 + final)
        if handler.name is None:
            return body
        ended = ast.Expr(call("forget", scope(), constant(handler.name)))
        return [placed(one, handler) for one in (_store(handler.name, load("error")), ast.Try(body, [], [], [ended]))]


def _branch(module: _Module, variables: frozenset[str], node: Node) -> ast.expr:
    """A call as a function of its own, for those that run at once."""
    name = f"branch {module.number()}"
    value = _expressions(module, variables).expression(node)
    module.blocks.append(coroutine(name, [placed(ast.Return(value), node)], node))
    return load(name)


def _expressions(module: _Module, variables: frozenset[str]) -> Translator:
    """The translator of expressions, with what scripts add to them."""

    def action(node: nodes.ActionCall, translator: Translator) -> ast.expr:
        return ast.Await(call("action", scope(), module.add(ActionSite(node)), _dict(node.arguments, translator)))

    def spread(node: nodes.Spread, translator: Translator) -> ast.expr:
        branch = _branch(module, variables | {node.name}, node.call)
        return ast.Await(call("spread", scope(), translator.expression(node.items), constant(node.name), branch))

    def function(node: Call, translator: Translator) -> ast.expr:
        given = [*node.positional, *(one.value for one in node.named)]
        if node.name in variables:
            return translator.refusal(TypeError, f"{node.name!r} is a variable here, and cannot be called", given)
        called = module.functions.get(node.name)
        if called is None:
            if node.name in BUILTINS:
                return translator.function_call(node)
            otherwise = f"an action is called with @: @{node.name}(...)"
            hint = did_you_mean(node.name, (*module.functions, *BUILTINS), otherwise)
            return translator.refusal(NameError, f"no function is named {node.name!r}; {hint}")
        problem = called.problem(len(node.positional), [one.name for one in node.named])
        if problem is not None:
            return translator.refusal(TypeError, problem, given)
        positional = zip(called.parameters, node.positional, strict=False)
        arguments = _dict([*((one.name, value) for one, value in positional), *node.named], translator)
        return ast.Await(call("call", scope(), load(_function_name(node.name)), arguments))

    def attribute(node: Any, translator: Translator) -> ast.expr:
        if node.name in ERROR_ATTRIBUTES:
            return call("attribute", scope(), translator.expression(node.value), constant(node.name))
        hint = did_you_mean(node.name, ERROR_ATTRIBUTES, f"an error has {', '.join(ERROR_ATTRIBUTES)}")
        return translator.refusal(AttributeError, f"nothing has an attribute {node.name!r}; {hint}")

    extensions: dict[type[Node], Extension] = {
        nodes.Duration: lambda node, translator: constant(node.seconds),
        nodes.ActionCall: action,
        nodes.Spread: spread,
        Call: function,
        Attribute: attribute,
    }
    return Translator(variables, extensions, {**BUILTINS, **dict.fromkeys(module.functions, BUILTINS["len"])})


def _dict(arguments: Sequence[Any], translator: Translator) -> ast.expr:
    """A dict of arguments, evaluated in order."""
    pairs = [one if isinstance(one, tuple) else (one.name, one.value) for one in arguments]
    return ast.Dict([constant(name) for name, _ in pairs], [translator.expression(value) for _, value in pairs])

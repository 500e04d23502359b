"""Writes syntax trees as text, for tests that generate them."""

import math
from collections.abc import Iterable, Iterator

from redrive.expressions import nodes as expressions
from redrive.expressions.nodes import Node
from redrive.flows.scripts import nodes
from redrive.flows.scripts.formatting import format_script
from redrive.flows.scripts.nodes import Block, ScriptTree, Statement

# How strongly an expression holds together, from a condition to a name.
_CONDITIONAL, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ITEM, _ATOM = range(11)
_ARITHMETIC = {"+": _SUM, "-": _SUM, "**": _POWER}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_STEP = "    "


def print_script(script: ScriptTree) -> str:
    """The script as text, formatted; comments are not in the nodes, and are lost."""
    lines: list[str] = []
    for function in script.functions.values():
        lines += _block(function.body, "") if function.implicit else _function(function)
    return format_script("\n".join(lines) + "\n", script.source)


def _function(function: nodes.Function) -> Iterator[str]:
    parameters = (
        one.name if one.default is None else f"{one.name}={print_expression(one.default)}"
        for one in function.parameters
    )
    yield f"fn {function.name}({', '.join(parameters)}):"
    yield from _block(function.body, _STEP)


def _block(block: Block, indentation: str) -> Iterator[str]:
    for statement in block:
        for line in _statement(statement):
            yield indentation + line


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case nodes.Assign(target=target, value=value):
            yield f"{print_expression(target)} = {print_expression(value)}"
        case nodes.AugmentedAssign(target=target, operator=operator, value=value):
            yield f"{print_expression(target)} {operator}= {print_expression(value)}"
        case nodes.ExpressionStatement(value=value):
            yield print_expression(value)
        case nodes.Return(value=result):
            yield "return" if result is None else f"return {print_expression(result)}"
        case nodes.Sleep(duration=duration):
            yield f"sleep {print_expression(duration)}"
        case nodes.Raise(error=error, message=message):
            said = "" if message is None else f"({print_expression(message)})"
            yield "raise" if error is None else f"raise {error}{said}"
        case nodes.Jump(word=word):
            yield word
        case nodes.Parallel(branches=branches):
            yield "parallel:"
            for branch in branches:
                target_of = "" if branch.name is None else f"{branch.name} = "
                yield f"{_STEP}{target_of}{print_expression(branch.call)}"
        case nodes.If():
            yield from _if(statement)
        case nodes.For(names=names, items=items, body=body):
            yield from _headed(f"for {', '.join(names)} in {print_expression(items)}:", body)
        case nodes.While(test=test, body=body):
            yield from _headed(f"while {print_expression(test)}:", body)
        case nodes.Try():
            yield from _try(statement)


def _headed(head: str, body: Block) -> Iterator[str]:
    yield head
    yield from _block(body, _STEP)


def _if(statement: nodes.If) -> Iterator[str]:
    for index, branch in enumerate(statement.branches):
        yield from _headed(f"{'elif' if index else 'if'} {print_expression(branch.test)}:", branch.body)
    if statement.otherwise:
        yield from _headed("else:", statement.otherwise)


def _try(statement: nodes.Try) -> Iterator[str]:
    yield from _headed("try:", statement.body)
    for handler in statement.handlers:
        types = (
            handler.types[0] if len(handler.types) == 1 else f"({', '.join(handler.types)})" if handler.types else ""
        )
        name = "" if handler.name is None else f" as {handler.name}"
        yield from _headed(f"except {types}{name}:" if types else "except:", handler.body)
    if statement.otherwise:
        yield from _headed("else:", statement.otherwise)
    if statement.final:
        yield from _headed("finally:", statement.final)


def print_expression(expression: Node, least: int = _CONDITIONAL) -> str:
    """On one line, in round brackets where it must hold together more strongly than it does."""
    text, strength = _expression(expression)
    return text if strength >= least else f"({text})"


def _expression(expression: Node) -> tuple[str, int]:
    match expression:
        case expressions.Literal(value=value):
            return _literal(value), _ATOM
        case nodes.Duration(text=text):
            return text, _ATOM
        case expressions.Name(name=name):
            return name, _ATOM
        case expressions.Attribute(value=owner, name=name):
            return f"{print_expression(owner)}.{name}", _ITEM
        case expressions.ListDisplay(items=items):
            return f"[{_separated(items)}]", _ATOM
        case expressions.DictDisplay(pairs=pairs):
            return f"{{{', '.join(f'{print_expression(key)}: {print_expression(one)}' for key, one in pairs)}}}", _ATOM
        case expressions.Index(value=owned, index=index):
            return f"{_owner(owned)}[{print_expression(index)}]", _ITEM
        case expressions.Slice(value=owned, start=start, stop=stop, step=step):
            ends = ":".join("" if one is None else print_expression(one) for one in (start, stop))
            return f"{_owner(owned)}[{ends}{'' if step is None else f':{print_expression(step)}'}]", _ITEM
        case expressions.Unary(operator="not", operand=operand):
            return f"not {print_expression(operand, _NOT)}", _NOT
        case expressions.Unary(operator=operator, operand=operand):
            return f"{operator}{print_expression(operand, _SIGN)}", _SIGN
        case expressions.Arithmetic():
            return _arithmetic(expression)
        case expressions.Comparison(first=first, rest=rest):
            return _chain(first, rest, _SUM), _COMPARISON
        case expressions.Logic(operator=word, operands=operands):
            strength = _OR if word == "or" else _AND
            return f" {word} ".join(print_expression(one, strength + 1) for one in operands), strength
        case expressions.Conditional(test=test, then=then, otherwise=otherwise):
            said = f"{print_expression(then, _OR)} if {print_expression(test, _OR)} else {print_expression(otherwise)}"
            return said, _CONDITIONAL
        case nodes.Spread(items=items_of, name=name, call=call):
            return f"spread {print_expression(items_of)}:{name} -> {print_expression(call)}", _CONDITIONAL
        case expressions.Call(name=name, positional=positional, named=named):
            arguments = [print_expression(one) for one in positional] + [_argument(one) for one in named]
            return f"{name}({', '.join(arguments)})", _ATOM
        case nodes.ActionCall(name=name, arguments=given, policy=policy):
            brackets = "" if policy is None else f" {policy.text}"
            return f"@{name}({', '.join(_argument(one) for one in given)}){brackets}", _ATOM
    raise TypeError(expression)


def _arithmetic(expression: expressions.Arithmetic) -> tuple[str, int]:
    strength = _ARITHMETIC.get(expression.rest[0][0], _PRODUCT)
    if strength == _POWER:
        return (
            f"{print_expression(expression.first, _ITEM)} ** {print_expression(expression.rest[0][1], _SIGN)}",
            _POWER,
        )
    return _chain(expression.first, expression.rest, strength + 1), strength


def _chain(first: Node, rest: Iterable[tuple[str, Node]], least: int) -> str:
    return " ".join((print_expression(first, least), *(f"{sign} {print_expression(one, least)}" for sign, one in rest)))


def _separated(items: Iterable[Node]) -> str:
    return ", ".join(print_expression(one) for one in items)


def _owner(value: Node) -> str:
    """What an index follows. After an action call, a bracket would be its policy."""
    return f"({print_expression(value)})" if isinstance(value, nodes.ActionCall) else print_expression(value, _ITEM)


def _argument(argument: expressions.Argument) -> str:
    return f"{argument.name}={print_expression(argument.value)}"


def _literal(value: bool | int | float | str | None) -> str:
    if isinstance(value, str):
        return (
            '"'
            + "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escaped(char)) for char in value)
            + '"'
        )
    if isinstance(value, float) and math.isinf(value):
        return "1e999"
    return repr(value)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

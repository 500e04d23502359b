"""Expressions, made into Python functions once for each script: then running one costs no look at its nodes.

What may wait for an action or a timer is a coroutine function, all else a plain function.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from redrive.flows.scripts import nodes
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES, error_attribute
from redrive.flows.scripts.execution import NODES_A_STEP, Frame
from redrive.flows.scripts.near_names import near_name
from redrive.flows.scripts.operations import ARITHMETIC, COMPARISONS, UNARY, item_of, slice_of
from redrive.flows.scripts.sizes import check_key, made, printable
from redrive.flows.scripts.walking import walk


class Code(NamedTuple):
    """What runs a node, given the frame; when it waits, what it gives is to be awaited."""

    run: Callable[[Frame], Any]
    waits: bool = False


class Expressions:
    """The expressions of one function."""

    def __init__(self, functions: Sequence[str], variables: frozenset[str]) -> None:
        self.functions = functions
        self.variables = variables
        self.depth = 0
        """How deep in the function the node is that is being made."""

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def expression(self, node: nodes.Expression) -> Code:
        with self.deeper():
            match node:
                case nodes.Literal():
                    return _constant(node.value)
                case nodes.Duration():
                    return _constant(node.seconds)
                case nodes.Name():
                    return self._name(node.name)
                case nodes.Arithmetic():
                    return self._arithmetic(node)
                case nodes.Comparison():
                    return self._comparison(node)
                case nodes.Index():
                    return strict([self.expression(node.value), self.expression(node.index)], item_of)
                case nodes.Logic():
                    return self._logic(node)
                case nodes.Unary():
                    operation = UNARY[node.operator]
                    return strict([self.expression(node.operand)], lambda frame, value: operation(value))
                case nodes.Conditional():
                    return self._conditional(node)
                case nodes.ListDisplay():
                    return strict(self.all(node.items), lambda frame, *items: list(items))
                case nodes.DictDisplay():
                    return strict(self.all([part for pair in node.pairs for part in pair]), _dict)
                case nodes.Slice():
                    ends = [node.start, node.stop, node.step]
                    bounds = [_constant(None) if end is None else self.expression(end) for end in ends]
                    return strict([self.expression(node.value), *bounds], slice_of)
                case nodes.Attribute():
                    return self._attribute(node)
                case nodes.Call():
                    return self.call(node)
                case nodes.ActionCall():
                    return self.action(node)
                case nodes.Spread():
                    return self.spread(node)

    def all(self, several: Sequence[nodes.Expression]) -> list[Code]:
        return [self.expression(node) for node in several]

    # Those that begin something of their own

    def call(self, node: nodes.Call) -> Code:
        raise NotImplementedError

    def action(self, node: nodes.ActionCall) -> Code:
        raise NotImplementedError

    def spread(self, node: nodes.Spread) -> Code:
        raise NotImplementedError

    # The others

    def _name(self, name: str) -> Code:
        if name not in self.variables:
            return raising(NameError, lambda: self.unknown_name(name))

        def run(frame: Frame) -> Any:
            try:
                return frame.names[name]
            except KeyError:
                raise UnboundLocalError(
                    f"cannot access local variable '{name}' where it is not associated with a value"
                ) from None

        return Code(run)

    def unknown_name(self, name: str) -> str:
        if name in self.functions or name in BUILTINS:
            return f"{name!r} is a function: write {name}(...)"
        close = near_name(name, sorted(self.variables))
        return f"name '{name}' is not defined" + (f"; did you mean {close!r}?" if close else "")

    def _attribute(self, node: nodes.Attribute) -> Code:
        name = node.name
        if name not in ERROR_ATTRIBUTES:
            return raising(AttributeError, lambda: _unknown_attribute(name))

        def run(frame: Frame, error: Any) -> Any:
            if isinstance(error, BaseException) and name == "message":
                printable(frame, error)
            return made(frame, error_attribute(error, name))

        return strict([self.expression(node.value)], run)

    def _arithmetic(self, node: nodes.Arithmetic) -> Code:
        first = self.expression(node.first)
        rest: list[Any] = [(ARITHMETIC[operator], *self.expression(operand)) for operator, operand in node.rest]
        begin = first.run
        if first.waits or any(waits for _, _, waits in rest):

            async def run_waiting(frame: Frame) -> Any:
                value = await begin(frame) if first.waits else begin(frame)
                for operation, run, waits in rest:
                    value = operation(frame, value, await run(frame) if waits else run(frame))
                return value

            return Code(run_waiting, waits=True)
        if len(rest) == 1:
            only, right, _ = rest[0]
            return Code(lambda frame: only(frame, begin(frame), right(frame)))

        def run_all(frame: Frame) -> Any:
            value = begin(frame)
            for operation, run, _ in rest:
                value = operation(frame, value, run(frame))
            return value

        return Code(run_all)

    def _comparison(self, node: nodes.Comparison) -> Code:
        first = self.expression(node.first)
        rest: list[Any] = [(COMPARISONS[operator], *self.expression(operand)) for operator, operand in node.rest]
        begin = first.run
        if first.waits or any(waits for _, _, waits in rest):

            async def run_waiting(frame: Frame) -> Any:
                left = await begin(frame) if first.waits else begin(frame)
                result: Any = True
                for operation, run, waits in rest:
                    right = await run(frame) if waits else run(frame)
                    result = operation(frame, left, right)
                    if not result:
                        break
                    left = right
                return result

            return Code(run_waiting, waits=True)
        if len(rest) == 1:
            only, other, _ = rest[0]
            return Code(lambda frame: only(frame, begin(frame), other(frame)))

        def run_all(frame: Frame) -> Any:
            left = begin(frame)
            result: Any = True
            for operation, run, _ in rest:
                right = run(frame)
                result = operation(frame, left, right)
                if not result:
                    break
                left = right
            return result

        return Code(run_all)

    def _logic(self, node: nodes.Logic) -> Code:
        operands = self.all(node.operands)
        goes_on_while = node.operator == "and"
        if any(operand.waits for operand in operands):

            async def run_waiting(frame: Frame) -> Any:
                value: Any = None
                for run, waits in operands:
                    value = await run(frame) if waits else run(frame)
                    if bool(value) is not goes_on_while:
                        break
                return value

            return Code(run_waiting, waits=True)

        def run_all(frame: Frame) -> Any:
            value: Any = None
            for run, _ in operands:
                value = run(frame)
                if bool(value) is not goes_on_while:
                    break
            return value

        return Code(run_all)

    def _conditional(self, node: nodes.Conditional) -> Code:
        test, then, otherwise = self.all([node.test, node.then, node.otherwise])
        if not (test.waits or then.waits or otherwise.waits):
            return Code(lambda frame: then.run(frame) if test.run(frame) else otherwise.run(frame))

        async def run(frame: Frame) -> Any:
            chosen = then if (await test.run(frame) if test.waits else test.run(frame)) else otherwise
            return await chosen.run(frame) if chosen.waits else chosen.run(frame)

        return Code(run, waits=True)


def steps_of(*parts: nodes.Node) -> int:
    """What evaluating these once counts, when all that they work on is small."""
    return sum(NODES_A_STEP if isinstance(one, nodes.Call) else 1 for one in walk(*parts)) // NODES_A_STEP


def strict(parts: list[Code], make: Callable[..., Any]) -> Code:
    """All parts from left to right, then what is made of them."""
    runs = [part.run for part in parts]
    if any(part.waits for part in parts):

        async def run_waiting(frame: Frame) -> Any:
            # A comprehension would be one more of Python's frames.
            values = []
            for run, waits in parts:
                values.append(await run(frame) if waits else run(frame))
            return make(frame, *values)

        return Code(run_waiting, waits=True)
    if len(runs) == 1:
        only = runs[0]
        return Code(lambda frame: make(frame, only(frame)))
    if len(runs) == 2:
        first, second = runs
        return Code(lambda frame: make(frame, first(frame), second(frame)))
    return Code(lambda frame: make(frame, *[run(frame) for run in runs]))


def raising(kind: type[Exception], message: Callable[[], str]) -> Code:
    """What is known to be wrong beforehand is told when it is reached, as Python does, and put into words then."""
    said = cache(message)

    def run(frame: Frame) -> Any:
        raise kind(said())

    return Code(run)


def _unknown_attribute(name: str) -> str:
    close = near_name(name, ERROR_ATTRIBUTES)
    hint = f"did you mean {close!r}?" if close else f"an error has {', '.join(ERROR_ATTRIBUTES)}"
    return f"nothing has an attribute {name!r}; {hint}"


def _constant(value: Any) -> Code:
    return Code(lambda frame: value)


def _dict(frame: Frame, *parts: Any) -> dict[Any, Any]:
    for key in parts[::2]:
        check_key(frame, key)
    return dict(zip(parts[::2], parts[1::2], strict=True))

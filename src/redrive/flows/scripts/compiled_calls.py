"""What a script calls: its own functions, builtins and actions, one at a time or all at once."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import ArgumentsError, DeserializationError, UnknownDefinitionError
from redrive.flows.json_forms import JsonForm
from redrive.flows.loop import running_flow_loop
from redrive.flows.named_arguments import call_by_names, with_more_names
from redrive.flows.registry import action_named
from redrive.flows.scripts import nodes
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.compiled_expressions import Code, Expressions, raising, steps_of, strict
from redrive.flows.scripts.execution import MOST_ELEMENTS, STEPS_OF_A_BRANCH, Frame, TooLarge, note_place
from redrive.flows.scripts.near_names import near_name
from redrive.flows.scripts.sizes import sendable
from redrive.flows.stored_policy import DURABLE_DEFAULT, write_stored_policy
from redrive.flows.values import Arguments
from redrive.policies.policy import Policy

# A call of a function takes these of Python's frames, beside one for each level of the place where it stands.
_FRAMES_OF_A_CALL = 1


class CompiledFunction:
    """A function of the script; its body is filled in when all functions are known."""

    __slots__ = ("body", "cost", "defaults", "name", "node")

    def __init__(self, node: nodes.Function) -> None:
        self.node = node
        self.name = node.name
        self.defaults: dict[str, Code] = {}
        self.cost = steps_of(*(one for one in node.parameters if one.default is not None))
        """Of its defaults, in steps."""
        self.body: Code

    async def run(self, frame: Frame) -> Any:
        """Its result; the frame has the arguments that were given."""
        names = frame.names
        frame.execution.steps += self.cost
        for parameter in self.node.parameters:
            if parameter.name not in names:
                default, default_waits = self.defaults[parameter.name]
                try:
                    names[parameter.name] = await default(frame) if default_waits else default(frame)
                except Exception as error:
                    note_place(error, frame.execution.name, parameter.span.line)
                    raise
        run, waits = self.body
        signal = await run(frame) if waits else run(frame)
        # What a `return` put there does not count when a `finally` went on elsewhere.
        return None if signal is None else frame.returned


class Calls(Expressions):
    """The expressions of one function, calls included."""

    def __init__(self, functions: Mapping[str, CompiledFunction], variables: frozenset[str]) -> None:
        super().__init__(list(functions), variables)
        self._compiled = functions

    def call(self, node: nodes.Call) -> Code:
        positional, named = self.all(node.positional), self.all([one.value for one in node.named])
        names = tuple(one.name for one in node.named)
        if node.name in self.variables:
            return self._after(positional + named, f"{node.name!r} is a variable here, and cannot be called")
        function = self._compiled.get(node.name)
        if function is not None:
            return self._function_call(function, positional, names, named)
        builtin = BUILTINS.get(node.name)
        if builtin is None:
            known = (*self._compiled, *BUILTINS)

            def unknown() -> str:
                close = near_name(node.name, known)
                hint = f"did you mean {close!r}?" if close else f"an action is called with @: @{node.name}(...)"
                return f"no function is named {node.name!r}; {hint}"

            return raising(NameError, unknown)
        problem = builtin.check(node.name, len(positional), names)
        if problem is not None:
            return self._after(positional + named, problem)
        run, count = builtin.run, len(positional)
        if not names:
            return strict(positional, run) if positional else Code(run)
        return strict(
            positional + named,
            lambda frame, *values: run(frame, *values[:count], **dict(zip(names, values[count:], strict=True))),
        )

    def _after(self, parts: list[Code], problem: str) -> Code:
        """Wrong in itself: refused once its arguments have been evaluated, as Python does."""

        def refuse(frame: Frame, *values: Any) -> Any:
            raise TypeError(problem)

        return strict(parts, refuse) if parts else Code(refuse)

    def _function_call(
        self, function: CompiledFunction, positional: list[Code], names: tuple[str, ...], named: list[Code]
    ) -> Code:
        problem = argument_problem(function.node, len(positional), names)
        if problem is not None:
            return self._after(positional + named, problem)
        parameters = [one.name for one in function.node.parameters]
        given = [*zip(parameters, positional, strict=False), *zip(names, named, strict=True)]
        stack = self.depth + _FRAMES_OF_A_CALL

        async def run(frame: Frame) -> Any:
            values = {}
            for name, (part, waits) in given:
                values[name] = await part(frame) if waits else part(frame)
            return await function.run(frame.inner(values, stack))

        return Code(run, waits=True)

    def action(self, node: nodes.ActionCall) -> Code:
        arguments: list[Any] = [(one.name, *self.expression(one.value)) for one in node.arguments]
        site = _ActionSite(node)

        async def run(frame: Frame) -> Any:
            values = {}
            for name, part, waits in arguments:
                values[name] = await part(frame) if waits else part(frame)
            call, policy = site.prepared(frame, values)
            loop = running_flow_loop()
            assert loop is not None  # noqa: S101 - scripts run nowhere else
            frame.execution.held.rest()
            try:
                return await loop.schedule(call.action.name, call.arguments, policy)
            finally:
                frame.execution.steps = 0

        return Code(run, waits=True)

    def spread(self, node: nodes.Spread) -> Code:
        items, items_wait = self.expression(node.items)
        outside, self.variables = self.variables, self.variables | {node.name}
        call = as_waiting(self.expression(node.call))
        self.variables = outside
        name = node.name
        each = STEPS_OF_A_BRANCH + steps_of(node.call)

        async def run(frame: Frame) -> Any:
            elements = await items(frame) if items_wait else items(frame)
            if hasattr(elements, "__len__"):
                if len(elements) > MOST_ELEMENTS:
                    raise TooLarge("a spread", MOST_ELEMENTS, "elements")
                frame.execution.charge(len(elements) * each, 1)
            outside = {**frame.names}
            frames = [frame.beside(_Inside(outside, name, element)) for element in elements]
            return await at_once([call.run(one) for one in frames])

        return Code(run, waits=True)

    def branch(self, node: nodes.ParallelBranch) -> Callable[[Frame, Frame], Coroutine[Any, Any, None]]:
        """One line of a `parallel:` block: takes the frame as it was before the block, and the one to assign in."""
        call = as_waiting(self.expression(node.call))
        name, line = node.name, node.span.line

        async def run(before: Frame, frame: Frame) -> None:
            try:
                value = await call.run(before)
            except Exception as error:
                note_place(error, frame.execution.name, line)
                raise
            if name is not None:
                frame.names[name] = value

        return run


def argument_problem(function: nodes.Function, positional: int, named: Sequence[str]) -> str | None:
    """What is wrong with the arguments of a call; None when they fit."""
    parameters = [one.name for one in function.parameters]
    takes = f"{function.name} takes {', '.join(parameters) or 'no arguments'}"
    if positional > len(parameters):
        return f"{takes}; this call has {positional} arguments"
    for name in named:
        if name not in parameters:
            close = near_name(name, parameters)
            return f"{function.name} has no parameter {name!r}; " + (f"did you mean {close!r}?" if close else takes)
        if name in parameters[:positional]:
            return f"{name!r} is given twice, by its position and by its name"
    given = {*parameters[:positional], *named}
    missing = [one.name for one in function.parameters if one.default is None and one.name not in given]
    return f"{function.name} lacks {', '.join(missing)}" if missing else None


def as_waiting(code: Code) -> Code:
    if code.waits:
        return code

    async def run(frame: Frame) -> Any:
        return code.run(frame)

    return Code(run, waits=True)


async def at_once(coroutines: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All their results, in order. The first that fails ends the others, and its error is raised."""
    first: BaseException | None = None
    tasks: list[asyncio.Task[Any]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in coroutines]
    except BaseExceptionGroup as failed:
        first = failed.exceptions[0]
    if first is None:
        return [task.result() for task in tasks]
    try:
        raise first
    finally:
        # An error that holds its own frame would stay until someone looks for such circles.
        del first, tasks


class _Inside(dict[str, Any]):
    """The variables that a call of a `spread` sees: its own one, and those around it. Nothing there assigns to them."""

    __slots__ = ("_outside",)

    def __init__(self, outside: dict[str, Any], name: str, element: Any) -> None:
        super().__init__({name: element})
        self._outside = outside

    def __missing__(self, name: str) -> Any:
        return self._outside[name]


class _Called(NamedTuple):
    """What the loop is asked for."""

    action: Any
    arguments: Arguments


class _UnknownAction(NamedTuple):
    """Nobody here can carry it out: the engine says so, and that is logged like any failure."""

    name: str


class _ActionSite:
    """A call of an action, where it stands in the script."""

    def __init__(self, node: nodes.ActionCall) -> None:
        self._name = node.name
        self._form = JsonForm(dict[str, Any], f"action {node.name}: its arguments")
        self._written = node.policy
        self._policies: tuple[Policy, Policy] | None = None
        """The action's own policy, and what the brackets make of it."""

    def prepared(self, frame: Frame, values: dict[str, Any]) -> tuple[_Called, Policy]:
        for value in values.values():
            sendable(frame, value)
        try:
            action = action_named(self._name)
        except UnknownDefinitionError:
            called = _Called(_UnknownAction(self._name), Arguments(*self._form.write(values)))
            return called, self._policy(DURABLE_DEFAULT)
        signature = action.signature
        try:
            typed = signature.read_arguments(self._form.write(values)[0])
        except DeserializationError:
            typed = self._read_otherwise(action, values)
        arguments = signature.call_with(lambda *args, **kwargs: signature.bind(args, kwargs), typed)
        return _Called(action, arguments), self._policy(action.policy)

    def _read_otherwise(self, action: Any, values: dict[str, Any]) -> dict[str, Any]:
        """Names that only `**kwargs` take; TypeError when the arguments do not fit at all."""
        values = with_more_names(action.function, values)
        try:
            call_by_names(action, values, "the call")
        except ArgumentsError as error:
            raise TypeError(f"action {self._name}: {error}") from None
        typed: dict[str, Any] = action.signature.read_arguments(self._form.write(values)[0])
        return typed

    def _policy(self, own: Policy) -> Policy:
        if self._written is None:
            return own
        if self._policies is None or self._policies[0] is not own:
            policy = bracket_policy(self._written, own)
            write_stored_policy(policy)
            self._policies = own, policy
        return self._policies[1]


def bracket_policy(written: nodes.PolicyBrackets, own: Policy) -> Policy:
    """Brackets that say when to retry stand for the whole policy; others change only what they name."""
    if written.policy.rules:
        return written.policy
    changed = {field: getattr(written.policy, field) for field in written.reading.written}
    return own.replace(**changed)

"""Statements, made into Python functions like expressions. What they give says how to go on after them."""

from typing import Any, Final, NamedTuple

from redrive.determinism.clock import current_clock
from redrive.failures.duration import read_duration
from redrive.flows.scripts import nodes
from redrive.flows.scripts.compiled_calls import Calls, at_once
from redrive.flows.scripts.compiled_expressions import Code, raising, steps_of, strict
from redrive.flows.scripts.error_values import RAISABLE, catches, caught_names
from redrive.flows.scripts.execution import (
    ELEMENTS_A_STEP,
    MOST_STEPS,
    STEPS_OF_A_BRANCH,
    STEPS_OF_A_FAILURE,
    Frame,
    OutOfSteps,
    note_place,
)
from redrive.flows.scripts.operations import IN_PLACE, item_of, set_item, taken_apart
from redrive.flows.scripts.sizes import CONTAINERS, made, printable
from redrive.flows.scripts.walking import expressions_of
from redrive.policies.backoff import LONGEST_WAIT

BREAK: Final = "break"
CONTINUE: Final = "continue"
RETURN: Final = "return"
"""How to go on after a statement; None: with the next one."""


class _Handler(NamedTuple):
    types: frozenset[str]
    name: str | None
    body: Code


class Statements(Calls):
    """All that stands in one function."""

    def block(self, block: nodes.Block) -> Code:
        with self.deeper():
            steps: list[Any] = [
                (*self.statement(node), node.span.line, 1 + steps_of(*expressions_of(node))) for node in block
            ]
        if not any(waits for _, waits, _, _ in steps):
            return Code(_plain_block([(run, line, cost) for run, _, line, cost in steps]))

        async def run_block(frame: Frame) -> Any:
            execution = frame.execution
            line = 0
            try:
                for step in steps:
                    run, waits, line, cost = step
                    execution.steps += cost
                    if execution.steps > MOST_STEPS:
                        raise OutOfSteps
                    signal = await run(frame) if waits else run(frame)
                    if signal is not None:
                        return signal
            except Exception as error:
                note_place(error, execution.name, line)
                raise
            return None

        return Code(run_block, waits=True)

    def statement(self, node: nodes.Statement) -> Code:
        with self.deeper():
            match node:
                case nodes.Assign():
                    return self._assign(node)
                case nodes.ExpressionStatement():
                    return strict([self.expression(node.value)], _nothing)
                case nodes.AugmentedAssign():
                    return self._augmented(node)
                case nodes.If():
                    return self._if(node)
                case nodes.For():
                    return self._for(node)
                case nodes.While():
                    return self._while(node)
                case nodes.Break():
                    return Code(lambda frame: BREAK)
                case nodes.Continue():
                    return Code(lambda frame: CONTINUE)
                case nodes.Pass():
                    return Code(_nothing)
                case nodes.Return():
                    return self._return(node)
                case nodes.Sleep():
                    return self._sleep(node)
                case nodes.Raise():
                    return self._raise(node)
                case nodes.Try():
                    return self._try(node)
                case nodes.Parallel():
                    return self._parallel(node)

    def _assign(self, node: nodes.Assign) -> Code:
        value = self.expression(node.value)
        if isinstance(node.target, nodes.Index):
            parts = [value, self.expression(node.target.value), self.expression(node.target.index)]
            return strict(parts, lambda frame, new, container, index: set_item(frame, container, index, new))
        name = node.target.name
        evaluate = value.run
        if value.waits:

            async def run_waiting(frame: Frame) -> None:
                frame.names[name] = await evaluate(frame)

            return Code(run_waiting, waits=True)

        def run(frame: Frame) -> None:
            frame.names[name] = evaluate(frame)

        return Code(run)

    def _augmented(self, node: nodes.AugmentedAssign) -> Code:
        operation = IN_PLACE[node.operator]
        value = self.expression(node.value)
        if isinstance(node.target, nodes.Name):
            name = node.target.name

            def store(frame: Frame, old: Any, new: Any) -> None:
                frame.names[name] = operation(frame, old, new)

            return strict([self.expression(node.target), value], store)
        found = strict(
            [self.expression(node.target.value), self.expression(node.target.index)],
            lambda frame, container, index: (container, index, item_of(frame, container, index)),
        )

        def store_item(frame: Frame, place: Any, new: Any) -> None:
            container, index, old = place
            set_item(frame, container, index, operation(frame, old, new))

        return strict([found, value], store_item)

    def _if(self, node: nodes.If) -> Code:
        branches = []
        for number, branch in enumerate(node.branches):
            with self.deeper():
                test = self.expression(branch.test)
            branches.append((_placed(test, branch.span.line) if number else test, self.block(branch.body)))
        otherwise = self.block(node.otherwise) if node.otherwise else Code(_nothing)
        if not (otherwise.waits or any(test.waits or body.waits for test, body in branches)):

            def run(frame: Frame) -> Any:
                for test, body in branches:
                    if test.run(frame):
                        return body.run(frame)
                return otherwise.run(frame)

            return Code(run)

        async def run_waiting(frame: Frame) -> Any:
            for test, body in branches:
                if await test.run(frame) if test.waits else test.run(frame):
                    return await body.run(frame) if body.waits else body.run(frame)
            return await otherwise.run(frame) if otherwise.waits else otherwise.run(frame)

        return Code(run_waiting, waits=True)

    def _for(self, node: nodes.For) -> Code:
        items, items_wait = self.expression(node.items)
        body, body_waits = self.block(node.body)
        only = node.names[0] if len(node.names) == 1 else None
        names = node.names
        each = len(names) // ELEMENTS_A_STEP

        async def run(frame: Frame) -> Any:
            variables = frame.names
            for element in await items(frame) if items_wait else items(frame):
                if only is not None:
                    variables[only] = element
                else:
                    frame.execution.steps += each
                    variables.update(zip(names, taken_apart(element, len(names)), strict=True))
                signal = await body(frame) if body_waits else body(frame)
                if signal is not None:
                    if signal is BREAK:
                        break
                    if signal is RETURN:
                        return RETURN
            return None

        return Code(run, waits=True)

    def _while(self, node: nodes.While) -> Code:
        test, test_waits = self.expression(node.test)
        body, body_waits = self.block(node.body)
        again = steps_of(node.test)

        async def run(frame: Frame) -> Any:
            while await test(frame) if test_waits else test(frame):
                frame.execution.steps += again
                signal = await body(frame) if body_waits else body(frame)
                if signal is not None:
                    if signal is BREAK:
                        break
                    if signal is RETURN:
                        return RETURN
            return None

        return Code(run, waits=True)

    def _return(self, node: nodes.Return) -> Code:
        if node.value is None:
            return Code(_return_none)
        line = node.span.line

        def store(frame: Frame, value: Any) -> str:
            frame.returned, frame.returned_at = value, line
            return RETURN

        return strict([self.expression(node.value)], store)

    def _sleep(self, node: nodes.Sleep) -> Code:
        duration, waits = self.expression(node.duration)

        async def run(frame: Frame) -> None:
            written = await duration(frame) if waits else duration(frame)
            if isinstance(written, str):
                frame.execution.charge(len(written))
            seconds = read_duration(written)
            if seconds > LONGEST_WAIT:
                raise ValueError("a sleep may take at most ten years")
            if seconds:
                clock = current_clock()
                frame.execution.held.rest()
                await clock.asleep_until(clock.wall() + seconds)
                frame.execution.steps = 0

        return Code(run, waits=True)

    def _raise(self, node: nodes.Raise) -> Code:
        if node.error is None:
            return Code(_raise_again)
        kind = RAISABLE.get(node.error)
        if kind is None:
            wrong = f"raise cannot name {node.error!r}: use ValueError or another of Python's errors"
            return raising(NameError, lambda: wrong)
        if node.message is None:

            def run(frame: Frame) -> Any:
                raise kind

            return Code(run)

        def run_with_message(frame: Frame, message: Any) -> Any:
            if isinstance(message, (*CONTAINERS, BaseException)):
                # As it is now: whoever reads the error later need not fear what it has become.
                message = made(frame, str(printable(frame, message)))
            raise kind(message)

        return strict([self.expression(node.message)], run_with_message)

    def _try(self, node: nodes.Try) -> Code:
        with self.deeper():
            guarded = self._guarded(node) if node.handlers else self.block(node.body)
        if not node.final:
            return guarded
        final = self.block(node.final)

        async def run(frame: Frame) -> Any:
            outer = frame.handling
            try:
                signal = await guarded.run(frame) if guarded.waits else guarded.run(frame)
            except BaseException as error:
                frame.handling = error
                try:
                    instead = await final.run(frame) if final.waits else final.run(frame)
                finally:
                    frame.handling = outer
                if instead is None:
                    raise
                return instead
            returned = frame.returned
            instead = await final.run(frame) if final.waits else final.run(frame)
            if instead is not None:
                return instead
            frame.returned = returned
            return signal

        return Code(run, waits=True)

    def _guarded(self, node: nodes.Try) -> Code:
        body = self.block(node.body)
        handlers = [
            _Handler(frozenset(caught_names(one.types)), one.name, self.block(one.body)) for one in node.handlers
        ]
        otherwise = self.block(node.otherwise) if node.otherwise else Code(_nothing)
        cost = STEPS_OF_A_FAILURE + len(handlers)

        async def run(frame: Frame) -> Any:
            try:
                signal = await body.run(frame) if body.waits else body.run(frame)
            except Exception as error:
                frame.execution.steps += cost
                found = next((one for one in handlers if catches(one.types, error)), None)
                if found is None:
                    raise
                _, name, handler = found
                outer, frame.handling = frame.handling, error
                if name is not None:
                    frame.names[name] = error
                try:
                    return await handler.run(frame) if handler.waits else handler.run(frame)
                finally:
                    frame.handling = outer
                    if name is not None:
                        frame.names.pop(name, None)
            if signal is not None:
                return signal
            return await otherwise.run(frame) if otherwise.waits else otherwise.run(frame)

        return Code(run, waits=True)

    def _parallel(self, node: nodes.Parallel) -> Code:
        branches = [self.branch(one) for one in node.branches]

        async def run(frame: Frame) -> None:
            frame.execution.charge(len(branches) * STEPS_OF_A_BRANCH, 1)
            before = frame.beside({**frame.names})
            await at_once([branch(before, frame) for branch in branches])

        return Code(run, waits=True)


def _plain_block(steps: list[tuple[Any, int, int]]) -> Any:
    def run_block(frame: Frame) -> Any:
        execution = frame.execution
        line = 0
        try:
            for step in steps:
                run, line, cost = step
                execution.steps += cost
                if execution.steps > MOST_STEPS:
                    raise OutOfSteps
                signal = run(frame)
                if signal is not None:
                    return signal
        except Exception as error:
            note_place(error, execution.name, line)
            raise
        return None

    return run_block


def _placed(test: Code, line: int) -> Code:
    """A test further down than its statement begins."""
    if test.waits:

        async def run_waiting(frame: Frame) -> Any:
            try:
                return await test.run(frame)
            except Exception as error:
                note_place(error, frame.execution.name, line)
                raise

        return Code(run_waiting, waits=True)

    def run(frame: Frame) -> Any:
        try:
            return test.run(frame)
        except Exception as error:
            note_place(error, frame.execution.name, line)
            raise

    return Code(run)


def _nothing(frame: Frame, *values: Any) -> None:
    return None


def _return_none(frame: Frame) -> str:
    frame.returned = None
    return RETURN


def _raise_again(frame: Frame) -> Any:
    assert frame.handling is not None  # noqa: S101 - elsewhere than in a handler it cannot be read
    raise frame.handling

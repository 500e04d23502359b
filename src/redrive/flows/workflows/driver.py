"""Run a flow's code, a workflow's or a script's, on its own event loop."""

import inspect
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from redrive.errors import DeserializationError, SignalRefusedError, UnknownHandlerError, WorkflowCodeError
from redrive.flows.action import action_named
from redrive.flows.child_events import ChildEnd
from redrive.flows.commands import AnswerUpdate, Command, ContinueRun, EndFlow, ScheduleItem, StartChild, StartTimer
from redrive.flows.driver import NO_ACTIONS, Driver
from redrive.flows.errors.item_error import as_exception
from redrive.flows.message_events import SignalWait
from redrive.flows.values.signature import NOT_READ, Signature
from redrive.flows.workflows.children import settle_child
from redrive.flows.workflows.fingerprint import fingerprint
from redrive.flows.workflows.handlers import Handler, Handlers
from redrive.flows.workflows.loop import FlowLoop
from redrive.flows.workflows.run_ends import RunEnds
from redrive.flows.workflows.workflow import Workflow
from redrive.near_names import did_you_mean


class FlowCode(Protocol):
    """The code that a CodeDriver runs, with its stored input."""

    def required_actions(self) -> frozenset[str]: ...

    def read_input(self) -> Any:
        """The decoded input; raises DeserializationError when it does not fit the code."""
        ...

    @property
    def handlers(self) -> Handlers: ...

    def call(self, values: Any) -> Coroutine[Any, Any, Any]:
        """The coroutine to run, for the decoded input."""
        ...

    def state(self) -> Any:
        """What the code knows between its turns."""
        ...

    def handle(self, handler: Handler, values: dict[str, Any]) -> Any:
        """Call one of the handlers with its decoded arguments, after `call`."""
        ...

    def read_result(self, step: str, result: str, read: Any) -> Any:
        """An action's result, as the code sees it. `read` is the decoded result, or NOT_READ."""
        ...

    def write_result(self, value: Any) -> str:
        """The value that the code returned, as it is stored."""
        ...


class CodeDriver(Driver):
    def __init__(self, flow_id: str, code: FlowCode, seed: str = "", signature: Signature | None = None) -> None:
        """seed: of what the code draws; the flow's id by default. signature: of the code, which may continue as new."""
        self._code = code
        self._loop = FlowLoop(flow_id, seed, signature)
        self._items = self._loop.awaited_items
        self._timers: dict[int, StartTimer] = {}
        self._children: dict[int, StartChild] = {}
        """Those that have not ended, by their numbers in the log."""
        self._ended = False
        self._main: Any = None
        self.has_more = False
        self._cancelled = False

    def start(self, at: float) -> list[Command]:
        values = self._code.read_input()
        self._loop.conditions.handled = tuple(self._code.handlers.signals)
        try:
            coroutine = self._code.call(values)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever __init__ raises fails the flow, not the worker
            return [EndFlow("failed", error=as_exception(error, "__init__"))]
        self._main = self._loop.create_task(coroutine, name="run", context=self._loop.context)
        return self._turn(at)

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        command = self._items.pop(item, None)
        if command is not None and not command.future.done():
            future = command.future
            future.command = None
            try:
                future.set_result(self._code.read_result(command.step, result, read))
            except DeserializationError as error:
                future.set_exception(error)
        return self._turn(at)

    def failed(self, item: int, error: BaseException, at: float) -> list[Command]:
        command = self._items.pop(item, None)
        if command is not None and not command.future.done():
            command.future.command = None
            command.future.set_exception(error)
        return self._turn(at)

    def resolved(self, item: int, at: float) -> list[Command]:
        command = self._items.pop(item, None)
        if command is not None and not command.future.done():
            command.future.command = None
            # None whatever the action's type hint says: there is no result.
            command.future.set_result(None)
        return self._turn(at)

    def fired(self, timer: int, at: float) -> list[Command]:
        command = self._timers.pop(timer, None)
        if command is not None:
            self._loop.fire(command)
        return self._turn(at)

    def child_ended(self, event: ChildEnd, at: float) -> list[Command]:
        command = self._children.pop(event.child, None)
        if command is not None:
            settle_child(command, event)
        return self._turn(at)

    def signalled(self, name: str, args: str, mailbox: bool, at: float) -> list[Command]:
        if mailbox:
            self._loop.conditions.mailbox.setdefault(name, deque()).append(msgspec.json.decode(args))
        else:
            handler = self._code.handlers.signals[name]
            values = handler.signature.read_arguments(args)
            self._loop.call_soon(self._code.handle, handler, values, context=self._loop.context)
        return self._turn(at)

    def updated(self, id: str, name: str, args: str, at: float) -> list[Command]:  # noqa: A002 - as the event calls it
        handler = self._code.handlers.updates[name]
        values = handler.signature.read_arguments(args)
        self._loop.create_task(self._answer(id, handler, values), context=self._loop.context)
        return self._turn(at)

    async def _answer(self, id: str, handler: Handler, values: dict[str, Any]) -> None:  # noqa: A002 - as above
        try:
            answer = self._code.handle(handler, values)
            if inspect.isawaitable(answer):
                answer = await answer
            command = AnswerUpdate(id, handler.name, handler.signature.write_result(answer))
        except Exception as error:  # noqa: BLE001 - the sender gets it
            command = AnswerUpdate(id, handler.name, error=error)
        self._loop.commands.append(command)

    def more(self, at: float) -> list[Command]:
        return self._turn(at)

    def cancel(self, at: float) -> list[Command]:
        self._cancelled = True
        self._main.cancel()
        return self._turn(at)

    def bind_item(self, command: ScheduleItem, item: int) -> None:
        command.item = item
        if not command.future.done():
            self._items[item] = command

    def bind_timer(self, command: StartTimer, timer: int) -> None:
        command.timer = timer
        self._timers[timer] = command

    def bind_child(self, command: StartChild, child: int, flow_id: str, at: float) -> list[Command]:
        command.child = child
        self._children[child] = command
        if not command.started.done():
            command.started.set_result(flow_id)
        # The code goes on in the same turn: it has the child's id now.
        return [] if self.has_more or self._ended else self._turn(at)

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        self._loop.replaying = patches is not None
        self._loop.anew = anew
        if patches is not None:
            self._loop.logged_patches = patches

    def discard(self) -> None:
        self._loop.discard()
        self._items.clear()
        self._children.clear()

    def awaits_timer(self, timer: int) -> bool:
        command = self._timers.get(timer)
        if command is not None and command.is_cancelled:
            del self._timers[timer]
        return command is not None and not command.is_cancelled

    def check_signal(self, name: str, args: str) -> bool:
        handler = self._code.handlers.signals.get(name)
        if handler is not None:
            try:
                handler.signature.read_arguments(args)
            except DeserializationError as error:
                raise SignalRefusedError(str(error)) from error
        return handler is None

    def misfit_of_update(self, name: str, args: str) -> str:
        handler = self._code.handlers.updates.get(name)
        if handler is None:
            known = list(self._code.handlers.updates)
            hint = did_you_mean(name, known, f"it has: {', '.join(known) or 'none'}")
            return f"the workflow has no update {name!r}; {hint}"
        try:
            handler.signature.read_arguments(args)
        except DeserializationError as error:
            return str(error)
        return ""

    def check_update(self, name: str, args: str) -> None:
        if why := self.misfit_of_update(name, args):
            raise SignalRefusedError(why)
        handler = self._code.handlers.updates[name]
        if handler.validator is not None:
            try:
                self._read_only(handler.validator, handler.signature.read_arguments(args))
            except Exception as error:
                raise SignalRefusedError(f"{type(error).__name__}: {error}") from error

    def query(self, name: str, args: str) -> str:
        handler = self._code.handlers.queries.get(name)
        if handler is None:
            known = list(self._code.handlers.queries)
            raise UnknownHandlerError("query", name, did_you_mean(name, known, f"it has: {', '.join(known) or 'none'}"))
        values = handler.signature.read_arguments(args)
        return handler.signature.write_result(self._read_only(handler, values))

    def _read_only(self, handler: Handler, values: dict[str, Any]) -> Any:
        """Call a handler that must change nothing; WorkflowCodeError when it does."""
        before = fingerprint(self._code.state())
        answer, starts = self._loop.read(lambda: self._code.handle(handler, values))
        if starts or fingerprint(self._code.state()) != before:
            what = "starts something" if starts else "changes what the workflow knows"
            raise WorkflowCodeError(f"the {handler.kind} {handler.name!r} {what}; it may only read")
        return answer

    @property
    def awaits_signals(self) -> bool:
        return bool(self._loop.conditions or self._code.handlers.signals or self._code.handlers.updates)

    def signal_waits(self) -> tuple[SignalWait, ...]:
        return self._loop.conditions.waits() if self._loop.conditions else ()

    def unread_signals(self) -> list[str]:
        return self._loop.conditions.unread()

    def required_actions(self) -> frozenset[str]:
        return self._code.required_actions()

    def _turn(self, at: float) -> list[Command]:
        loop = self._loop
        loop.now = at
        self.has_more = loop.turn()
        commands, loop.commands = loop.commands, []
        if self.has_more:
            return commands
        if self._main.done():
            self._ended = True
            commands.append(self._end())
        elif loop.trouble is not None:
            self._ended = True
            commands.append(EndFlow("failed", error=loop.trouble))
        return commands

    def _end(self) -> EndFlow | ContinueRun:
        main = self._main
        if main.cancelled():
            if self._cancelled:
                return EndFlow("cancelled")
            own = "run was cancelled by its own code, not by cancelling the flow: it awaited a task that was cancelled"
            return EndFlow("failed", error=RuntimeError(own))
        error = main.exception()
        if isinstance(error, RunEnds):
            # A flow that is being cancelled ends.
            return EndFlow("cancelled") if self._cancelled else ContinueRun(error.input, self._loop.conditions.left())
        if error is None:
            try:
                return EndFlow("completed", result=self._code.write_result(main.result()))
            except Exception as trouble:  # noqa: BLE001 - a result that cannot be stored fails the flow, not the worker
                error = trouble
        return EndFlow("failed", error=as_exception(error, "run"))


class WorkflowCode:
    """A workflow's `run` method, with the stored input of one flow."""

    __slots__ = ("_input", "_instance", "_workflow")

    def __init__(self, workflow: type[Workflow], input: str) -> None:  # noqa: A002 - as the record calls it
        self._workflow = workflow
        self._input = input

    def required_actions(self) -> frozenset[str]:
        return NO_ACTIONS

    def read_input(self) -> Any:
        return self._workflow.signature.read_arguments(self._input)

    @property
    def handlers(self) -> Handlers:
        return self._workflow.handlers

    def call(self, values: Any) -> Coroutine[Any, Any, Any]:
        self._instance = self._workflow()
        coroutine: Coroutine[Any, Any, Any] = self._workflow.signature.call_with(self._instance.run, values)
        return coroutine

    def state(self) -> Any:
        return vars(self._instance)

    def handle(self, handler: Handler, values: dict[str, Any]) -> Any:
        return handler.signature.call_with(getattr(self._instance, handler.method), values)

    def read_result(self, step: str, result: str, read: Any) -> Any:
        return action_named(step).signature.read_result(result) if read is NOT_READ else read

    def write_result(self, value: Any) -> str:
        return self._workflow.signature.write_result(value)


def workflow_driver(
    workflow: type[Workflow],
    flow_id: str,
    input: str,  # noqa: A002 - as above
    seed: str = "",
) -> CodeDriver:
    return CodeDriver(flow_id, WorkflowCode(workflow, input), seed, workflow.signature)

"""A definition at work, without I/O: each event that matters to it lets it go on, and it answers with what it asks for.

Four of them: a workflow's code on its own loop, a script on the same loop, a single action, and a graph of steps.
"""

import zlib
from collections.abc import Coroutine
from typing import Any, Protocol

from redrive.determinism.dice import Dice, seeded_dice, seeded_random
from redrive.flows.action import Action, Executor
from redrive.flows.commands import Command, EndFlow, ScheduleItem, StartTimer
from redrive.flows.failed_item import as_exception
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.job import read_job
from redrive.flows.loop import FlowLoop
from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW, UnknownDefinition, action_named, workflow_named
from redrive.flows.stored_policy import read_stored_policy
from redrive.flows.values import NOT_READ, NotReadable
from redrive.flows.workflow import Workflow


class Driver(Protocol):
    """`at` is the time of the event, in epoch seconds. Each answer is what the code asks for, in order."""

    def start(self, at: float) -> list[Command]: ...

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        """`read`: what reading the result as the handler's gives, where that is known already."""
        ...

    def failed(self, item: int, error: BaseException, at: float) -> list[Command]: ...

    def resolved(self, item: int, at: float) -> list[Command]:
        """Someone settled the item by hand, without a result."""
        ...

    def dropped(self, item: int, at: float) -> list[Command]:
        """The item was cancelled, as was asked for with `lets_run`."""
        ...

    def fired(self, timer: int, at: float) -> list[Command]: ...

    def cancel(self, at: float) -> list[Command]: ...

    def bind_item(self, command: ScheduleItem, item: int) -> None:
        """The item that was asked for has this number in the log."""
        ...

    def bind_timer(self, command: StartTimer, timer: int) -> None: ...

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        """What follows happened before; `patches` were true then. None: from now on it happens for the first time.

        `anew`: what follows is answered anew, and may ask for other things.
        """
        ...

    def awaits_timer(self, timer: int) -> bool: ...

    def wants(self, item: int) -> bool:
        """Whether the outcome of the item still matters."""
        ...

    # How items are carried out

    def needs(self) -> frozenset[str]:
        """The actions that it may ask for, where that is known before it begins."""
        ...

    def handler(self, step: str) -> "Handler":
        """UnknownDefinition when this process has no such thing."""
        ...

    def executor(self, step: str) -> Executor: ...

    def at_once(self, step: str) -> int | None:
        """How many items of the step may run at once in this flow; None: any number."""
        ...

    def dependency(self, step: str) -> str | None:
        """What the step talks to, where that was said."""
        ...

    def accept(self, item: int, result: str) -> str:
        """What the item's handler gave, as the log keeps it; ValueError when it cannot be used."""
        ...

    def discard(self) -> None: ...


Handler = Action[Any, Any] | HttpHandler
NOTHING_KNOWN: frozenset[str] = frozenset()


def driver_for(definition: str, flow_id: str, input: str) -> Driver:  # noqa: A002 - what a flow is started with
    """The driver for a flow; UnknownDefinition when this process does not know what it runs."""
    if definition.startswith(WORKFLOW):
        return WorkflowDriver(workflow_named(definition.removeprefix(WORKFLOW)), flow_id, input)
    if definition.startswith(GRAPH):
        # Loaded here: it builds on this module.
        from redrive.flows.graph_driver import GraphDriver

        return GraphDriver(input)
    if definition.startswith(SCRIPT):
        from redrive.flows.script_driver import ScriptDriver

        return ScriptDriver(definition.removeprefix(SCRIPT), flow_id, input)
    return ActionDriver(definition.removeprefix(ACTION), input)


class ActionItems:
    """Items that are actions, each by its name."""

    __slots__ = ()

    def needs(self) -> frozenset[str]:
        return NOTHING_KNOWN

    def handler(self, step: str) -> Handler:
        return action_named(step)

    def executor(self, step: str) -> Executor:
        try:
            return action_named(step).executor
        except UnknownDefinition:
            # It will be told so when it is begun.
            return "loop"

    def at_once(self, step: str) -> int | None:
        return None

    def dependency(self, step: str) -> str | None:
        return None

    def accept(self, item: int, result: str) -> str:
        return result

    def wants(self, item: int) -> bool:
        return True

    def dropped(self, item: int, at: float) -> list[Command]:
        return []


class CodeDriver(ActionItems):
    """Runs a flow's code on its own loop."""

    def __init__(self, flow_id: str, input: str) -> None:  # noqa: A002 - see above
        self.id = flow_id
        self._input = input
        self._loop = FlowLoop(zlib.crc32(flow_id.encode()), self._dice)
        self._loop.flow = self
        self._random: Any = None
        self._seeded: Dice | None = None
        self._main: Any = None
        self._cancelled = False
        self._items: dict[int, ScheduleItem] = {}
        self._timers: dict[int, StartTimer] = {}

    def _dice(self) -> float:
        """Seeded when first thrown: few flows do, and seeding costs more than a step."""
        if self._seeded is None:
            self._seeded = seeded_dice(self.id)
        return self._seeded()

    @property
    def random(self) -> Any:
        if self._random is None:
            self._random = seeded_random(self.id)
        return self._random

    def read_input(self) -> Any:
        """What the code is called with; NotReadable when the input does not fit it."""
        raise NotImplementedError

    def called(self, values: Any) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    def read_result(self, step: str, result: str, read: Any) -> Any:
        """What an action gave, as the code sees it. `read` is as for `completed`."""
        raise NotImplementedError

    def write_result(self, value: Any) -> str:
        """What the code gave, as it is stored."""
        raise NotImplementedError

    def start(self, at: float) -> list[Command]:
        loop = self._loop
        # NotReadable is for the engine to handle: the code has not begun.
        values = self.read_input()
        try:
            coroutine = self.called(values)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - what its __init__ raises fails the flow, not the worker
            return [EndFlow("failed", error=as_exception(error, "__init__"))]
        self._main = loop.create_task(coroutine, name="run", context=loop.context)
        return self._turn(at)

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        command = self._items.pop(item, None)
        if command is not None and not command.future.done():
            future = command.future
            future.command = None
            try:
                future.set_result(self.read_result(command.step, result, read))
            except NotReadable as error:
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
            # Not read as what the action gives: there is no result.
            command.future.set_result(None)
        return self._turn(at)

    def fired(self, timer: int, at: float) -> list[Command]:
        command = self._timers.pop(timer, None)
        if command is not None:
            self._loop.fire(command)
        return self._turn(at)

    def cancel(self, at: float) -> list[Command]:
        self._cancelled = True
        self._main.cancel()
        return self._turn(at)

    def bind_item(self, command: ScheduleItem, item: int) -> None:
        command.item = item
        if not command.future.done():
            self._items[item] = command

    def forget_item(self, command: ScheduleItem) -> None:
        """Its outcome reaches nobody any more."""
        self._items.pop(command.item, None)

    def bind_timer(self, command: StartTimer, timer: int) -> None:
        command.timer = timer
        self._timers[timer] = command

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        self._loop.replaying = patches is not None
        self._loop.anew = anew
        if patches is not None:
            self._loop.logged_patches = patches

    def awaits_timer(self, timer: int) -> bool:
        command = self._timers.get(timer)
        if command is not None and command.is_cancelled:
            del self._timers[timer]
        return command is not None and not command.is_cancelled

    def discard(self) -> None:
        self._loop.discard()
        self._items.clear()

    def _turn(self, at: float) -> list[Command]:
        loop = self._loop
        loop.now = at
        loop.turn()
        commands, loop.commands = loop.commands, []
        main = self._main
        if main.done():
            commands.append(self._end())
        elif loop.trouble is not None:
            commands.append(EndFlow("failed", error=loop.trouble))
        return commands

    def _end(self) -> EndFlow:
        main = self._main
        if main.cancelled():
            if self._cancelled:
                return EndFlow("cancelled")
            own = "run was cancelled by its own code, not by cancelling the flow: it awaited a task that was cancelled"
            return EndFlow("failed", error=RuntimeError(own))
        error = main.exception()
        if error is None:
            try:
                return EndFlow("completed", result=self.write_result(main.result()))
            except Exception as trouble:  # noqa: BLE001 - a result that cannot be stored fails the flow, not the worker
                error = trouble
        return EndFlow("failed", error=as_exception(error, "run"))


class WorkflowDriver(CodeDriver):
    """Runs a workflow's code."""

    def __init__(self, workflow: type[Workflow], flow_id: str, input: str) -> None:  # noqa: A002 - see above
        super().__init__(flow_id, input)
        self._workflow = workflow

    def read_input(self) -> Any:
        return self._workflow.signature.read_arguments(self._input)

    def called(self, values: Any) -> Coroutine[Any, Any, Any]:
        coroutine: Coroutine[Any, Any, Any] = self._workflow.signature.call_with(self._workflow().run, values)
        return coroutine

    def read_result(self, step: str, result: str, read: Any) -> Any:
        return action_named(step).signature.read_result(result) if read is NOT_READ else read

    def write_result(self, value: Any) -> str:
        return self._workflow.signature.write_result(value)


class ActionDriver(ActionItems):
    """Runs one action: a background job."""

    __slots__ = ("_action", "_input")

    def __init__(self, action: str, input: str) -> None:  # noqa: A002 - see above
        self._action = action_named(action).name
        self._input = input

    def start(self, at: float) -> list[Command]:
        job = read_job(self._input)
        return [ScheduleItem(self._action, bytes(job.args).decode(), None, read_stored_policy(job.policy), None, "")]

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        return [EndFlow("completed", result=result)]

    def failed(self, item: int, error: BaseException, at: float) -> list[Command]:
        return [EndFlow("failed", error=error)]

    def resolved(self, item: int, at: float) -> list[Command]:
        return [EndFlow("completed", result="null")]

    def fired(self, timer: int, at: float) -> list[Command]:
        return []

    def cancel(self, at: float) -> list[Command]:
        return [EndFlow("cancelled")]

    def bind_item(self, command: ScheduleItem, item: int) -> None:
        command.item = item

    def bind_timer(self, command: StartTimer, timer: int) -> None:
        pass

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        pass

    def awaits_timer(self, timer: int) -> bool:
        return False

    def discard(self) -> None:
        pass

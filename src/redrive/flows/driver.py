"""A definition at work, without I/O: each event that matters to it lets it go on, and it answers with what it asks for.

Four of them: a workflow's code on its own loop, a script on the same loop, a single action, and a graph of steps.
"""

import zlib
from collections.abc import Coroutine
from typing import Any, Protocol

from redrive.determinism.dice import Dice, seeded_dice, seeded_random
from redrive.errors import DeserializationError, UnknownDefinitionError
from redrive.flows.action import Action, Place
from redrive.flows.asks import Ask, EndAsk, ItemAsk, TimerAsk
from redrive.flows.failed_item import as_exception
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.job import read_job
from redrive.flows.loop import FlowLoop
from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW, action_named, workflow_named
from redrive.flows.stored_policy import read_stored_policy
from redrive.flows.values import NOT_READ
from redrive.flows.workflow import Workflow


class Driver(Protocol):
    """`at` is the time of the event, in epoch seconds. Each answer is what the code asks for, in order."""

    def start(self, at: float) -> list[Ask]: ...

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Ask]:
        """`read`: what reading the result as the handler's gives, where that is known already."""
        ...

    def failed(self, item: int, error: BaseException, at: float) -> list[Ask]: ...

    def resolved(self, item: int, at: float) -> list[Ask]:
        """Someone settled the item by hand, without a result."""
        ...

    def dropped(self, item: int, at: float) -> list[Ask]:
        """The item was cancelled, as was asked for with `lets_run`."""
        ...

    def fired(self, timer: int, at: float) -> list[Ask]: ...

    def cancel(self, at: float) -> list[Ask]: ...

    def bind_item(self, ask: ItemAsk, item: int) -> None:
        """The item that was asked for has this number in the log."""
        ...

    def bind_timer(self, ask: TimerAsk, timer: int) -> None: ...

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
        """UnknownDefinitionError when this process has no such thing."""
        ...

    def place(self, step: str) -> Place: ...

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
    """The driver for a flow; UnknownDefinitionError when this process does not know what it runs."""
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

    def place(self, step: str) -> Place:
        try:
            return action_named(step).place
        except UnknownDefinitionError:
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

    def dropped(self, item: int, at: float) -> list[Ask]:
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
        self._items: dict[int, ItemAsk] = {}
        self._timers: dict[int, TimerAsk] = {}

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
        """What the code is called with; DeserializationError when the input does not fit it."""
        raise NotImplementedError

    def called(self, values: Any) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    def read_result(self, step: str, result: str, read: Any) -> Any:
        """What an action gave, as the code sees it. `read` is as for `completed`."""
        raise NotImplementedError

    def write_result(self, value: Any) -> str:
        """What the code gave, as it is stored."""
        raise NotImplementedError

    def start(self, at: float) -> list[Ask]:
        loop = self._loop
        # DeserializationError is for the engine to handle: the code has not begun.
        values = self.read_input()
        try:
            coroutine = self.called(values)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - what its __init__ raises fails the flow, not the worker
            return [EndAsk("failed", error=as_exception(error, "__init__"))]
        self._main = loop.create_task(coroutine, name="run", context=loop.context)
        return self._turn(at)

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Ask]:
        ask = self._items.pop(item, None)
        if ask is not None and not ask.future.done():
            future = ask.future
            future.ask = None
            try:
                future.set_result(self.read_result(ask.step, result, read))
            except DeserializationError as error:
                future.set_exception(error)
        return self._turn(at)

    def failed(self, item: int, error: BaseException, at: float) -> list[Ask]:
        ask = self._items.pop(item, None)
        if ask is not None and not ask.future.done():
            ask.future.ask = None
            ask.future.set_exception(error)
        return self._turn(at)

    def resolved(self, item: int, at: float) -> list[Ask]:
        ask = self._items.pop(item, None)
        if ask is not None and not ask.future.done():
            ask.future.ask = None
            # Not read as what the action gives: there is no result.
            ask.future.set_result(None)
        return self._turn(at)

    def fired(self, timer: int, at: float) -> list[Ask]:
        ask = self._timers.pop(timer, None)
        if ask is not None:
            self._loop.fire(ask)
        return self._turn(at)

    def cancel(self, at: float) -> list[Ask]:
        self._cancelled = True
        self._main.cancel()
        return self._turn(at)

    def bind_item(self, ask: ItemAsk, item: int) -> None:
        ask.item = item
        if not ask.future.done():
            self._items[item] = ask

    def forget_item(self, ask: ItemAsk) -> None:
        """Its outcome reaches nobody any more."""
        self._items.pop(ask.item, None)

    def bind_timer(self, ask: TimerAsk, timer: int) -> None:
        ask.timer = timer
        self._timers[timer] = ask

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        self._loop.replaying = patches is not None
        self._loop.anew = anew
        if patches is not None:
            self._loop.logged_patches = patches

    def awaits_timer(self, timer: int) -> bool:
        ask = self._timers.get(timer)
        if ask is not None and ask.is_cancelled:
            del self._timers[timer]
        return ask is not None and not ask.is_cancelled

    def discard(self) -> None:
        self._loop.discard()
        self._items.clear()

    def _turn(self, at: float) -> list[Ask]:
        loop = self._loop
        loop.now = at
        loop.turn()
        asks, loop.asks = loop.asks, []
        main = self._main
        if main.done():
            asks.append(self._end())
        elif loop.trouble is not None:
            asks.append(EndAsk("failed", error=loop.trouble))
        return asks

    def _end(self) -> EndAsk:
        main = self._main
        if main.cancelled():
            if self._cancelled:
                return EndAsk("cancelled")
            own = "run was cancelled by its own code, not by cancelling the flow: it awaited a task that was cancelled"
            return EndAsk("failed", error=RuntimeError(own))
        error = main.exception()
        if error is None:
            try:
                return EndAsk("completed", result=self.write_result(main.result()))
            except Exception as trouble:  # noqa: BLE001 - a result that cannot be stored fails the flow, not the worker
                error = trouble
        return EndAsk("failed", error=as_exception(error, "run"))


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

    def start(self, at: float) -> list[Ask]:
        job = read_job(self._input)
        return [ItemAsk(self._action, bytes(job.args).decode(), None, read_stored_policy(job.policy), None, "")]

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Ask]:
        return [EndAsk("completed", result=result)]

    def failed(self, item: int, error: BaseException, at: float) -> list[Ask]:
        return [EndAsk("failed", error=error)]

    def resolved(self, item: int, at: float) -> list[Ask]:
        return [EndAsk("completed", result="null")]

    def fired(self, timer: int, at: float) -> list[Ask]:
        return []

    def cancel(self, at: float) -> list[Ask]:
        return [EndAsk("cancelled")]

    def bind_item(self, ask: ItemAsk, item: int) -> None:
        ask.item = item

    def bind_timer(self, ask: TimerAsk, timer: int) -> None:
        pass

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        pass

    def awaits_timer(self, timer: int) -> bool:
        return False

    def discard(self) -> None:
        pass

"""Child flows, as the code of a workflow sees them."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, Literal, TypeVar

import msgspec

from redrive.errors import ChildFailedError, DeserializationError, FlowCancelledError, FlowFinishedError
from redrive.flows.action import ActionCall
from redrive.flows.child_events import ChildCompleted, ChildEnd, ChildFailed
from redrive.flows.commands import CancelChild, SignalChild, StartChild
from redrive.flows.errors.item_error import mark_child
from redrive.flows.flow_call import FlowCall
from redrive.flows.flow_input import input_of
from redrive.flows.start_settings import check_key, check_priority, check_queue
from redrive.flows.stored_inputs import start_arguments
from redrive.flows.workflows.loop import FlowLoop
from redrive.flows.workflows.signal_arguments import signal_arguments

T_co = TypeVar("T_co", covariant=True)

ParentClose = Literal["cancel", "abandon"]
"""What happens to a child when its parent ends."""


class ChildHandle(Generic[T_co]):
    """A child flow: `await child.result()`, or `await child`; `child.cancel()`; `child.id`."""

    __slots__ = ("_command", "_loop", "id")

    def __init__(self, loop: FlowLoop, command: StartChild, flow_id: str) -> None:
        self.id = flow_id
        """The id of the child, a flow like any other."""
        self._loop = loop
        self._command = command

    async def result(self) -> T_co:
        """The child's result; ChildFailedError when it failed, FlowCancelledError when it was cancelled.

        Ending this wait does not end the child: `cancel()` does.
        """
        ended = self._command.ended
        if not ended.done():
            await asyncio.wait([ended])
        result: T_co = ended.result()
        return result

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self.result().__await__()

    async def signal(self, signal: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Send the child a signal: `await child.signal("approved", by="ann")`.

        It is sent in the transaction that logs it, and dropped where the child ends first. FlowFinishedError when this
        flow knows that the child has ended.

        signal: its name; or the @signal method, `Order.approved`, whose type hints then check the arguments.
        """
        name, arguments = signal_arguments(signal, args, kwargs)
        if self._command.ended.done():
            raise FlowFinishedError(self.id, _how_ended(self._command.ended))
        self._loop.commands.append(SignalChild(self._command.child, name, arguments, self._loop.where()))

    def cancel(self) -> None:
        """Ask the child to end. Its code may still clean up; `result()` then raises FlowCancelledError."""
        self._loop.commands.append(CancelChild(self._command.child, self._loop.where()))

    def __repr__(self) -> str:
        return f"<child {self.id} of {self._loop.flow_id}>"


async def start_child(
    loop: FlowLoop,
    call: ActionCall[T_co] | FlowCall[T_co],
    key: str | None,
    queue: str | None,
    priority: int | None,
    parent_close: ParentClose,
) -> ChildHandle[T_co]:
    given = input_of(call, "workflow.start_child")
    check_key(key)
    if queue is not None:
        check_queue(queue)
    if priority is not None:
        check_priority(priority)
    if parent_close not in ("cancel", "abandon"):
        raise ValueError(f'parent_close: {parent_close!r} is not allowed; use "cancel" or "abandon"')
    command = StartChild(
        definition=given.definition,
        input=given.text,
        args=start_arguments(given.definition, given.text),
        key=key,
        queue=queue,
        priority=priority,
        abandoned=parent_close == "abandon",
        read_result=given.read_result,
        started=loop.create_future(),
        ended=loop.create_future(),
        where=loop.where(),
    )
    loop.commands.append(command)
    return ChildHandle(loop, command, await command.started)


def settle_child(command: StartChild, event: ChildEnd) -> None:
    """Hand the end of a child to the code that awaits it."""
    ended = command.ended
    if isinstance(event, ChildCompleted):
        try:
            ended.set_result((command.read_result or msgspec.json.decode)(bytes(event.result).decode()))
            return
        except DeserializationError as error:
            ended.set_exception(error)
    else:
        ended.set_exception(child_error(command, event))
    # Code that does not await the child does not care how it ended.
    ended.exception()


def _how_ended(ended: Any) -> str:
    error = ended.exception()
    return "completed" if error is None else "cancelled" if isinstance(error, FlowCancelledError) else "failed"


def child_error(command: StartChild, event: ChildEnd) -> Exception:
    flow_id = command.started.result()
    if isinstance(event, ChildFailed):
        error: Exception = ChildFailedError(flow_id, command.definition, event.error, event.message)
        mark_child(error, event.child)
        return error
    return FlowCancelledError(flow_id, getattr(event, "why", ""))

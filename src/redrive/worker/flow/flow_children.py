"""What a flow sends to its relations: it starts and cancels its children, and tells its parent how it ended."""

from collections.abc import Iterable, Iterator

import msgspec

from redrive.determinism.ids import derived_id
from redrive.flows.child_events import ChildCancelRequested, ChildSignalled, ChildStarted
from redrive.flows.children import Child
from redrive.flows.commands import CancelChild, Command, SignalChild, StartChild
from redrive.flows.driver import Driver
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.messages import Cancel, ChildEnded, Message, Redrive, Signal, write_message
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.records import NewFlow
from redrive.stores.sent import Sent
from redrive.worker.flow.flow_log import FlowLog

DEEPEST = 100
"""How many flows may stand above a child, each the parent of the next."""
Ending = FlowCompleted | FlowFailed | FlowCancelled


def start_child(log: FlowLog, driver: Driver, command: StartChild, at: float) -> list[Command]:
    """Log the child, and add it in the same transaction. Returns the commands that follow."""
    record, number = log.record, log.history.children.last + 1
    flow_id = derived_id(at, f"{log.flow_id}/{number}")
    log.append(
        at,
        ChildStarted(
            child=number,
            flow=flow_id,
            definition=command.definition,
            args=msgspec.Raw(command.args.encode()),
            key=command.key,
            abandoned=command.abandoned,
        ),
    )
    if record.depth >= DEEPEST:
        why = f"{DEEPEST} flows stand above it, each the parent of the next; does a child start itself again?"
        _send(log, log.flow_id, at, ChildEnded(flow=flow_id, outcome="refused", message=why))
    else:
        _add(log, command, flow_id, at)
    return driver.bind_child(command, number, flow_id, at)


def _add(log: FlowLog, command: StartChild, flow_id: str, at: float) -> None:
    record = log.record
    taken = f"its key {command.key!r} belongs to another flow of {command.definition}; use a key of its own"
    child = NewFlow(
        id=flow_id,
        definition=command.definition,
        input=command.input,
        created_at=at,
        start_at=at,
        queue=record.queue if command.queue is None else command.queue,
        priority=record.priority if command.priority is None else command.priority,
        key=command.key,
        traceparent=record.traceparent,
        parent=log.flow_id,
        depth=record.depth + 1,
    )
    refusal = ChildEnded(flow=flow_id, outcome="refused", message=taken)
    log.journal.add_child(child, write_message(refusal))


def cancel_child(log: FlowLog, command: CancelChild, at: float) -> None:
    log.append(at, ChildCancelRequested(child=command.child))
    child = log.history.children.by_number.get(command.child)
    if child is not None and child.state == "open":
        _send(log, child.flow, at, Cancel(by="its parent", why=f"flow {log.flow_id} asked for it"))


def signal_child(log: FlowLog, command: SignalChild, at: float) -> None:
    args = msgspec.Raw(command.args.encode())
    log.append(at, ChildSignalled(child=command.child, signal=command.signal, args=args))
    child = log.history.children.by_number.get(command.child)
    if child is not None and child.state == "open":
        signal_id = derived_id(at, f"{log.flow_id}/signal/{log.seq}")
        _send(log, child.flow, at, Signal(id=signal_id, name=command.signal, args=args, by="its parent"))


def end_messages(
    flow_id: str, parent: str | None, children: Iterable[Child], event: Ending, at: float
) -> Iterator[Sent]:
    """What a flow that ends with this event sends: to the children that are not to outlive it, and to its parent."""
    yield from close_messages(flow_id, children, _HOW[type(event)], at)
    if parent is not None:
        yield Sent(flow_id, parent, at, write_message(_end_message(flow_id, event)))


def close_messages(flow_id: str, children: Iterable[Child], how: str, at: float) -> Iterator[Sent]:
    """What cancels the children that are not to outlive the flow, or its run."""
    request = write_message(Cancel(by="its parent", why=f"flow {flow_id} {how}"))
    for child in children:
        if not child.abandoned:
            yield Sent(flow_id, child.flow, at, request)


def redrive_child(log: FlowLog, flow_id: str, said: Message, at: float) -> None:
    """Redrive a failed child along with its parent."""
    _send(log, flow_id, at, Redrive(by=said.by, why=said.why, with_parent=True), reopens=True)


def cancel_orphan(log: FlowLog, flow_id: str, at: float) -> None:
    """Cancel a child that a redrive of its parent rewound."""
    _send(log, flow_id, at, Cancel(by="its parent", why=f"a redrive of flow {log.flow_id} rewound its start"))


def _end_message(flow_id: str, event: Ending) -> ChildEnded:
    """What a parent is told when its child ends with this event."""
    if isinstance(event, FlowCompleted):
        result = event.result if len(bytes(event.result)) <= LARGE_JSON else msgspec.UNSET
        return ChildEnded(flow=flow_id, outcome="completed", result=result)
    if isinstance(event, FlowFailed):
        error = event.error.type.removeprefix("builtins.")
        return ChildEnded(flow=flow_id, outcome="failed", error=error, message=event.error.message)
    return ChildEnded(flow=flow_id, outcome="cancelled", message=event.why)


_HOW: dict[type, str] = {FlowCompleted: "completed", FlowFailed: "failed", FlowCancelled: "was cancelled"}


def _send(
    log: FlowLog, flow_id: str, at: float, message: Cancel | ChildEnded | Redrive | Signal, reopens: bool = False
) -> None:
    log.journal.send(Sent(log.flow_id, flow_id, at, write_message(message), reopens))

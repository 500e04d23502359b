"""Redrive failed flows and items: rewind their failures in the log, so that they are retried or resolved manually."""

import logging
from collections.abc import Generator, Mapping

import msgspec
from msgspec import UNSET

from redrive.flows.child_events import ChildFailed, ChildStarted
from redrive.flows.events import AnyEvent, AttemptFailed, FlowFailed, ItemGaveUp, Line, Redriven, is_activation
from redrive.flows.history import FlowHistory, fold_in_chunks
from redrive.flows.item import Item
from redrive.flows.messages import AnyMessage, ManualResolution, Redrive, Signal
from redrive.flows.registry import GRAPH
from redrive.flows.rewind import Rewind, rewind_in_chunks
from redrive.stores.records import Message
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.flow_children import cancel_orphan, redrive_child
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.manual_resolution import Outcome, redriven
from redrive.worker.flow.signals import keep
from redrive.worker.inbox import read, take


def may_be_reopened(event: AnyEvent, items: Mapping[int, Item]) -> bool:
    """Whether a flow that ended with this event can be redriven: not when all its work was compensated."""
    return isinstance(event, FlowFailed) and (event.kind != "compensated" or bool(failed_compensations(items)))


def failed_compensations(items: Mapping[int, Item]) -> list[int]:
    """The items that failed to compensate others. A redrive continues the compensation with them."""
    return [item.number for item in items.values() if item.compensates and item.state == "failed"]


def comes_too_late(said: AnyMessage | None, items: dict[int, Item]) -> bool:
    """Whether the message is about an item that was settled before the message was read."""
    item = items.get(said.item) if isinstance(said, ManualResolution) else None
    return item is not None and item.state in ("completed", "cancelled")


def reopen(
    run: FlowRun, lines: list[Line], before: FlowHistory, messages: list[Message]
) -> Generator[None, None, bool]:
    """Redrive a failed flow if a message requests it, by appending to its log; return False if none does.

    before: the state of the flow by its log.
    """
    known = before.items
    failed = next((line for line in reversed(lines) if isinstance(line.event, FlowFailed)), None)
    rewind = yield from rewind_in_chunks(lines)
    for message in list(messages):
        # Taken even if it is applied later: the flow may fail again before, and must not be reopened by it then.
        _take(run, messages, message)
        said = read(message)
        if isinstance(said, Signal):
            if (signal := keep(run.log, before, said)) is not None:
                lines.append(Line(run.log.seq, run.log.last_at, signal))
        elif comes_too_late(said, known):
            log_flow(logging.WARNING, run.id, "it has failed; a message about a settled step does not reopen it")
        elif (
            isinstance(said, Redrive | ManualResolution)
            and failed is not None
            and isinstance(failed.event, FlowFailed)
            and may_be_reopened(failed.event, known)
        ):
            if failed.event.kind == "compensated":
                _reopen_compensation(run, lines, failed_compensations(known), said)
                return True
            items: list[int | None] = [failed.event.item]
            all_failed = [item.number for item in known.values() if item.state == "failed"]
            if run.log.record.definition.startswith(GRAPH):
                # Every failed item of a graph keeps it from its goals, or will.
                items = [*all_failed] or items
            elif isinstance(said, ManualResolution) and said.item in all_failed:
                # The flow's code may have handled this failure, so that another one ended the flow.
                items = [said.item, *(item for item in items if item not in (None, said.item))]
            if isinstance(said, Outcome) and said.item not in items and said.item in known and known[said.item].is_open:
                items.append(said.item)
            failures = _Failures(run, lines, rewind, failed.seq)
            if failed.event.child is not None and items == [None]:
                failures.redrive_child(failed.event.child, said)
                items = []
            for item in items:
                # An item scheduled only because another one failed is rewound together with that failure.
                if item not in failures.rewind.items:
                    failures.redrive(item, said, midway=item != items[0])  # the first reopens the flow
            failures.cancel_orphans()
            return True
    return False


def _reopen_compensation(run: FlowRun, lines: list[Line], items: list[int], said: Redrive | ManualResolution) -> None:
    """Try failed compensations again. What was compensated stays so, since nothing is rewound."""
    at = run.log.now()
    for number in items:
        event = redriven(said, number, run.log.seq + 1, midway=number != items[0])
        event = msgspec.structs.replace(event, compensation=True)
        run.log.append_applied(at, event)
        lines.append(Line(run.log.seq, at, event))


def redrive_items(run: FlowRun, lines: list[Line], messages: list[Message]) -> Generator[None, None, None]:
    """Redrive failed items of a flow that goes on, where messages reset, complete or resolve them."""
    words = [(message, said) for message in messages if isinstance(said := read(message), ManualResolution)]
    if not words:
        return
    items = (yield from fold_in_chunks(lines)).items
    is_compensating = any(item.compensates for item in items.values())
    failed = {item.number for item in items.values() if item.state == "failed"}
    # Items that gave up because nothing needed them may be needed again.
    unneeded = [number for number in sorted(failed) if _was_unneeded(items[number])]
    failures = _Failures(run, lines, (yield from rewind_in_chunks(lines)), run.log.seq + 1)
    rewound_before = frozenset(failures.rewind.items)
    for message, said in words:
        if said.item not in failed or said.item in failures.rewind.items:
            continue
        _take(run, messages, message)
        if is_compensating:
            # Completed work is being compensated: going on from here would be wrong.
            continue
        for number in dict.fromkeys((said.item, *unneeded)):
            failed.discard(number)
            if number not in failures.rewind.items:
                failures.redrive(number, said, midway=True)
        unneeded = []
    failures.cancel_orphans()
    for number in failures.rewind.items - rewound_before:
        # Rewound items wait for nothing any more.
        run.log.journal.drop_retry(run.id, number)


def _was_unneeded(item: Item) -> bool:
    return item.gave_up is not None and item.gave_up.kind == "abandoned"


def _take(run: FlowRun, messages: list[Message], message: Message) -> None:
    messages.remove(message)
    take(run, message)


class _Failures:
    """Where the items of a log failed, before line `end`. Redriving one appends a line to the log."""

    def __init__(self, run: FlowRun, lines: list[Line], rewind: Rewind, end: int) -> None:
        self.rewind = rewind
        self._run = run
        self._lines = lines
        self._at = run.log.now()
        self._end = end
        self._rewound_children = frozenset(rewind.children)
        self._children: dict[int, str] = {}
        """The ids of children by number, and where they failed last."""
        self._failed_children: dict[int, Line] = {}
        self._last: dict[int | None, Line] = {}
        """The last failure by item; under None, the last turn of the flow's code."""
        for line in lines:
            event = line.event
            if line.seq < end and line.seq not in self.rewind.lines and is_activation(event):
                self._last[None] = line
                if isinstance(event, AttemptFailed | ItemGaveUp):
                    self._last[event.item] = line
                elif isinstance(event, ChildFailed) and event.error:
                    self._failed_children[event.child] = line
            if isinstance(event, ChildStarted):
                self._children[event.child] = event.flow

    def redrive(self, item: int | None, said: Redrive | ManualResolution, midway: bool) -> None:
        """Replay the log anew from the item's failure on, or from the turn in which the flow's code failed."""
        failure = self._last.get(item)
        if failure is not None:
            since, details = failure.seq, getattr(failure.event, "details", UNSET)
        else:
            since, details = 0 if item is None else self._end, UNSET
        self._append(redriven(said, item, since, midway, details))

    def redrive_child(self, child: int, said: Redrive | ManualResolution) -> None:
        """Redrive the child that ended the flow with its failure, and await it again."""
        failure = self._failed_children.get(child)
        if failure is None:
            # A child that was not started: the flow's code must do something else.
            self.redrive(None, said, midway=False)
            return
        self._append(msgspec.structs.replace(redriven(said, None, failure.seq, midway=False), child=child))
        redrive_child(self._run.log, self._children[child], said, self._at)

    def cancel_orphans(self) -> None:
        """Cancel the children that were started only because of what is rewound now."""
        for number, flow_id in self.rewind.children.items():
            if number not in self._rewound_children:
                cancel_orphan(self._run.log, flow_id, self._at)

    def _append(self, event: Redriven) -> None:
        self._run.log.append_applied(self._at, event)
        line = Line(self._run.log.seq, self._at, event)
        self._lines.append(line)
        self.rewind.read(line)

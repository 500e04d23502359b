"""Undo failures in a flow's log, where a message says so: what failed is tried again, or settled by hand."""

import logging
from collections.abc import Generator

from msgspec import UNSET

from redrive.flows.events import AnyEvent, AttemptFailed, FlowFailed, ItemGaveUp, Line, is_activation
from redrive.flows.history import Item, fold_in_chunks
from redrive.flows.messages import AnyMessage, ManualResolution, Redrive
from redrive.flows.registry import GRAPH
from redrive.flows.rewind import Rewind, rewind_in_chunks
from redrive.stores.records import Message
from redrive.worker.flow_run import FlowRun
from redrive.worker.inbox import read, take_out
from redrive.worker.manual_resolution import Outcome, redriven

log = logging.getLogger("redrive")


def may_be_reopened(event: AnyEvent) -> bool:
    """Not where what had succeeded was undone."""
    return isinstance(event, FlowFailed) and event.kind != "compensated"


def comes_too_late(said: AnyMessage | None, items: dict[int, Item]) -> bool:
    """It is about a step that was done before it was read, and so about nothing that the flow failed of."""
    item = items.get(said.item) if isinstance(said, ManualResolution) else None
    return item is not None and item.state in ("completed", "cancelled")


def reopen(run: FlowRun, lines: list[Line], known: dict[int, Item], mail: list[Message]) -> Generator[None, None, bool]:
    """Take up a failed flow again, where a message says so: the redrive is logged as the last line.

    False: it stays as it is. `known`: its items, as the log has them.
    """
    failed = next((line for line in reversed(lines) if isinstance(line.event, FlowFailed)), None)
    undoing = yield from rewind_in_chunks(lines)
    for message in list(mail):
        # Even if it is to be carried out later: the flow may fail again before, and must not come back for it.
        _take(run, mail, message)
        said = read(message)
        if comes_too_late(said, known):
            log.warning("flow %s has failed, and what is said of a step that is done does not reopen it", run.id)
        elif (
            isinstance(said, Redrive | ManualResolution)
            and failed is not None
            and isinstance(failed.event, FlowFailed)
            and may_be_reopened(failed.event)
        ):
            items: list[int | None] = [failed.event.item]
            all_failed = [item.number for item in known.values() if item.state == "failed"]
            if run.record.definition.startswith(GRAPH):
                # All that failed in a graph kept it from its goals, or will.
                items = [*all_failed] or items
            elif isinstance(said, ManualResolution) and said.item in all_failed:
                # One that the flow's code had dealt with, perhaps: then it is not what ended the flow.
                items = [said.item, *(item for item in items if item not in (None, said.item))]
            if isinstance(said, Outcome) and said.item not in items and said.item in known and known[said.item].is_open:
                items.append(said.item)
            failures = _Failures(run, lines, undoing, failed.seq)
            for item in items:
                # One may be there only because of another one's failure, and is then undone with that.
                if item not in failures.undoing.items:
                    failures.undo(item, said, midway=item != items[0])  # the first reopens the flow
            return True
    return False


def rewind_failures(run: FlowRun, lines: list[Line], mail: list[Message]) -> Generator[None, None, None]:
    """In a flow that goes on, items that failed and that a message says to try again, or to settle by hand."""
    words = [(message, said) for message in mail if isinstance(said := read(message), ManualResolution)]
    if not words:
        return
    items = (yield from fold_in_chunks(lines)).items
    is_undone = any(item.compensates for item in items.values())
    failed = {item.number for item in items.values() if item.state == "failed"}
    # What gave up only since nobody needed it any more may be needed again.
    unneeded = [number for number in sorted(failed) if _was_unneeded(items[number])]
    failures = _Failures(run, lines, (yield from rewind_in_chunks(lines)), run.seq + 1)
    undone_before = frozenset(failures.undoing.items)
    for message, said in words:
        if said.item not in failed or said.item in failures.undoing.items:
            continue
        _take(run, mail, message)
        if is_undone:
            # It came while what had succeeded was being undone: to go on from there would be wrong.
            continue
        for number in dict.fromkeys((said.item, *unneeded)):
            failed.discard(number)
            if number not in failures.undoing.items:
                failures.undo(number, said, midway=True)
        unneeded = []
    for number in failures.undoing.items - undone_before:
        # They wait for nothing any more.
        run.desk.journal.drop_retry(run.id, number)


def _was_unneeded(item: Item) -> bool:
    return item.gave_up is not None and item.gave_up.kind == "abandoned"


def _take(run: FlowRun, mail: list[Message], message: Message) -> None:
    mail.remove(message)
    take_out(run, message)


class _Failures:
    """Where the items of a log failed, before line `end`. To undo one adds a line to the log."""

    def __init__(self, run: FlowRun, lines: list[Line], undoing: Rewind, end: int) -> None:
        self.undoing = undoing
        self._run = run
        self._lines = lines
        self._at = run.time()
        self._end = end
        self._last: dict[int | None, Line] = {}
        """By item; None: the last turn of the flow's code."""
        for line in lines:
            event = line.event
            if line.seq < end and line.seq not in self.undoing.lines and is_activation(event):
                self._last[None] = line
                if isinstance(event, AttemptFailed | ItemGaveUp):
                    self._last[event.item] = line

    def undo(self, item: int | None, said: Redrive | ManualResolution, midway: bool) -> None:
        """The log is answered anew from the item's failure on, or from the turn in which the flow's code failed."""
        failure = self._last.get(item)
        if failure is not None:
            since, details = failure.seq, getattr(failure.event, "details", UNSET)
        else:
            since, details = 0 if item is None else self._end, UNSET
        event = redriven(said, item, since, midway, details)
        self._run.write(self._at, event)
        line = Line(self._run.seq, self._at, event)
        self._lines.append(line)
        self.undoing.read(line)

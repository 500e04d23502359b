"""Replay a flow's log, then continue the flow from where the log ends."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from redrive.errors import (
    CrashLoopError,
    DeserializationError,
    NondeterminismError,
    TypeHintError,
    UnknownDefinitionError,
)
from redrive.flows.action import unknown_actions
from redrive.flows.commands import EndFlow
from redrive.flows.events import FlowParked, ItemDeferred, Line, Redriven, Resumed
from redrive.flows.history import FlowHistory, fold, fold_in_chunks
from redrive.flows.item import Item
from redrive.flows.messages import Cancel, ManualResolution, Signal
from redrive.flows.replay import began_at, has_begun, last_decisive_line, replay
from redrive.stores.records import FINISHED, EventRow, FlowStatus, HeartbeatRow, Message
from redrive.telemetry.logs import log_flow
from redrive.worker.event_rows import items_named_in, reading_lines
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.manual_resolution import apply_resolution, outcomes_in
from redrive.worker.flow.redrive import redrive_items, reopen
from redrive.worker.flow.signals import keep
from redrive.worker.inbox import Inbox, cancel_unreplayable, obey_pause, take
from redrive.worker.recovery.evidence import NONE, Evidence
from redrive.worker.recovery.unreplayable import park_unreplayable
from redrive.worker.slots import ExecutionSlots


class Replayer:
    def __init__(
        self,
        inbox: Inbox,
        slots: ExecutionSlots,
        release_unsupported: Callable[[FlowRun, Sequence[str], bool], None],
    ) -> None:
        """release_unsupported: releases a flow that needs these actions; True when it has unread messages."""
        self._inbox = inbox
        self._slots = slots
        self._release_unsupported = release_unsupported

    def replay(
        self,
        run: FlowRun,
        rows: list[EventRow],
        heartbeats: list[HeartbeatRow],
        messages: list[Message],
        running_here: Collection[int] = (),
        evidence: Evidence = NONE,
        crash_loop: CrashLoopError | None = None,
    ) -> Iterator[None]:
        """Replay the flow's log, deliver its messages, and do what is due.

        A generator that yields between chunks: until it ends, nothing else may reach the flow.

        running_here: items whose attempts run in this worker.
        evidence: what is known against the flow.
        crash_loop: why none of the flow's code may run any more; the flow fails with it.
        """
        yield from self._replay(run, rows, heartbeats, messages, running_here, evidence, crash_loop)
        if run.log.history.ending is not None:
            # A flow that ended without its code did not know of them.
            for beat in heartbeats:
                run.log.journal.drop_retry(run.id, beat.item)

    def _replay(
        self,
        run: FlowRun,
        rows: list[EventRow],
        heartbeats: list[HeartbeatRow],
        messages: list[Message],
        running_here: Collection[int],
        evidence: Evidence,
        crash_loop: CrashLoopError | None,
    ) -> Iterator[None]:
        if rows:
            run.log.seq, run.log.last_at = rows[-1].seq, rows[-1].at
        try:
            lines = yield from reading_lines(rows)
        except DeserializationError as error:
            park_unreplayable(run, [], str(error), messages)
            if run.log.history.ending is not None:
                for number in items_named_in(rows):
                    run.log.journal.drop_retry(run.id, number)
            return
        before = yield from fold_in_chunks(lines)
        if before.ending is None and self._inbox.cancel_without_code(run, before, has_begun(lines), messages):
            return
        missing = unknown_actions(run.driver.required_actions())
        if missing and (before.ending is None or messages):
            self._release_unsupported(run, missing, bool(messages))
            return
        logged = run.log.seq
        if before.ending is not None and not (yield from reopen(run, lines, before, messages)):
            _release_ended(run, before.ending, before.ended_at)
            return
        yield from redrive_items(run, lines, messages)
        if crash_loop is not None:
            _fail_without_code(run, lines, crash_loop, "poison", run.log.now())
            return
        run.has_begun = has_begun(lines)
        if not run.has_begun:
            self._begin(run, lines, messages)
            return
        run.log.began_at = began_at(lines)
        told, is_redriven = before, _is_redriven(lines)
        if is_redriven:
            before = yield from fold_in_chunks(_before_redrives(lines))
        if run.log.seq != logged:
            told = yield from fold_in_chunks(lines)
        try:
            open_commands = yield from replay(lines, run.driver, run.log.history, began_at(lines))
        except (NondeterminismError, UnknownDefinitionError, TypeHintError) as error:
            park_unreplayable(run, lines, str(error), messages)
            return
        except DeserializationError as error:
            _fail_with_messages(run, lines, error, messages)
            return
        _restore_heartbeats(run, heartbeats)
        run.starter.find_listed()
        lost = self._restore_running(run, running_here)
        if is_redriven or told.parked is not None:
            # Their rows in the retry queue were dropped by what is rewound, or have another time.
            for item in [item for item in run.log.history.items.values() if item.state == "waiting"]:
                run.starter.list_retry(item)
        obey_pause(run, messages)
        _log_revived(run, told)
        run.commands.handle(open_commands, run.log.now())
        _fail_lost(run, lost, before, evidence)
        run.resume_items()
        for said in outcomes_in(lines, run.log.history):
            apply_resolution(run, said, run.log.now(), from_log=True)
        self._deliver(run, messages)
        if run.log.history.children.any_open and not run.log.released:
            self._inbox.look_up_children(run)
        run.wake()

    def _begin(self, run: FlowRun, lines: list[Line], messages: list[Message]) -> None:
        """Begin a flow whose log has no turn of its code yet."""
        for line in lines:
            run.log.history.apply(line.at, line.event)
        self._deliver(run, messages)
        if not run.log.released and not run.has_begun:
            run.begin()

    def _deliver(self, run: FlowRun, messages: list[Message]) -> None:
        for message in messages:
            if not run.log.released:
                self._inbox.deliver(run, message)

    def _restore_running(self, run: FlowRun, running_here: Collection[int]) -> list[Item]:
        """Count the running items, stop attempts that the log no longer knows, and return the items that were lost."""
        running = [item for item in run.log.history.items.values() if item.state == "running"]
        lost = [item for item in running if not item.accepted and item.number not in running_here]
        run.starter.active += len(lost)
        for item in running:
            # A lost item keeps its place too, until it is known how its attempt ended.
            run.starter.keep_step(item)
            if item.accepted:
                run.attempts.await_callback(item)
            elif item.number in running_here:
                run.starter.active += 1
        self._slots.stop_all_but(run.id, {item.number for item in running})
        return lost


def _is_redriven(lines: list[Line]) -> bool:
    """Whether the log ends with a redrive that has not been carried out yet."""
    last = last_decisive_line(lines)
    return last is not None and isinstance(last.event, Redriven)


def _before_redrives(lines: list[Line]) -> list[Line]:
    """The log as it was before the redrives at its end."""
    end = len(lines)
    while end and isinstance(lines[end - 1].event, Redriven | FlowParked | Resumed):
        end -= 1
    return lines[:end]


def _restore_heartbeats(run: FlowRun, heartbeats: list[HeartbeatRow]) -> None:
    for beat in heartbeats:
        item = run.log.history.items.get(beat.item)
        # A heartbeat of an earlier attempt is older than what the log has of that attempt's end.
        if item is not None and item.state == "running" and beat.at >= item.attempt_began:
            item.details = msgspec.Raw(beat.details.encode())


def _log_revived(run: FlowRun, told: FlowHistory) -> None:
    """Log items that the flow's code had cancelled and, after a redrive, has not: only the code knows."""
    for item in run.log.history.items.values():
        if item.state == "waiting" and item.retry_at is not None and told.items[item.number].state == "cancelled":
            reason = "a redrive rewound what had cancelled it"
            deferred = ItemDeferred(item=item.number, until=item.retry_at, reason=reason, held_by="redrive")
            run.log.append(run.log.now(), deferred)


def _fail_lost(run: FlowRun, lost: list[Item], before: FlowHistory, evidence: Evidence) -> None:
    """Fail attempts that ran when their worker was lost: their outcome is unknown.

    Attempts that the flow's code had stopped `before` a redrive rewound that do not count.
    """
    for item in lost:
        if item.state == "running" and not run.log.released:
            if before.items[item.number].state == "cancelled":
                at = run.log.now()
                run.starter.active -= 1
                run.attempts.return_attempt(item, at, at, "a redrive rewound what had stopped it")
                run.starter.release_step(item, at)
            else:
                held_by = evidence.where.removeprefix(f"by flow {run.id} ") if evidence.by_code else ""
                run.attempts.lose(item, _blame(run, item, evidence), held_by)


def _blame(run: FlowRun, item: Item, evidence: Evidence) -> str:
    """Why the lost attempt itself took its worker down; "" when nothing says so."""
    if item.number == evidence.item:
        return f"it blocked its worker's event loop for a whole lease ({evidence.where})"
    if item.alone and run.log.record.lost_owners:
        # Not where the last owner released the flow, and left the attempt behind in a thread.
        return "it was the only suspect running on that worker"
    return ""


def _fail_without_code(run: FlowRun, lines: list[Line], error: Exception, kind: str | None, at: float) -> None:
    run.log.history = fold(lines)
    run.starter.find_listed()
    run.commands.handle([EndFlow("failed", error=error, kind=kind)], at)


def _fail_with_messages(run: FlowRun, lines: list[Line], error: DeserializationError, messages: list[Message]) -> None:
    """Fail a flow whose input or results no longer fit its code, unless a message cancels it."""
    # All are read: an unread one would have the flow claimed again at once.
    words = [take(run, message) for message in messages]
    for said in words:
        if isinstance(said, Cancel):
            cancel_unreplayable(run, fold(lines), said)
            return
    known = fold(lines)
    for said in words:
        if isinstance(said, Signal):
            # For a redrive.
            keep(run.log, known, said)
        elif isinstance(said, ManualResolution):
            log_flow(logging.ERROR, run.id, "it fails, and a message to it is dropped: %s", type(said).__name__)
    _fail_without_code(run, lines, error, None, run.log.last_at)


def _release_ended(run: FlowRun, ending: object, ended_at: float | None) -> None:
    """Release a flow that had ended already, as it was."""
    name = type(ending).__name__.removeprefix("Flow").lower()
    status: FlowStatus = next(one for one in FINISHED if one == name)
    run.log.release(status, None, ended_at)

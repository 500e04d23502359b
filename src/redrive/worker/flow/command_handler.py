"""Carry out the commands of a flow's definition: schedule items, start timers, cancel items, end the flow."""

from collections.abc import Callable

import msgspec

from redrive.flows.commands import (
    AnswerUpdate,
    CancelChild,
    CancelItem,
    Command,
    ContinueRun,
    EndFlow,
    MarkPatch,
    ScheduleItem,
    SettleStep,
    SignalChild,
    StartChild,
    StartTimer,
)
from redrive.flows.driver import Driver
from redrive.flows.errors.stored_error import store_error
from redrive.flows.events import ItemCancelled, PatchMarked, StepSettled, TimerSet
from redrive.flows.flow_end import end_event
from redrive.flows.item import Item
from redrive.flows.message_events import SignalBuffered, SignalsUnread, UpdateCompleted, UpdateFailed
from redrive.flows.run_events import RunContinued
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.flow.flow_children import (
    Ending,
    cancel_child,
    close_messages,
    end_messages,
    signal_child,
    start_child,
)
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_timers import FlowTimers
from redrive.worker.flow.work_reports import report_attempt, report_item
from redrive.worker.slots import ExecutionSlots

__all__ = ["CommandHandler", "Ending"]

MOST_UNREAD = 100
MOST_KNOWN = 1000
"""How many ids of signals another run knows, so that one which is sent again is received once."""


class CommandHandler:
    """Logs each command; whatever must wait until it is durable is left to the journal."""

    __slots__ = ("_driver", "_log", "_on_ended", "_slots", "_starter", "_timers")

    def __init__(
        self,
        log: FlowLog,
        driver: Driver,
        timers: FlowTimers,
        starter: AttemptStarter,
        slots: ExecutionSlots,
        on_ended: Callable[[FlowLog, Ending], None],
    ) -> None:
        """on_ended: called with the last event of the flow, which is about to be durable."""
        self._log = log
        self._driver = driver
        self._timers = timers
        self._starter = starter
        self._slots = slots
        self._on_ended = on_ended

    def handle(self, commands: list[Command], at: float) -> None:
        log, driver = self._log, self._driver
        since = log.seq
        for command in commands:  # the list may grow
            if isinstance(command, ScheduleItem):
                self._starter.schedule(command, at)
            elif isinstance(command, StartTimer):
                timer = log.history.last_timer + 1
                driver.bind_timer(command, timer)
                log.append(at, TimerSet(timer=timer, until=command.time))
            elif isinstance(command, CancelItem):
                if self._cancel_item(command, at) and command.lets_attempt_finish:
                    commands += driver.item_cancelled(command.scheduled.item, at)
            elif isinstance(command, SettleStep):
                log.append(at, StepSettled(step=command.step, state=command.state, why=command.why))
            elif isinstance(command, MarkPatch):
                log.append(at, PatchMarked(patch=command.name))
            elif isinstance(command, AnswerUpdate):
                log.append(at, _answer(command))
            elif isinstance(command, StartChild):
                commands += start_child(log, driver, command, at)
            elif isinstance(command, CancelChild):
                cancel_child(log, command, at)
            elif isinstance(command, SignalChild):
                signal_child(log, command, at)
            elif isinstance(command, ContinueRun):
                self._continue_as_new(command, at)
                return
            else:
                self._end(command, at)
                return
        if not driver.has_more:
            log.history.long_turn = None
        elif log.history.long_turn is None:
            log.history.long_turn = since

    def stop_item(self, item: Item) -> None:
        """Stop the item's attempt, or its wait for a slot, a retry or a callback."""
        starter = self._starter
        if item.state == "running" and not item.accepted:
            starter.active -= 1
            self._slots.stop(self._log.flow_id, item.number)
        elif item.number in starter.waiting_for_slot:
            starter.active -= 1
            del starter.waiting_for_slot[item.number]
        starter.leave_line(item.number)
        self._timers.drop(item.number)

    def _cancel_item(self, command: CancelItem, at: float) -> bool:
        """Cancel the item, unless it is settled or has a running attempt that is allowed to finish."""
        item = self._log.history.items.get(command.scheduled.item)
        if item is None or not item.is_open or (command.lets_attempt_finish and item.state == "running"):
            return False
        self.stop_item(item)
        report_attempt(self._log, self._driver, item, at, "cancelled")
        report_item(self._log, item, at, "cancelled")
        self._log.append(at, ItemCancelled(item=item.number))
        self._starter.forget(item)
        return True

    def _end(self, command: EndFlow, at: float) -> None:
        log = self._log
        self._stop_all(at)
        if unread := [*self._driver.unread_signals(), *(one.signal for one in log.history.messages.buffered.values())]:
            log.append(at, SignalsUnread(signals=tuple(unread[:MOST_UNREAD])))
        event = end_event(command, log.history)
        log.append(at, event)
        for message in end_messages(log.flow_id, log.record.parent, log.history.children.open, event, at):
            log.journal.send(message)
        self._discard()
        self._on_ended(log, event)
        log.release(command.outcome, None, at)

    def _continue_as_new(self, command: ContinueRun, at: float) -> None:
        log, history = self._log, self._log.history
        self._stop_all(at)
        children = history.children
        for message in close_messages(log.flow_id, children.open, "continued as new", at):
            log.journal.send(message)
        run, run_from, buffered = history.run + 1, log.seq, list(history.messages.buffered.values())
        event = RunContinued(
            run=run,
            items=history.last_item,
            timers=history.last_timer,
            children=children.last,
            signals=tuple(sorted(history.messages.known)[-MOST_KNOWN:]),
        )
        log.append(at, event)
        for number, (name, args) in enumerate(command.mailbox):
            signal = SignalBuffered(id=f"{run}/{number}", signal=name, args=msgspec.Raw(args.encode()))
            log.append(at, signal)
        for signal in buffered:
            log.append(at, signal)
        self._discard()
        log.release("ready", at, input=command.input, run_from=run_from)

    def _discard(self) -> None:
        self._driver.discard()
        self._starter.active = 0

    def _stop_all(self, at: float) -> None:
        """Stop what runs and forget what waits: the flow's code no longer cares."""
        log, driver, starter = self._log, self._driver, self._starter
        # First, so that the slots of stopped attempts go to other flows.
        starter.stop_waiting_for_slots()
        listed = starter.listed
        # Most of a hundred thousand items may have nothing to stop and no row.
        for item in [
            one
            for one in log.history.items.values()
            if one.state == "running" or one.details is not None or one.number in listed
        ]:
            if item.state == "running" and not item.accepted:
                self._slots.stop(log.flow_id, item.number)
            if item.is_open:
                starter.forget(item)
                report_attempt(log, driver, item, at, "cancelled")
                report_item(log, item, at, "cancelled")


def _answer(command: AnswerUpdate) -> UpdateCompleted | UpdateFailed:
    if command.error is not None:
        return UpdateFailed(id=command.id, update=command.update, error=store_error(command.error))
    return UpdateCompleted(id=command.id, update=command.update, result=msgspec.Raw(command.result.encode()))

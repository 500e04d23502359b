"""Apply the messages in a flow's inbox."""

import logging
from collections.abc import Callable, Sequence

import msgspec

from redrive.flows.child_events import ChildCancelled, ChildCompleted, ChildFailed
from redrive.flows.commands import EndFlow
from redrive.flows.events import CancelRequested, Paused, Resumed
from redrive.flows.history import FlowHistory
from redrive.flows.messages import (
    AnyMessage,
    Cancel,
    ChangePolicy,
    ChildEnded,
    Completion,
    ManualResolution,
    Pause,
    Resume,
    RetryNow,
    Signal,
    read_message,
)
from redrive.stores.records import Message
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.change_policy import change_policy
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.manual_resolution import apply_resolution
from redrive.worker.flow.retry_now import retry_now


class Inbox:
    def __init__(self, rebuild: Callable[[FlowRun], None], look_up_children: Callable[[FlowRun], None]) -> None:
        """rebuild: rebuilds a flow from its log, and applies its messages about failed items on the way.

        look_up_children: finds out in the store how the flow's children have ended.
        """
        self._rebuild = rebuild
        self.look_up_children = look_up_children

    def deliver(self, run: FlowRun, message: Message) -> None:
        """Apply the message. Marking it as read is committed together with its effects."""
        if _is_about_failed_item(run, message):
            self._rebuild(run)
            return
        said = take(run, message)
        at = run.log.now()
        if isinstance(said, Cancel):
            _cancel(run, said, at)
        elif isinstance(said, Pause) and not run.log.history.paused:
            run.log.append(at, Paused(by=said.by, why=said.why))
            run.starter.stop_waiting_for_slots()
        elif isinstance(said, Resume) and (run.log.history.paused or run.log.history.parked):
            run.log.append(at, Resumed(by=said.by, why=said.why))
            run.begin_or_continue()
        elif isinstance(said, RetryNow):
            retry_now(run, said, at)
        elif isinstance(said, ChangePolicy):
            change_policy(run, said, at)
        elif isinstance(said, Signal):
            run.signals.receive(said, at, run.has_begun and not run.log.is_held)
        elif isinstance(said, Completion):
            run.attempts.complete_accepted(said)
        elif isinstance(said, ManualResolution):
            apply_resolution(run, said, at)
        elif isinstance(said, ChildEnded):
            self._end_child(run, said)
        if not run.log.released:
            run.rest(at)

    def _end_child(self, run: FlowRun, said: ChildEnded) -> None:
        child = run.log.history.children.find(said.flow)
        if child is None:
            # Its end was looked up before, or it has been redriven since.
            return
        if said.outcome == "completed" and not isinstance(said.result, msgspec.Raw):
            self.look_up_children(run)
        elif isinstance(said.result, msgspec.Raw):
            run.end_child(child, ChildCompleted(child.number, said.result))
        elif said.outcome == "cancelled":
            run.end_child(child, ChildCancelled(child.number, said.message))
        else:
            run.end_child(child, ChildFailed(child=child.number, error=said.error, message=said.message))

    def cancel_without_code(
        self, run: FlowRun, history: FlowHistory, has_begun: bool, messages: Sequence[Message]
    ) -> bool:
        """Whether a message ended the flow without running its code: by force, or because it had not begun."""
        for message in messages:
            said = read(message)
            if isinstance(said, Cancel) and (said.force or not has_begun):
                run.log.history = history
                run.starter.find_listed()
                self.deliver(run, message)
                return True
        return False


def _is_about_failed_item(run: FlowRun, message: Message) -> bool:
    """Whether the log must be rewound: what followed from the item's failure no longer holds."""
    said = read(message)
    item = run.log.history.items.get(said.item) if isinstance(said, ManualResolution) else None
    return item is not None and item.state == "failed"


def _cancel(run: FlowRun, said: Cancel, at: float) -> None:
    was_paused = run.log.history.paused
    runs_code = run.has_begun and not said.force
    if was_paused and not said.force:
        # The code must be able to clean up.
        run.log.append(at, Resumed(by=said.by, why=said.why))
    if runs_code and run.log.history.cancel_requested is not None:
        # A second cancellation would interrupt the clean-up.
        said_by = said.by or "someone"
        log_flow(logging.INFO, run.id, "it is being cancelled already; the request of %s changes nothing", said_by)
    else:
        run.log.append(at, CancelRequested(by=said.by, why=said.why, force=said.force))
        run.commands.handle(run.driver.cancel(at) if runs_code else [EndFlow("cancelled")], at)
    if was_paused and not run.log.released:
        run.begin_or_continue()


def obey_pause(run: FlowRun, messages: list[Message]) -> None:
    """Pause the flow before any attempt begins, if the last pause or resume message is a pause."""
    words = [(message, said) for message in messages if isinstance(said := read(message), Pause | Resume)]
    if not words or not isinstance(words[-1][1], Pause):
        return
    for message, said in words:
        messages.remove(message)
        take(run, message)
        if isinstance(said, Pause) != run.log.history.paused:
            event = Paused if isinstance(said, Pause) else Resumed
            run.log.append(run.log.now(), event(by=said.by, why=said.why))


def cancel_unreplayable(run: FlowRun, history: FlowHistory, said: Cancel) -> None:
    """Cancel a flow whose log cannot be replayed. `history`: what is known of the flow."""
    run.log.history = history
    run.starter.find_listed()
    for number in run.starter.listed:
        run.log.journal.drop_retry(run.id, number)
    run.starter.listed.clear()
    at = run.log.now()
    run.log.append(at, CancelRequested(by=said.by, why=said.why, force=said.force))
    run.commands.handle([EndFlow("cancelled")], at)


def take(run: FlowRun, message: Message) -> AnyMessage | None:
    """Mark a message as read and return what it says; None for one that this version cannot read."""
    run.log.messages_read += 1
    run.log.messages_taken[message.id] = None
    run.log.journal.message_read(run.id, message.id)
    said = read(message)
    if said is None:
        log_flow(logging.ERROR, run.id, "message %s cannot be read by this version and is dropped", message.id)
    return said


def read(message: Message) -> AnyMessage | None:
    """What a message says; None for one that this version cannot read."""
    try:
        return read_message(message.body)
    except msgspec.MsgspecError:
        return None

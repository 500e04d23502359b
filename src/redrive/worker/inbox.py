"""Messages for a flow, carried out by its owner."""

import logging
from collections.abc import Sequence

import msgspec

from redrive.flows.commands import EndFlow
from redrive.flows.events import CancelRequested, Paused, Resumed
from redrive.flows.history import FlowHistory
from redrive.flows.messages import (
    AnyMessage,
    Cancel,
    Completion,
    ManualResolution,
    Pause,
    Resume,
    read_message,
)
from redrive.stores.records import Message
from redrive.worker.flow_run import FlowRun
from redrive.worker.manual_resolution import settle

log = logging.getLogger("redrive")


def deliver(run: FlowRun, message: Message) -> None:
    """Do what the message says; that it was read becomes durable together with what came of it."""
    if _needs_the_log(run, message):
        run.desk.rebuild(run)
        return
    said = take_out(run, message)
    at = run.time()
    if isinstance(said, Cancel):
        _cancel(run, said, at)
    elif isinstance(said, Pause) and not run.history.paused:
        run.log(at, Paused(by=said.by, why=said.why))
        run.leave_line()
    elif isinstance(said, Resume) and (run.history.paused or run.history.parked):
        run.log(at, Resumed(by=said.by, why=said.why))
        run.go_on()
    elif isinstance(said, Completion):
        run.told(said)
    elif isinstance(said, ManualResolution):
        settle(run, said, at)
    if not run.released:
        run.settle(at)


def obey_pause(run: FlowRun, mail: list[Message]) -> None:
    """Where the last word in the mail is to pause the flow, nothing may begin before that is obeyed."""
    words = [(message, said) for message in mail if isinstance(said := read(message), Pause | Resume)]
    if not words or not isinstance(words[-1][1], Pause):
        return
    for message, said in words:
        mail.remove(message)
        take_out(run, message)
        if isinstance(said, Pause) != run.history.paused:
            event = Paused if isinstance(said, Pause) else Resumed
            run.log(run.time(), event(by=said.by, why=said.why))


def _cancel(run: FlowRun, said: Cancel, at: float) -> None:
    was_paused = run.history.paused
    runs_code = run.has_begun and not said.force
    if was_paused and not said.force:
        # What its code does to clean up must be able to run.
        run.log(at, Resumed(by=said.by, why=said.why))
    if runs_code and run.history.cancel_requested is not None:
        # To cancel it again would cut what it does to clean up.
        log.info("flow %s is being cancelled already; what %s asked for changes nothing", run.id, said.by or "someone")
    else:
        run.log(at, CancelRequested(by=said.by, why=said.why, force=said.force))
        run.take(run.driver.cancel(at) if runs_code else [EndFlow("cancelled")], at)
    if was_paused and not run.released:
        run.go_on()


def end_without_code(run: FlowRun, history: FlowHistory, said: Cancel) -> None:
    """Cancel a flow that cannot be brought to where its log ends. `history`: what is known of it."""
    run.history = history
    run.know_rows()
    for number in run.shown:
        run.desk.journal.drop_retry(run.id, number)
    run.shown.clear()
    at = run.time()
    run.log(at, CancelRequested(by=said.by, why=said.why, force=said.force))
    run.take([EndFlow("cancelled")], at)


def cancelled_without_code(run: FlowRun, history: FlowHistory, has_begun: bool, mail: Sequence[Message]) -> bool:
    """Whether a message ended the flow and none of its code had to run: by force, or because it had not begun."""
    for message in mail:
        said = read(message)
        if isinstance(said, Cancel) and (said.force or not has_begun):
            run.history = history
            run.know_rows()
            deliver(run, message)
            return True
    return False


def _needs_the_log(run: FlowRun, message: Message) -> bool:
    """Whether it is about an item that has failed: what came of that is undone from the log."""
    said = read(message)
    item = run.history.items.get(said.item) if isinstance(said, ManualResolution) else None
    return item is not None and item.state == "failed"


def take_out(run: FlowRun, message: Message) -> AnyMessage | None:
    """Read a message and have it removed; None for one that this version cannot read."""
    run.mail_read += 1
    run.mail_taken[message.id] = None
    run.desk.journal.mail_read(run.id, message.id)
    said = read(message)
    if said is None:
        log.error("flow %s: message %s cannot be read and is dropped", run.id, message.id)
    return said


def read(message: Message) -> AnyMessage | None:
    """What it says; None for one that this version cannot read."""
    try:
        return read_message(message.body)
    except msgspec.MsgspecError:
        return None

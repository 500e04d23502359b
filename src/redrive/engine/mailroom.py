"""Messages for a flow, carried out by its owner."""

import logging

import msgspec

from redrive.engine.flow_run import FlowRun
from redrive.flows.asks import EndAsk
from redrive.flows.events import CancelRequested, Paused, Resumed
from redrive.flows.messages import AnyMessage, Cancel, Pause, Resume, read_message
from redrive.stores.records import Message

log = logging.getLogger("redrive")


def deliver(run: FlowRun, message: Message) -> None:
    """Do what the message says; that it was read becomes durable together with what came of it."""
    said = take_out(run, message)
    at = run.time()
    if isinstance(said, Cancel):
        was_paused = run.history.paused
        if was_paused:
            # What its code does to clean up must be able to run.
            run.log(at, Resumed(by=said.by, why=said.why))
        run.log(at, CancelRequested(by=said.by, why=said.why))
        run.take(run.driver.cancel(at) if run.has_begun else [EndAsk("cancelled")], at)
        if was_paused and not run.released:
            run.go_on()
    elif isinstance(said, Pause) and not run.history.paused:
        run.log(at, Paused(by=said.by, why=said.why))
        run.leave_line()
    elif isinstance(said, Resume) and (run.history.paused or run.history.parked):
        run.log(at, Resumed(by=said.by, why=said.why))
        run.go_on()
    run.settle(at)


def take_out(run: FlowRun, message: Message) -> AnyMessage | None:
    """Read a message and have it removed; None for one that this version cannot read."""
    run.mail_read += 1
    run.mail_taken.add(message.id)
    run.desk.journal.batch.messages_read.append(message.id)
    run.desk.journal.kick()
    try:
        return read_message(message.body)
    except msgspec.MsgspecError:
        log.error("flow %s: message %s cannot be read and is dropped: %.200s", run.id, message.id, message.body)
        return None

"""Describe the signals and updates that a flow was sent, in a few words each."""

from redrive.explain.hidden_payloads import call_text, value_text
from redrive.explain.parts import Moment, Note
from redrive.flows.message_events import (
    MessageEvent,
    SignalBuffered,
    SignalReceived,
    SignalRefused,
    SignalsUnread,
    UpdateAccepted,
    UpdateCompleted,
    UpdateFailed,
    UpdateRefused,
)
from redrive.formatting.text import format_count, format_error, summarize
from redrive.formatting.times import utc_datetime
from redrive.stores.records import NEVER_READS_AGAIN, FlowRecord

TOLD = (
    SignalReceived,
    SignalBuffered,
    SignalRefused,
    SignalsUnread,
    UpdateAccepted,
    UpdateRefused,
    UpdateCompleted,
    UpdateFailed,
)
"""The events that a timeline tells; what a flow waits for is told in another place."""


def describe_message(event: MessageEvent) -> tuple[str, str]:
    """What happened, and the details."""
    if isinstance(event, SignalReceived):
        how = "" if event.mailbox else ", and its handler was called"
        return f"signal {event.signal}({call_text(event.args)}) was received{how}", ""
    if isinstance(event, SignalBuffered):
        return f"signal {event.signal}({call_text(event.args)}) came, and is kept until the flow goes on", ""
    if isinstance(event, SignalRefused):
        return f"signal {event.signal} was refused", summarize(event.why, 1000)
    if isinstance(event, SignalsUnread):
        names = ", ".join(dict.fromkeys(event.signals))
        return f"it ends without having read {format_count(len(event.signals), 'signal')}: {names}", ""
    if isinstance(event, UpdateAccepted):
        return f"update {event.update}({call_text(event.args)}) was accepted", ""
    if isinstance(event, UpdateCompleted):
        return f"update {event.update} was answered", value_text(event.result)
    if isinstance(event, UpdateFailed):
        return f"update {event.update} failed", format_error(event.error.type, event.error.message)
    if isinstance(event, UpdateRefused):
        return f"update {event.update} was refused", summarize(event.why, 1000)
    return "it waits for signals", ""


def came_too_late(record: FlowRecord, began: float) -> list[Note]:
    """Tell of the messages that were stored while the commit that ended the flow was under way."""
    count = record.messages_sent - record.messages_read
    if record.status not in NEVER_READS_AGAIN or record.finished_at is None or count <= 0:
        return []
    when = Moment(utc_datetime(record.finished_at), round(record.finished_at - began, 6))
    text = f"{format_count(count, 'message')} came while it ended, too late to be read"
    return [Note(when=when, what="messages_unread", text=text)]

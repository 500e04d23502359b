"""Record a flow's final failure as a dead letter."""

from collections.abc import Callable, Mapping

from redrive.failures.redaction import redact
from redrive.flows.events import FlowFailed
from redrive.flows.item import Item
from redrive.flows.stored_inputs import start_arguments
from redrive.stores.records import DeadLetter, FlowRecord

LONGEST_SUMMARY = 500


def payload_summary(record: FlowRecord) -> str:
    """The arguments that the flow was started with, bounded and without secrets."""
    return redact(start_arguments(record.definition, record.input), LONGEST_SUMMARY)


def dead_letter(
    record: FlowRecord,
    items: Mapping[int, Item],
    event: FlowFailed,
    at: float,
    dependency_of: Callable[[Item], str | None] | None = None,
) -> DeadLetter:
    """dependency_of: says what an item talks to."""
    item = items.get(event.item) if event.item is not None else None
    return DeadLetter(
        flow_id=record.id,
        definition=record.definition,
        queue=record.queue,
        at=at,
        kind=event.kind,
        step=item.step if item else "",
        attempts=item.attempt if item else 0,
        error_type=event.error.type.removeprefix("builtins."),
        message=event.error.message,
        payload=payload_summary(record),
        dependency=redact((item and dependency_of and dependency_of(item)) or ""),
    )

"""Flows that failed for good, as dead letters."""

from typing import TYPE_CHECKING

from redrive.engine.flow_arguments import arguments_of
from redrive.failures.redaction import redact
from redrive.flows.events import FlowFailed
from redrive.stores.records import DeadLetter, FlowRecord

if TYPE_CHECKING:
    from redrive.engine.flow_run import FlowRun

LONGEST_SUMMARY = 500


def payload_summary(record: FlowRecord) -> str:
    """What a flow was started with, bounded and without secrets."""
    return redact(arguments_of(record.definition, record.input), LONGEST_SUMMARY)


def dead_letter(run: "FlowRun", event: FlowFailed) -> DeadLetter:
    item = run.history.items.get(event.item) if event.item is not None else None
    return DeadLetter(
        flow_id=run.id,
        definition=run.record.definition,
        queue=run.record.queue,
        at=run.last_at,
        kind=event.kind,
        step=item.step if item else "",
        attempts=item.attempt if item else 0,
        error_type=event.error.type.removeprefix("builtins."),
        message=event.error.message,
        payload=payload_summary(run.record),
    )

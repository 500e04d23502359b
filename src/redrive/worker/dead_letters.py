"""Flows that failed for good, as dead letters."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from redrive.errors import InvalidStateError
from redrive.failures.redaction import redact
from redrive.flows.events import FlowFailed
from redrive.flows.flow_arguments import arguments_of
from redrive.stores.records import DeadLetter, FlowRecord

if TYPE_CHECKING:
    from redrive.worker.owned_flow import OwnedFlow

LONGEST_SUMMARY = 500
SETTLED_AT_ONCE = 500


def payload_summary(record: FlowRecord) -> str:
    """What a flow was started with, bounded and without secrets."""
    return redact(arguments_of(record.definition, record.input), LONGEST_SUMMARY)


def dead_letter(run: "OwnedFlow", event: FlowFailed) -> DeadLetter:
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


async def settled_in_parts(
    verb: Callable[..., Awaitable[list[str]]], flow_ids: Sequence[str], **said: str
) -> list[str]:
    """Redrive or discard many. What is not possible for some is raised only where it was possible for none."""
    settled: list[str] = []
    refused: InvalidStateError | None = None
    for first in range(0, len(flow_ids), SETTLED_AT_ONCE):
        try:
            settled += await verb(flow_ids[first : first + SETTLED_AT_ONCE], **said)
        except InvalidStateError as error:
            refused = error
    if refused is not None and not settled:
        raise refused
    return settled

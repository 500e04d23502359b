"""Report what happens to flows to the event stream, once it is durable."""

from collections.abc import Mapping

from redrive.failures.redaction import redact
from redrive.flows.events import AttemptFailed, FlowFailed, ItemGaveUp
from redrive.flows.item import Item
from redrive.stores.records import FlowRecord
from redrive.telemetry import events
from redrive.telemetry.stream import emit
from redrive.worker.flow.dead_letters import payload_summary

LONGEST_PROBLEM = 1000


def attempt_failed_event(
    flow_id: str, item: Item, event: AttemptFailed | ItemGaveUp, dependency: str | None, at: float
) -> events.AttemptFailed:
    """Describe a failed attempt to the event stream."""
    decision = event.decision
    # Attempts are counted on after a redrive, and the limit with them.
    before = item.attempt - decision.because.attempt
    allowed = item.policy.attempts
    first = item.failures[0].began if item.failures else item.attempt_began
    return events.AttemptFailed(
        operation=item.step,
        # A snoozed attempt does not count.
        attempt=max(1, item.attempt),
        attempts=None if allowed is None else before + allowed,
        failure=event.failure,
        decision=decision,
        elapsed=at - first,
        dependency=dependency,
        correlation_id=flow_id,
        flow_id=flow_id,
    )


def report_flow_parked(record: FlowRecord, problem: str) -> None:
    emit(events.FlowParked(flow_id=record.id, definition=record.definition, problem=redact(problem, LONGEST_PROBLEM)))


def report_flow_failed(record: FlowRecord, items: Mapping[int, Item], event: FlowFailed) -> None:
    item = items.get(event.item) if event.item is not None else None
    failures = [failed.event.failure for failed in item.failures] if item else []
    emit(
        events.FlowFailed(
            flow_id=record.id,
            definition=record.definition,
            kind=event.kind,
            step=item.step if item else "",
            error=f"{event.error.type.removeprefix('builtins.')}: {event.error.message}",
            errors=tuple(f"{failure.type}: {failure.message}" for failure in failures),
            payload=payload_summary(record),
            uncompensated=tuple(one.compensates for one in items.values() if one.compensates and one.state == "failed"),
        )
    )

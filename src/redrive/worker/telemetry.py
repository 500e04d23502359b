"""What happens to flows, told to everyone who listens."""

from typing import TYPE_CHECKING

from redrive.failures.redaction import redact
from redrive.flows.events import AnyEvent, AttemptFailed, FlowFailed, ItemGaveUp
from redrive.flows.history import Item
from redrive.stores.records import FlowRecord
from redrive.telemetry import events
from redrive.telemetry.stream import emit
from redrive.worker.dead_letters import payload_summary

if TYPE_CHECKING:
    from redrive.worker.flow_run import FlowRun
    from redrive.worker.owned_flow import OwnedFlow

LONGEST_PROBLEM = 1000


def tell_attempt_failed(run: "FlowRun", item: Item, event: AttemptFailed | ItemGaveUp) -> None:
    """Once that is durable: else the next owner may find that the attempt was lost, and tell of that too."""
    decision = event.decision
    # Attempts count on after a redrive, and so does what is allowed of them.
    before = item.attempt - decision.because.attempt
    allowed = item.policy.attempts
    first = item.failures[0].began if item.failures else item.attempt_began
    told = events.AttemptFailed(
        operation=item.step,
        # Of one that was only snoozed, none counts.
        attempt=max(1, item.attempt),
        attempts=None if allowed is None else before + allowed,
        failure=event.failure,
        decision=decision,
        elapsed=run.last_at - first,
        dependency=run.driver.dependency(item.step),
        correlation_id=run.id,
    )
    run.desk.journal.then(_tell, run, told)


def _tell(run: "FlowRun", event: events.Event) -> None:
    if run.is_stored:
        emit(event)


def tell_flow_parked(record: FlowRecord, problem: str) -> None:
    emit(events.FlowParked(flow_id=record.id, definition=record.definition, problem=redact(problem, LONGEST_PROBLEM)))


def tell_flow_ended(run: "OwnedFlow", event: AnyEvent) -> None:
    if not isinstance(event, FlowFailed):
        return
    item = run.history.items.get(event.item) if event.item is not None else None
    failures = [failed.event.failure for failed in item.failures] if item else []
    emit(
        events.FlowFailed(
            flow_id=run.id,
            definition=run.record.definition,
            kind=event.kind,
            step=item.step if item else "",
            error=f"{event.error.type.removeprefix('builtins.')}: {event.error.message}",
            errors=tuple(f"{failure.type}: {failure.message}" for failure in failures),
            payload=payload_summary(run.record),
        )
    )

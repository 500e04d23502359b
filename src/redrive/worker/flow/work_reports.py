"""Report attempts, items and flows to those who measure or trace them. Where nobody does, nothing is done."""

from redrive.errors import DeserializationError, UnknownDefinitionError
from redrive.failures.failure import Failure
from redrive.flows.driver import Driver
from redrive.flows.events import AttemptFailed, FlowCancelled, FlowCompleted, FlowFailed, ItemGaveUp
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.item import Item
from redrive.policies.decision import GiveUp
from redrive.telemetry.tracing import current_tracer
from redrive.telemetry.work import (
    LISTENERS,
    AttemptEnded,
    AttemptOutcome,
    AttemptRef,
    FlowEnded,
    FlowOutcome,
    FlowRef,
    ItemEnded,
    ItemOutcome,
    ItemRef,
    Wait,
    tell,
)
from redrive.worker.flow.flow_log import FlowLog

_OUTCOMES: dict[str, AttemptOutcome] = {"timeout": "timed_out", "lost": "lost"}


def trace_attempt(log: FlowLog, item: Item, handler: object) -> str | None:
    """Begin the span of an attempt and return its context; None where nothing is traced."""
    tracer = current_tracer()
    return None if tracer is None else tracer.attempt_began(_attempt(log, item, handler), item.attempt_began)


def report_attempt(
    log: FlowLog,
    driver: Driver,
    item: Item,
    at: float,
    outcome: AttemptOutcome,
    failure: Failure | None = None,
    status: int | None = None,
) -> None:
    """Report how the item's running attempt ended: to be called before the log says so.

    status: of the answer that an HTTP step got.
    """
    if not LISTENERS or item.delivery is None:
        return
    attempt = _attempt(log, item, _handler(driver, item.step))
    if failure is None:
        tell(AttemptEnded(attempt, item.attempt_began, at, outcome, status=status))
    else:
        outcome = _OUTCOMES.get(failure.kind, outcome)
        if attempt.endpoint and not item.accepted:
            # Of the answer, and not of something that a report tells of.
            status = failure.status
        tell(AttemptEnded(attempt, item.attempt_began, at, outcome, failure.type, failure.category, status))


def report_item(
    log: FlowLog, item: Item, at: float, outcome: ItemOutcome, failed: AttemptFailed | ItemGaveUp | None = None
) -> None:
    """Report how an item ended, once that is durable."""
    if LISTENERS:
        kind = failed.decision.kind if failed is not None and isinstance(failed.decision, GiveUp) else ""
        error_type = "" if failed is None else failed.error.type
        waits = tuple(item.waits)
        ended = ItemEnded(_item(log, item), item.added_at, at, outcome, item.attempt, waits, kind, error_type)
        log.journal.when_durable(log.flow_id, _tell_if_stored, log, ended)


def report_flow(log: FlowLog, event: FlowCompleted | FlowFailed | FlowCancelled, at: float) -> None:
    """Report how a flow ended, which is durable."""
    if LISTENERS:
        outcome: FlowOutcome = "completed"
        if isinstance(event, FlowFailed):
            outcome = "failed"
        elif isinstance(event, FlowCancelled):
            outcome = "cancelled"
        kind, error_type = (event.kind, event.error.type) if isinstance(event, FlowFailed) else ("", "")
        began = log.record.created_at if log.history.round == 0 else log.history.waits[0].at
        tell(FlowEnded(_flow(log), began, at, outcome, _waits(log), kind, error_type))


def _waits(log: FlowLog) -> tuple[Wait, ...]:
    """What the flow waited for, since it was started or redriven last."""
    record, begun, waits = log.record, log.began_at, tuple(log.history.waits)
    if log.history.round == 0:
        if begun is not None and begun > record.start_at:
            waits = (Wait(record.start_at, "queued", begun), *waits)
        if record.start_at > record.created_at:
            waits = (Wait(record.created_at, "delayed start", record.start_at), *waits)
    return waits


def _tell_if_stored(log: FlowLog, ended: ItemEnded) -> None:
    if log.is_stored:
        tell(ended)


def _handler(driver: Driver, step: str) -> object:
    if not driver.has_steps:
        return None
    try:
        return driver.handler(step)
    except (UnknownDefinitionError, DeserializationError):
        # Nothing may keep a flow from being cancelled by force, not even a graph that this version cannot read.
        return None


def _attempt(log: FlowLog, item: Item, handler: object) -> AttemptRef:
    endpoint = handler.endpoint if isinstance(handler, HttpHandler) else ""
    return AttemptRef(_item(log, item), item.attempt, item.delivery or "", item.earlier, endpoint)


def _item(log: FlowLog, item: Item) -> ItemRef:
    return ItemRef(_flow(log), item.number, item.step, item.index, item.compensates, item.round)


def _flow(log: FlowLog) -> FlowRef:
    record = log.record
    return FlowRef(record.id, record.definition, record.queue, record.traceparent, log.history.round)

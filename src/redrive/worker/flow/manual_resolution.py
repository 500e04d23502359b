"""Reset, complete or resolve a work item manually; a resolution stays in the log until it can be applied."""

import logging

from msgspec import UNSET, Raw, UnsetType

from redrive.errors import DeserializationError, UnknownDefinitionError
from redrive.failures.redaction import redact
from redrive.flows.action import action_named
from redrive.flows.events import CompletionRefused, Line, Redriven
from redrive.flows.graphs.outputs import OutputError
from redrive.flows.history import FlowHistory
from redrive.flows.messages import CompleteItem, ManualResolution, Redrive, ResetItem, ResolveItem
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.attempt_failures import gave_up_by_hand
from redrive.worker.flow.flow_run import FlowRun

Outcome = CompleteItem | ResolveItem
"""A manual outcome, instead of another attempt."""


def redriven(
    said: Redrive | ManualResolution, item: int | None, since: int, midway: bool, details: Raw | UnsetType = UNSET
) -> Redriven:
    """Return the event that retries the item, or that carries the manual outcome if the message is about it."""
    outcome = said if isinstance(said, Outcome) and said.item == item else None
    return Redriven(
        by=said.by,
        why=said.why,
        item=item,
        since=since,
        details=details,
        midway=midway,
        result=outcome.result if isinstance(outcome, CompleteItem) else UNSET,
        resolved=isinstance(outcome, ResolveItem),
        with_parent=isinstance(said, Redrive) and said.with_parent,
    )


def outcomes_in(lines: list[Line], history: FlowHistory) -> list[Outcome]:
    """Return the manual outcomes in the log for items that are still open."""
    last: dict[int, Redriven] = {
        line.event.item: line.event
        for line in lines
        if isinstance(line.event, Redriven) and line.event.item is not None
    }
    told: list[Outcome] = []
    for number, event in last.items():
        item = history.items.get(number)
        if item is not None and item.is_open:
            if event.resolved:
                told.append(ResolveItem(by=event.by, why=event.why, item=number))
            elif isinstance(event.result, Raw):
                told.append(CompleteItem(by=event.by, why=event.why, item=number, result=event.result))
    return told


def apply_resolution(run: FlowRun, said: ManualResolution, at: float, from_log: bool = False) -> None:
    """Reset, complete or resolve an open item.

    `from_log`: the resolution was given while the flow had failed or could not go on. If it is not valid, the item
    fails: another attempt would contradict the operator.
    """
    item = run.log.history.items.get(said.item)
    if run.log.released or item is None or not item.is_open:
        step = "" if item is None else item.step
        said_by = said.by or "someone"
        log_flow(
            logging.WARNING, run.id, "item %s is settled; the request of %s is dropped", said.item, said_by, step=step
        )
    elif isinstance(said, ResetItem):
        if item.state == "waiting":
            run.log.append(at, redriven(said, item.number, run.log.seq + 1, midway=True))
            run.starter.wait_for_retry(item, at, at)
            run.wake()
    elif not run.driver.has_steps and (why := misfit(item.step, said)):
        told = f"the result given by {said.by or 'someone'} was refused: {why}"
        log_flow(logging.WARNING, run.id, "%s", told, step=item.step)
        if from_log:
            run.attempts.give_up(item, gave_up_by_hand(item, OutputError(f"step {item.step}: {told}"), at), at)
        else:
            run.log.append(at, CompletionRefused(item=item.number, why=told))
    else:
        run.attempts.complete_by_hand(item, said)


def misfit(step: str, said: ManualResolution) -> str:
    """Why the action cannot return such a result; empty when it can, or when this process does not know the action."""
    if isinstance(said, CompleteItem):
        try:
            action_named(step).signature.read_result(bytes(said.result).decode())
        except UnknownDefinitionError:
            return ""
        except DeserializationError as error:
            return f"the action does not return such a result: {redact(str(error.__cause__ or error), 300)}"
    return ""

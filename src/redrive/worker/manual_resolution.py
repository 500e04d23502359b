"""What someone says of a work item: carried out by the flow's owner, and kept in the log until it can be."""

import logging

from msgspec import UNSET, Raw, UnsetType

from redrive.errors import DeserializationError, UnknownDefinitionError
from redrive.failures.redaction import redact
from redrive.flows.driver import ActionItems
from redrive.flows.events import CompletionRefused, Redriven
from redrive.flows.graphs.outputs import OutputError
from redrive.flows.history import FlowHistory, Line
from redrive.flows.messages import ByHand, CompleteItem, Redrive, ResetItem, ResolveItem
from redrive.flows.registry import action_named
from redrive.worker.attempt_outcomes import gave_up_by_hand
from redrive.worker.flow_run import FlowRun

log = logging.getLogger("redrive")

Outcome = CompleteItem | ResolveItem
"""What came of an item, instead of another attempt."""


def redriven(
    said: Redrive | ByHand, item: int | None, since: int, midway: bool, details: Raw | UnsetType = UNSET
) -> Redriven:
    """The line that tries an item again, or says what came of it, where that was said of this one."""
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
    )


def outcomes_in(lines: list[Line], history: FlowHistory) -> list[Outcome]:
    """What the log says came of items that are still open: said just now, or when the flow could not go on."""
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


def settle(run: FlowRun, said: ByHand, at: float, from_log: bool = False) -> None:
    """`from_log`: it was said of a flow that had failed or could not go on. Where it cannot be, the item fails: to try
    it would be against what was said.
    """
    item = run.history.items.get(said.item)
    if run.released or item is None or not item.is_open:
        log.warning("flow %s: item %s is done; what %s asked for is not", run.id, said.item, said.by or "someone")
    elif isinstance(said, ResetItem):
        if item.state == "waiting":
            run.log(at, redriven(said, item.number, run.seq + 1, midway=True))
            run.wait_for_retry(item, at, at)
            run.ring()
    elif isinstance(run.driver, ActionItems) and (why := misfit(item.step, said)):
        told = f"what {said.by or 'someone'} says came of it was refused: {why}"
        log.warning("flow %s: %s: %s", run.id, item.step, told)
        if from_log:
            run.give_up(item, gave_up_by_hand(item, OutputError(f"step {item.step}: {told}"), at), at)
        else:
            run.log(at, CompletionRefused(item=item.number, why=told))
    else:
        run.completed_by_hand(item, said)


def misfit(step: str, said: ByHand) -> str:
    """Why the action cannot have given that; none where it can, or where this process does not know the action."""
    if isinstance(said, CompleteItem):
        try:
            action_named(step).signature.read_result(bytes(said.result).decode())
        except UnknownDefinitionError:
            return ""
        except DeserializationError as error:
            return f"the action does not return such a result: {redact(str(error.__cause__ or error), 300)}"
    return ""

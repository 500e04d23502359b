"""Say in words how a flow's children stand."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from redrive.explain.explanation import Explanation
from redrive.explain.flow_facts import FlowFacts
from redrive.explain.hidden_payloads import call_text
from redrive.explain.parts import Advice, Entry, Note, Wait
from redrive.flows.child_events import ChildCancelRequested, ChildCompleted, ChildEnd, ChildFailed, ChildSignalled
from redrive.flows.events import FlowFailed, Line, Redriven
from redrive.formatting.text import format_error, summarize
from redrive.stores.records import FlowRecord, FlowStatus

MOST_COUNTED = 10_000
"""How many children of one flow are counted."""


def describe_end(event: ChildEnd, flow_id: str, result: str) -> str:
    """How the child ended; `result` is a summary of its result."""
    if isinstance(event, ChildCompleted):
        return f"flow {flow_id}, completed: {result}"
    if not isinstance(event, ChildFailed):
        return f"flow {flow_id}, cancelled{': ' if event.why else ''}{summarize(event.why)}"
    if not event.error:
        return f"it was not started: {summarize(event.message)}"
    return f"flow {flow_id}, failed: {format_error(event.error, event.message)}; see redrive explain {flow_id}"


def describe_told(event: ChildCancelRequested | ChildSignalled) -> str:
    """What the flow's code told a child."""
    if isinstance(event, ChildCancelRequested):
        return f"its code asked to cancel child {event.child}"
    return f"signal {event.signal}({call_text(event.args)}) was sent to child {event.child}"


def tell_of_taken_failure(record: FlowRecord, lines: Sequence[Line], timeline: Sequence[Entry]) -> None:
    """Where a child was redriven by itself, say that its parent does not learn what comes of it."""
    reopened = [line.event for line in lines if isinstance(line.event, Redriven) and not line.event.midway]
    if record.parent is None or not reopened or reopened[-1].with_parent:
        return
    note = next((one for one in reversed(timeline) if isinstance(one, Note) and one.what == "redriven"), None)
    if note is not None:
        told = "its parent had taken the failure, and does not await this flow again unless it is redriven, too"
        note.detail = f"{note.detail}; {told}" if note.detail else told


def with_children(explanation: Explanation, counts: Mapping[str, Mapping[FlowStatus, int]]) -> Explanation:
    """Return the explanation with how many children the flow and its open children have, by status.

    counts: by the id of the parent.
    """
    waits = [
        msgspec.structs.replace(wait, what=f"{wait.what}, which has {_children_of_its_own(counts[wait.flow])}")
        if wait.flow in counts
        else wait
        for wait in explanation.waits_for
    ]
    return msgspec.structs.replace(explanation, waits_for=waits, children=dict(counts.get(explanation.flow_id, {})))


def _children_of_its_own(counts: Mapping[FlowStatus, int]) -> str:
    total = sum(counts.values())
    return (
        f"{MOST_COUNTED:,} or more children of its own"
        if total >= MOST_COUNTED
        else (f"{total:,} {'child' if total == 1 else 'children'} of its own")
    )


def open_children(facts: FlowFacts) -> Iterator[Wait]:
    if facts.history.ending is None:
        for child in facts.history.children.open:
            yield Wait(what=f"the end of child {child.number} ({child.definition}, flow {child.flow})", flow=child.flow)


def look_at_child(facts: FlowFacts) -> list[Advice]:
    """Propose to look at the child that the flow waits for, or that failed it."""
    children = facts.history.children
    ending = facts.history.ending
    if isinstance(ending, FlowFailed) and ending.child is not None:
        child = children.by_number.get(ending.child)
        if child is not None:
            text = "see why its child failed, and fix the cause; a redrive of this flow redrives the child"
            return [Advice(text, f"redrive explain {child.flow}")]
    if ending is None and children.any_open:
        return [Advice("see what its child waits for", f"redrive explain {children.open[0].flow}")]
    return []

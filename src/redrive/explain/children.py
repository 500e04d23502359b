"""Say in words how a flow's children stand."""

from collections.abc import Iterator

from redrive.explain.flow_facts import FlowFacts
from redrive.explain.hidden_payloads import call_text
from redrive.explain.parts import Advice, Wait
from redrive.flows.child_events import ChildCancelRequested, ChildCompleted, ChildEnd, ChildFailed, ChildSignalled
from redrive.flows.events import FlowFailed
from redrive.formatting.text import format_error, summarize


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


def open_children(facts: FlowFacts) -> Iterator[Wait]:
    if facts.history.ending is None:
        for child in facts.history.children.open:
            yield Wait(what=f"the end of child {child.number} ({child.definition}, flow {child.flow})")


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

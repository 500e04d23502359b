"""Describe how a flow ended."""

from redrive.explain.advice import is_crash_loop
from redrive.explain.flow_facts import FlowFacts, format_signature
from redrive.explain.hidden_payloads import value_text
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.formatting.text import format_count, format_error, summarize
from redrive.formatting.times import format_duration


def completed_headline(facts: FlowFacts) -> str:
    took = format_duration((facts.record.finished_at or facts.began) - facts.began)
    # A returned attempt is followed by one of the same number, so numbers tell which items were retried.
    retried = sum(any(attempt.number > 1 for attempt in item.attempts) for item in facts.items)
    steps = format_count(len(facts.items), "step")
    retries = f"; {retried} of {steps} took more than one attempt" if retried else ""
    ending = facts.history.ending
    result = f": {value_text(ending.result)}" if isinstance(ending, FlowCompleted) else ""
    return f"completed in {took}{retries}{result}"


def continued_headline(facts: FlowFacts) -> str:
    """Of an earlier run."""
    took = format_duration((facts.record.finished_at or facts.began) - facts.began)
    return f"run {facts.history.run} continued as new after {took}; the flow is in run {facts.current_run}"


def cancelled_headline(facts: FlowFacts) -> str:
    requested = facts.history.cancel_requested
    forced = " at once" if requested is not None and requested.force else ""
    ending = facts.history.ending
    because = f": {summarize(ending.why)}" if isinstance(ending, FlowCancelled) and ending.why else ""
    return f"cancelled{forced}{facts.signature('cancel_requested')}{because}"


def failed_headline(facts: FlowFacts) -> str:
    ending = facts.history.ending
    if not isinstance(ending, FlowFailed):
        return "failed for good"
    discarded = ""
    if facts.dead is not None and facts.is_discarded:
        discarded = f", and discarded{format_signature(facts.dead.by, facts.dead.why)}"
    return f"{_cause(facts, ending)}{discarded}: {format_error(ending.error.type, ending.error.message)}"


def _cause(facts: FlowFacts, ending: FlowFailed) -> str:
    item = facts.history.items.get(ending.item) if ending.item is not None else None
    if item is not None:
        attempts = format_count(item.attempt, "attempt")
        uncompensated = f"; could not be compensated: {', '.join(facts.uncompensated)}" if facts.uncompensated else ""
        return f"failed for good: {item.step} gave up after {attempts} ({ending.kind}{uncompensated})"
    if is_crash_loop(ending):
        return "failed for good: it takes its workers down"
    if ending.kind == "poison":
        return f"failed for good: {'a value that it has stored' if facts.items else 'its input'} cannot be read"
    if ending.kind == "graph":
        return "failed for good: a step could not be started"
    return "failed for good in its own code"

"""Describe a retry decision in words."""

from redrive.failures.redaction import redact
from redrive.formatting.times import format_duration
from redrive.policies.decision import Because, Decision, RetryAt

LONGEST_DESCRIPTION = 600


def describe_decision(decision: Decision) -> str:
    """Name the rule that matched, the limits that applied, and how the wait was computed."""
    because = decision.because
    parts = _rule(because)
    if isinstance(decision, RetryAt):
        if because.retries is not None:
            parts.append(f"retry {because.retry_number + 1} of {because.retries} that it grants")
        parts.append(_wait(because))
    else:
        parts.insert(0, because.detail)
        if because.retry_after is not None and decision.kind != "retry_after":
            parts.append(f"Retry-After asked for {format_duration(because.retry_after)}")
    if because.retry_after_note:
        parts.append(f"Retry-After: {because.retry_after_note}")
    if because.deadline_left is not None and (isinstance(decision, RetryAt) or decision.kind != "deadline"):
        left = because.deadline_left
        parts.append(f"{format_duration(left)} left until the deadline" if left > 0 else "the deadline has passed")
    if because.circuit != "none":
        parts.append(f"circuit {because.circuit}")
    if because.budget_left is not None:
        parts.append(f"{because.budget_left:g} retries left in the budget")
    return redact("; ".join(part for part in parts if part), LONGEST_DESCRIPTION)


def _rule(because: Because) -> list[str]:
    if because.rule == "lost":
        return ["a lost worker is not the work's failure"]
    if because.rule == "lost, to blame":
        return ["the attempt took its worker or its process down"]
    if because.rule in ("none", "never_on"):
        return []
    return [f"{because.rule} matches {because.matched}" if because.matched else f"{because.rule} applies"]


def _wait(because: Because) -> str:
    if because.retry_after is not None and because.retry_after > 0:
        lifted = f", lifted to the floor of {format_duration(because.wait)}" if because.lifted_to_floor else ""
        return f"Retry-After asked for {format_duration(because.retry_after)}{lifted}"
    parts = [] if because.raw is None else [f"backoff {format_duration(because.raw)}"]
    if because.raw is not None and because.cap is not None and because.raw > because.cap:
        parts.append(f"capped at {format_duration(because.cap)}")
    low, high = because.low, because.high
    if because.lifted_to_floor and low is not None:
        parts.append(f"lifted to the floor of {format_duration(low)}")
    if low is not None and high is not None and high > low:
        span = f"{format_duration(low)} to {format_duration(high)}"
        parts.append(f"{because.jitter} jitter drew {format_duration(because.wait)} from {span}")
    return ", ".join(parts)

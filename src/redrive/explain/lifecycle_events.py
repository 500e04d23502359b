"""The lifecycle of a work item as events: each says one thing that a line of the log implies."""

import msgspec

from redrive.explain.decision_text import describe_decision
from redrive.failures.failure import Category
from redrive.flows.event import Event
from redrive.flows.events import AnyEvent, AttemptFailed, AttemptReturned, AttemptStarted, ItemGaveUp, ItemStarted
from redrive.policies.decision import RetryAt


class WorkNotCompleted(Event, frozen=True, kw_only=True):
    """An attempt ended without completing its work, which is not given up."""

    item: int
    attempt: int
    reason: str
    """Why the failure is transient, or why the attempt did not count."""
    error: str = ""
    """The type of the error."""
    message: str = ""
    status: int | None = None
    """The HTTP status, if there was one."""
    category: Category | None = None


class WorkFailed(Event, frozen=True, kw_only=True):
    """A work item failed for good."""

    item: int
    attempt: int
    """The last attempt."""
    kind: str
    """How it gave up: exhausted, permanent, deadline, ..."""
    reason: str
    """Why there is no further attempt, in words."""
    error: str
    message: str
    status: int | None = None
    category: Category | None = None


class RetryScheduled(Event, frozen=True, kw_only=True):
    """The next attempt of a work item waits for its time."""

    item: int
    attempt: int
    """The number that the next attempt will have."""
    until: float
    """When it may start, in epoch seconds."""
    wait: float
    """Seconds until then."""
    reason: str
    """The rule that matched, the limits, and how the wait was computed; or why the attempt did not count."""


Lifecycle = AttemptStarted | WorkNotCompleted | WorkFailed | RetryScheduled


def lifecycle_events(at: float, event: AnyEvent) -> list[Lifecycle]:
    """Return what a line of the log says about the lifecycle of a work item, in order; nothing for most lines."""
    if isinstance(event, AttemptStarted):
        return [msgspec.structs.replace(event, delivery="")]
    if isinstance(event, ItemStarted):
        return [AttemptStarted(item=event.item, attempt=1, timeout_at=event.timeout_at)]
    if isinstance(event, AttemptFailed):
        return _failed(at, event)
    if isinstance(event, AttemptReturned):
        # The attempt did not count: the next one has its number.
        wait = max(0.0, round(event.until - at, 6))
        return [
            WorkNotCompleted(item=event.item, attempt=event.attempt, reason=event.reason),
            RetryScheduled(item=event.item, attempt=event.attempt, until=event.until, wait=wait, reason=event.reason),
        ]
    return [_gave_up(event, event.decision.because.attempt)] if isinstance(event, ItemGaveUp) else []


def lifecycle_count(event: AnyEvent) -> int:
    """Return how many events `lifecycle_events` has for a line."""
    if isinstance(event, AttemptFailed):
        return 2 if isinstance(event.decision, RetryAt) else 1
    if isinstance(event, AttemptReturned):
        return 2
    return 1 if isinstance(event, AttemptStarted | ItemStarted | ItemGaveUp) else 0


def _failed(at: float, event: AttemptFailed) -> list[Lifecycle]:
    failure, decision = event.failure, event.decision
    if not isinstance(decision, RetryAt):
        return [_gave_up(event, event.attempt)]
    return [
        WorkNotCompleted(
            item=event.item,
            attempt=event.attempt,
            reason=failure.reason,
            error=failure.type,
            message=failure.message,
            status=failure.status,
            category=failure.category,
        ),
        RetryScheduled(
            item=event.item,
            attempt=event.attempt + 1,
            until=decision.when,
            wait=max(0.0, round(decision.when - at, 6)),
            reason=describe_decision(decision),
        ),
    ]


def _gave_up(event: AttemptFailed | ItemGaveUp, attempt: int) -> WorkFailed:
    failure, decision = event.failure, event.decision
    return WorkFailed(
        item=event.item,
        attempt=attempt,
        kind="" if isinstance(decision, RetryAt) else decision.kind,
        reason=describe_decision(decision),
        error=failure.type,
        message=failure.message,
        status=failure.status,
        category=failure.category,
    )

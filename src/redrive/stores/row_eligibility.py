"""Whether the work of a row in the retry queue may be attempted: what the view `retry_eligibility` says in SQL."""

from redrive.policies.eligibility import Eligibility, eligibility
from redrive.stores.records import RetryRow


def attempts_of(row: RetryRow) -> int:
    """Attempts begun: `attempt_number` counts those before the next one, or before the one under way."""
    return row.attempt_number + (row.status == "dispatched")


def max_attempts_of(row: RetryRow) -> int | None:
    """The first one included. -1 retries are no attempts: only the first execution is allowed then."""
    return None if row.max_retries is None else row.max_retries + 1


def eligibility_of(row: RetryRow, now: float) -> Eligibility:
    return eligibility(
        attempts=attempts_of(row),
        max_attempts=max_attempts_of(row),
        retryable=row.retryable,
        next_retry_at=row.scheduled_at if row.status == "waiting" else None,
        dependencies_satisfied=row.dependencies_satisfied,
        now=now,
        running=row.status == "dispatched",
    )

"""Applies the eligibility rule to a row of the retry queue, as the view `retry_eligibility` does in SQL."""

from redrive.policies.eligibility import Eligibility, eligibility
from redrive.stores.records import RetryRow


def attempts_of(row: RetryRow) -> int:
    """Return how many attempts have begun, the running one included."""
    return row.attempt_number + (row.status == "dispatched")


def max_attempts_of(row: RetryRow) -> int | None:
    """Return the limit of attempts, the first one included; None: no limit.

    A row with -1 retries has a limit of 0 attempts, which allows the first execution only.
    """
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

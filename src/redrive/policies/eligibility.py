"""Whether work may be attempted: the one rule behind Python, SQL, the API and the command line."""

import msgspec


class Eligibility(msgspec.Struct, frozen=True):
    """Whether and when work may be attempted again."""

    retry_eligible: bool
    """Whether another attempt is allowed at all."""
    ready: bool
    """Whether that attempt may start now."""
    reason: str
    """Why, as a short phrase."""


def eligibility(
    *,
    attempts: int,
    max_attempts: int | None,
    retryable: bool,
    next_retry_at: float | None,
    dependencies_satisfied: bool,
    now: float,
    running: bool = False,
) -> Eligibility:
    """Decide whether work may be attempted: always once, and again while it is retryable and attempts are left.

    `attempts` counts the attempts started so far, including one that is `running`. `max_attempts` includes the first
    attempt; None is no limit. The stores' view `retry_eligibility` implements the same rule in SQL.
    """
    eligible = attempts == 0 or (retryable and (max_attempts is None or attempts < max_attempts))
    if running:
        return Eligibility(eligible, False, "an attempt is under way")
    if not eligible:
        return Eligibility(False, False, "no attempts left" if retryable else "not retryable")
    if not dependencies_satisfied:
        return Eligibility(True, False, "waits for its dependencies")
    if next_retry_at is not None and next_retry_at > now:
        return Eligibility(True, False, "waits for its time")
    return Eligibility(True, True, "may be retried" if attempts else "first execution")

"""Whether work may be attempted: one rule for Python, SQL, the API and the command line."""

import msgspec


class Eligibility(msgspec.Struct, frozen=True):
    retry_eligible: bool
    """Whether it may be attempted once more at all."""
    ready: bool
    """Whether that may happen now."""
    reason: str
    """Why, in a short phrase for people."""


def eligibility(
    *,
    attempts: int,
    max_attempts: int | None,
    retryable: bool,
    next_retry_at: float | None,
    dependencies_satisfied: bool,
    now: float,
    under_way: bool = False,
) -> Eligibility:
    """The first execution is always allowed; after it, work that is retryable while attempts are left.

    `attempts` were begun so far, the one that is `under_way` included; `max_attempts` counts the first one too, and
    None is no limit. The view `retry_eligibility` of the stores says the same.
    """
    eligible = attempts == 0 or (retryable and (max_attempts is None or attempts < max_attempts))
    if under_way:
        return Eligibility(eligible, False, "an attempt is under way")
    if not eligible:
        return Eligibility(False, False, "no attempts left" if retryable else "not retryable")
    if not dependencies_satisfied:
        return Eligibility(True, False, "waits for its dependencies")
    if next_retry_at is not None and next_retry_at > now:
        return Eligibility(True, False, "waits for its time")
    return Eligibility(True, True, "may be retried" if attempts else "first execution")

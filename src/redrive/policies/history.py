"""What `decide()` knows of the past: counts and last waits, folded from the decisions made so far."""

import msgspec

from redrive.policies.decision import RetryAt
from redrive.policies.policy import Policy


class Granted(msgspec.Struct, frozen=True, gc=False):
    """What one rule has granted so far."""

    rule: str
    retries: int
    last_wait: float


class History(msgspec.Struct, frozen=True, gc=False):
    """The attempts so far. It stays small however many there were."""

    started_at: float
    """When the first attempt began."""
    attempts: int = 1
    """Attempts begun, the latest included."""
    timeouts: int = 0
    """How many of the earlier attempts were cut by their timeout."""
    granted: tuple[Granted, ...] = ()

    def granted_by(self, rule: str) -> Granted | None:
        for one in self.granted:
            if one.rule == rule:
                return one
        return None

    def after(self, decision: RetryAt) -> "History":
        """The history once the retry that `decision` grants has begun."""
        because = decision.because
        granted = Granted(because.rule, because.retry_number + 1, because.wait)
        others = [one for one in self.granted if one.rule != granted.rule] if self.granted else ()
        return History(
            self.started_at,
            self.attempts + 1,
            self.timeouts + (because.failure_kind == "timeout"),
            (*others, granted),
        )


def attempt_timeout(policy: Policy, history: History) -> float | None:
    """Time for the attempt that begins now: more after a timeout, but it grows only once."""
    if policy.attempt_timeout is None or not history.timeouts:
        return policy.attempt_timeout
    return policy.attempt_timeout * policy.timeout_growth


def cut_at(policy: Policy, history: History | None, now: float) -> float | None:
    """When the attempt that begins now is cut: by its own timeout, or by the deadline of the whole. None: never.

    `history` is None before the first attempt.
    """
    timeout = policy.attempt_timeout if history is None else attempt_timeout(policy, history)
    if policy.deadline is None:
        return None if timeout is None else now + timeout
    deadline = (now if history is None else history.started_at) + policy.deadline
    return deadline if timeout is None else min(deadline, now + timeout)

"""The history that `decide()` works with: counts and last waits, folded from earlier decisions."""

import msgspec

from redrive.policies.decision import RetryAt
from redrive.policies.policy import Policy

LOST = "lost"
"""The name under which retries of lost attempts are granted where nothing says that the attempt was to blame."""
LOST_TO_BLAME = "lost, to blame"
"""The same for attempts that took their worker or their process down."""
SUSPECT_AFTER = 2
"""Work whose attempts were lost this often is a suspect: from then on a loss of its own can be told from others'."""


class Granted(msgspec.Struct, frozen=True, gc=False):
    """The retries one rule has granted so far."""

    rule: str
    retries: int
    last_wait: float


class History(msgspec.Struct, frozen=True, gc=False):
    """A summary of the attempts so far, of constant size per rule."""

    started_at: float
    """When the first attempt started."""
    attempts: int = 1
    """Attempts started, including the latest, without those that were lost through no fault of their own."""
    timeouts: int = 0
    """How many earlier attempts exceeded their timeout."""
    granted: tuple[Granted, ...] = ()

    def granted_by(self, rule: str) -> Granted | None:
        """Return what the rule has granted; None when it has granted nothing."""
        for one in self.granted:
            if one.rule == rule:
                return one
        return None

    def after(self, decision: RetryAt) -> "History":
        """Return the history as of the start of the retry that `decision` grants."""
        because = decision.because
        granted = Granted(because.rule, because.retry_number + 1, because.wait)
        others = [one for one in self.granted if one.rule != granted.rule] if self.granted else ()
        return History(
            self.started_at,
            # The attempt was lost with its worker, which others may have taken down: it does not count.
            self.attempts + (because.rule != LOST),
            self.timeouts + (because.failure_kind == "timeout"),
            (*others, granted),
        )


def is_suspect(history: History) -> bool:
    """Whether so many attempts lost their worker that the work itself may be taking it down."""
    for one in history.granted:
        if one.rule == LOST_TO_BLAME or (one.rule == LOST and one.retries >= SUSPECT_AFTER):
            return True
    return False


def attempt_timeout(policy: Policy, history: History) -> float | None:
    """Return the time limit of the attempt that starts now; it is longer after a timeout, but grows only once."""
    if policy.attempt_timeout is None or not history.timeouts:
        return policy.attempt_timeout
    return policy.attempt_timeout * policy.timeout_growth


def cut_at(policy: Policy, history: History | None, now: float) -> float | None:
    """Return when the attempt that starts now is cut, by its own timeout or by the deadline; None: never.

    `history` is None for the first attempt.
    """
    timeout = policy.attempt_timeout if history is None else attempt_timeout(policy, history)
    if policy.deadline is None:
        return None if timeout is None else now + timeout
    deadline = (now if history is None else history.started_at) + policy.deadline
    return deadline if timeout is None else min(deadline, now + timeout)

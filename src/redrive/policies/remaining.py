"""Foresee the attempts that are left to work that has failed, if each of them fails in the same way."""

from typing import NamedTuple

from redrive.failures.failure import Failure
from redrive.failures.matching import Match
from redrive.policies.decide import decide
from redrive.policies.decision import GiveUp, RetryAt
from redrive.policies.history import History, attempt_timeout
from redrive.policies.policy import Policy
from redrive.policies.preview import CUT_ATTEMPT, Ending, failure_like, usual_failure

HORIZON = 1_000
"""The most attempts that are played through; a policy that allows more counts as unlimited."""


class RemainingAttempt(NamedTuple):
    earliest: float
    latest: float | None
    """None: if every wait is the longest, the work gives up before it."""
    timeout: float | None


class Remaining(NamedTuple):
    attempts: tuple[RemainingAttempt, ...]
    """All that are left."""
    ends: Ending
    """Why there is no attempt after the last one."""
    gives_up_at: float | None
    """When it gives up at the latest; None: never. Attempts without a time limit count as taking no time."""


class _Path(NamedTuple):
    starts: list[float]
    timeouts: list[float | None]
    last: GiveUp | None
    end: float


def remaining(
    policy: Policy, history: History, failure: Failure, began: float, now: float, *, running: bool
) -> Remaining:
    """Play the attempt that began, or begins, at `began`, and those after it. One that runs is not in the answer."""
    early = _play(policy, history, failure, began, 0.0, max(began, now))
    late = _play(policy, history, failure, began, 1.0, max(began, now))
    skipped = int(running)
    attempts = tuple(
        RemainingAttempt(start, late.starts[place] if place < len(late.starts) else None, timeout)
        for place, (start, timeout) in enumerate(zip(early.starts, early.timeouts, strict=True))
        if place >= skipped
    )
    gives_up_at = None if late.last is None else late.end
    return Remaining(attempts, "unlimited" if early.last is None else early.last.kind, gives_up_at)


def likely_failure(policy: Policy, rule: str) -> Failure:
    """Return an example of the failures that the part of the policy answers; for none, of those it mainly retries."""
    match: Match | None = policy.retry_on if rule == "retry_on" else None
    for number, one in enumerate(policy.rules):
        if rule == f"rules[{number}]":
            match = one.match
    return usual_failure(policy) if match is None else failure_like(match)


def _play(policy: Policy, history: History, failure: Failure, began: float, draw: float, not_before: float) -> _Path:
    path_starts, timeouts, end = [began], [attempt_timeout(policy, history)], began
    for _ in range(HORIZON):
        timeout = attempt_timeout(policy, history)
        end = path_starts[-1] + (timeout or 0.0 if draw else 0.0)
        if policy.deadline is not None:
            end = min(end, max(path_starts[-1], history.started_at + policy.deadline))
        # Whatever was to happen has not happened yet.
        end = max(end, not_before)
        decision = decide(policy, history, failure, end, lambda: draw)
        if draw and timeout is not None and isinstance(decision, RetryAt):
            # The longest attempt is one that is cut, which gives the next ones more time.
            cut = decide(policy, history, CUT_ATTEMPT, end, lambda: draw)
            if isinstance(cut, RetryAt) and cut.because.rule == decision.because.rule:
                decision = cut
        if isinstance(decision, GiveUp):
            return _Path(path_starts, timeouts, decision, end)
        history = history.after(decision)
        path_starts.append(decision.when)
        timeouts.append(attempt_timeout(policy, history))
    return _Path(path_starts, timeouts, None, end)

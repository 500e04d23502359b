"""What a policy will do, before it has to: every attempt with the earliest and the latest time it can begin.

Nothing here knows a formula. Two histories are played through `decide()`: one in which chance always draws the lowest
wait and attempts fail at once, and one in which it draws the highest and each attempt takes all the time it has.
"""

import builtins
from itertools import zip_longest
from typing import Literal

import msgspec

from redrive.errors import AttemptTimeoutError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.failure import Failure
from redrive.failures.http_status import status_verdict
from redrive.failures.matching import Match, as_match, lineage, qualified_name
from redrive.policies.decide import decide
from redrive.policies.decision import GiveUp, GiveUpKind, RetryAt
from redrive.policies.history import History, attempt_timeout
from redrive.policies.policy import Policy

ROWS = 20
"""Rows shown where nobody asks for more."""
HORIZON = 10_000
"""Attempts that are played through at most; beyond it a policy counts as unlimited."""

PLAIN_FAILURE = Failure(category="transient", reason="a failure that may pass, for the preview")
CUT_ATTEMPT = Failure(
    category="transient",
    reason="the attempt was cut by its timeout, for the preview",
    kind="timeout",
    type=qualified_name(AttemptTimeoutError),
    lineage=lineage(AttemptTimeoutError),
)
"""The failure of an attempt that its own timeout ended."""

Ending = GiveUpKind | Literal["unlimited"]


class PreviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. Times are seconds from the start of the first."""

    attempt: int
    """From 1."""
    raw: float | None = None
    """The backoff before it, without cap and jitter."""
    low: float | None = None
    """The shortest wait before it that chance can draw."""
    high: float | None = None
    """The longest wait before it that chance can draw."""
    earliest: float | None = None
    """When it begins if every wait before it was the shortest and no attempt took time."""
    latest: float | None = None
    """When it begins if every wait before it was the longest; None: the deadline then comes first."""
    timeout: float | None = None
    """The time it has; the longer one if an attempt before it was cut."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to work that fails each time in the same way."""

    failure: str
    """The failure, in words."""
    answered_by: str
    """The part of the policy that answers it: "rules[0]", "retry_on", "never_on", "none"."""
    rows: tuple[PreviewRow, ...]
    more_rows: bool
    """True when there are more attempts than rows."""
    ends: Ending
    """Why there is no attempt after the last one."""
    because: str
    """The same in words."""
    attempts: int | None
    """Attempts at most; None: no limit."""
    attempts_at_worst: int | None
    """Attempts that are made even when every wait is the longest."""
    worst_wait: float | None
    """The sum of all waits at their longest; None: no limit."""
    worst_total: float | None
    """Seconds to the end of the last attempt, at worst. None: no limit, or attempts have no timeout and no deadline."""
    uncut_total: float | None
    """The same if there were no deadline, with attempts that have no timeout taken to need no time."""


class _Path:
    """One history, played through."""

    def __init__(self) -> None:
        self.granted: list[RetryAt] = []
        self.starts: list[float] = [0.0]
        self.timeouts: list[float | None] = []
        self.end = 0.0
        """When the last attempt ended."""
        self.last: GiveUp | None = None
        """None when the horizon came first."""

    @property
    def attempts(self) -> int | None:
        return len(self.starts) if self.last else None

    @property
    def waited(self) -> float:
        return sum((one.because.wait for one in self.granted), 0.0)


def preview(policy: Policy, failure: Failure | None = None, rows: int = ROWS, horizon: int = HORIZON) -> Preview:
    """The attempts of work that fails each time with `failure`; when it is None, with what the policy retries first."""
    failure = failure or usual_failure(policy)
    early = _play(policy, failure, 0.0, horizon)
    late = _play(policy, failure, 1.0, horizon)
    uncut = late if policy.deadline is None else _play(policy.replace(deadline=None), failure, 1.0, horizon)
    played = [
        PreviewRow(
            attempt=index + 1,
            raw=low.because.raw if low else None,
            low=low.because.low if low else None,
            high=high.because.high if high else low.because.high if low else None,
            earliest=early_start,
            latest=late_start,
            timeout=timeout if late_start is not None else policy.attempt_timeout,
        )
        for index, (low, high, early_start, late_start, timeout) in enumerate(
            zip_longest(
                [None, *early.granted][:rows],
                [None, *late.granted][:rows],
                early.starts[:rows],
                late.starts[:rows],
                late.timeouts[:rows],
            )
        )
    ]
    last = early.last
    first = early.granted[0].because if early.granted else last.because if last else None
    return Preview(
        failure=_in_words(failure),
        answered_by=first.rule if first else "none",
        rows=tuple(played),
        more_rows=len(early.starts) > rows,
        ends=last.kind if last else "unlimited",
        because=last.because.detail if last else "there is no limit on the attempts",
        attempts=early.attempts,
        attempts_at_worst=late.attempts,
        worst_wait=late.waited if late.last else policy.deadline,
        worst_total=_worst_total(policy, late),
        uncut_total=uncut.end if uncut.last else None,
    )


def preview_all(policy: Policy, rows: int = ROWS) -> tuple[Preview, ...]:
    """A preview for each part of the policy that answers failures: its rules in order, then `retry_on`."""
    return tuple(preview(policy, failure, rows) for failure in usual_failures(policy))


def usual_failures(policy: Policy) -> list[Failure]:
    """An example for each part of the policy that answers failures."""
    matches = [rule.match for rule in policy.rules]
    if policy.retry_on or not matches:
        matches.append(policy.retry_on)
    return [failure_like(match) for match in matches]


def usual_failure(policy: Policy) -> Failure:
    """The failure a policy is first of all about: any that may pass, or else an example of what it names."""
    if policy.retry_on or not policy.rules:
        return failure_like(policy.retry_on)
    return failure_like(policy.rules[0].match)


def failure_like(match: Match) -> Failure:
    """An example of the failures that are meant; for a predicate nobody can give one, so it is a plain one."""
    if not match or "transient" in match.categories or "any" in match.categories:
        return PLAIN_FAILURE
    if match.types:
        kind = match.types[0]
        return Failure(category="unknown", reason="", type=qualified_name(kind), lineage=lineage(kind))
    if match.names:
        return _failure_named(match.names[0])
    if match.statuses:
        status = match.statuses[0][0]
        verdict = status_verdict(status)
        return Failure(category=verdict.category, reason=verdict.reason, status=status, not_sent=verdict.not_sent)
    if match.categories:
        category: Literal["permanent", "unknown"] = "permanent" if match.categories[0] == "permanent" else "unknown"
        return Failure(category=category, reason="for the preview")
    return PLAIN_FAILURE


def read_failure(text: str) -> Failure:
    """The failure that a person names: a class name, "status:503", a category, or "timeout" for an attempt cut."""
    return CUT_ATTEMPT if text == "timeout" else failure_like(as_match(text))


def _failure_named(name: str) -> Failure:
    bare = name.rpartition(".")[2]
    known = getattr(builtins, bare, None)
    if isinstance(known, type) and issubclass(known, Exception) and name in lineage(known):
        # Made without its arguments, which the classes of builtins all allow.
        return DEFAULT_CLASSIFIER.failure_of(known.__new__(known), 0.0)
    return Failure(category="unknown", reason="nothing is known of this class here", type=name, lineage=(name, bare))


def _play(policy: Policy, failure: Failure, draw: float, horizon: int) -> _Path:
    path = _Path()
    history = History(0.0)
    takes_time = draw > 0
    for _ in range(horizon):
        timeout = attempt_timeout(policy, history)
        path.timeouts.append(timeout)
        path.end = path.starts[-1] + (timeout or 0.0 if takes_time else 0.0)
        decision = decide(policy, history, failure, path.end, lambda: draw)
        if takes_time and timeout is not None and isinstance(decision, RetryAt):
            # The longest attempt is one that is cut: the next ones then have more time.
            cut = decide(policy, history, CUT_ATTEMPT, path.end, lambda: draw)
            if isinstance(cut, RetryAt) and cut.because.rule == decision.because.rule:
                decision = cut
        if isinstance(decision, GiveUp):
            path.last = decision
            break
        path.granted.append(decision)
        path.starts.append(decision.when)
        history = history.after(decision)
    return path


def _worst_total(policy: Policy, late: _Path) -> float | None:
    if policy.attempt_timeout is None or late.last is None or late.last.kind == "deadline":
        # Some attempt can then run, or some wait can end, right up to the deadline.
        return policy.deadline
    return late.end if policy.deadline is None else min(late.end, policy.deadline)


def _in_words(failure: Failure) -> str:
    if failure.kind == "timeout":
        return "an attempt cut by its timeout"
    if failure.type:
        return failure.type.removeprefix("builtins.")
    return f"status {failure.status}" if failure.status is not None else f"a {failure.category} failure"

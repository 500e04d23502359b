"""Preview what a policy will do: every attempt, with the earliest and the latest time it can start.

There are no formulas here. Two runs are played through `decide()`: one with the shortest waits and attempts that fail
immediately, and one with the longest waits and attempts that use all the time they have.
"""

import builtins
from itertools import zip_longest
from typing import Literal

import msgspec

from redrive.determinism.dice import Dice
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
"""Default number of rows."""
HORIZON = 10_000
"""The most attempts that are played through; a policy that allows more counts as unlimited."""

PLAIN_FAILURE = Failure(category="transient", reason="a transient failure, for the preview")
CUT_ATTEMPT = Failure(
    category="transient",
    reason="the attempt was cut by its timeout, for the preview",
    kind="timeout",
    type=qualified_name(AttemptTimeoutError),
    lineage=lineage(AttemptTimeoutError),
)
"""The failure of an attempt that exceeded its own timeout."""

Ending = GiveUpKind | Literal["unlimited"]


class PreviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. Times are seconds since the start of the first."""

    attempt: int
    """Counted from 1."""
    raw: float | None = None
    """The backoff before it, before cap and jitter."""
    low: float | None = None
    """The shortest wait before it that jitter can draw."""
    high: float | None = None
    """The longest wait before it that jitter can draw."""
    earliest: float | None = None
    """When it starts if every earlier wait was the shortest and no attempt took time."""
    latest: float | None = None
    """When it starts if every earlier wait was the longest; None: the deadline then comes first."""
    timeout: float | None = None
    """Its time limit; the extended one if an earlier attempt was cut."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to work that keeps failing in the same way."""

    failure: str
    """A description of the failure."""
    answered_by: str
    """The part of the policy that applies: "rules[0]", "retry_on", "never_on", "none"."""
    rows: tuple[PreviewRow, ...]
    more_rows: bool
    """True when there are more attempts than rows."""
    ends: Ending
    """Why there is no attempt after the last one."""
    because: str
    """The same as a sentence."""
    attempts: int | None
    """The most attempts; None: no limit."""
    attempts_at_worst: int | None
    """Attempts that are made even if every wait is the longest."""
    least_total: float | None
    """Seconds until it gives up if each wait is the shortest and no attempt takes time; None: it never does."""
    worst_wait: float | None
    """The sum of the longest waits; None: no limit."""
    worst_total: float | None
    """Seconds until the last attempt ends, at worst. None: no limit, or neither a timeout nor a deadline is set."""
    uncut_total: float | None
    """The same without the deadline; attempts without a timeout count as taking no time."""


class _Path:
    """One run, played through."""

    def __init__(self) -> None:
        self.granted: list[RetryAt] = []
        self.starts: list[float] = [0.0]
        self.timeouts: list[float | None] = []
        self.end = 0.0
        """When the last attempt ended."""
        self.last: GiveUp | None = None
        """None when the horizon was reached first."""

    @property
    def attempts(self) -> int | None:
        return len(self.starts) if self.last else None

    @property
    def waited(self) -> float:
        return sum((one.because.wait for one in self.granted), 0.0)


def preview(policy: Policy, failure: Failure | None = None, rows: int = ROWS, horizon: int = HORIZON) -> Preview:
    """Preview the attempts of work that always fails with `failure`; by default, with a failure the policy retries."""
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
        least_total=early.end if last else None,
        worst_wait=late.waited if late.last else policy.deadline,
        worst_total=_worst_total(policy, late),
        uncut_total=uncut.end if uncut.last else None,
    )


def example_starts(policy: Policy, failure: Failure, dice: Dice, most: int = ROWS) -> tuple[float, ...]:
    """Return when the attempts begin in one run in which jitter draws from the dice, and attempts take no time."""
    history, starts = History(0.0), [0.0]
    while len(starts) < most:
        decision = decide(policy, history, failure, starts[-1], dice)
        if isinstance(decision, GiveUp):
            break
        starts.append(decision.when)
        history = history.after(decision)
    return tuple(starts)


def preview_all(policy: Policy, rows: int = ROWS) -> tuple[Preview, ...]:
    """Return a preview for each part of the policy that retries: its rules in order, then `retry_on`."""
    return tuple(preview(policy, failure, rows) for failure in usual_failures(policy))


def usual_failures(policy: Policy) -> list[Failure]:
    """Return an example failure for each part of the policy that retries."""
    matches = [rule.match for rule in policy.rules]
    if policy.retry_on or not matches:
        matches.append(policy.retry_on)
    return [failure_like(match) for match in matches]


def usual_failure(policy: Policy) -> Failure:
    """Return an example of the failures a policy mainly retries."""
    if policy.retry_on or not policy.rules:
        return failure_like(policy.retry_on)
    return failure_like(policy.rules[0].match)


def failure_like(match: Match) -> Failure:
    """Return an example of the failures that match; for a predicate, which has none, a plain transient failure."""
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
    """Read a failure from text: a class name, "status:503", a category, or "timeout" for an attempt that was cut."""
    return CUT_ATTEMPT if text == "timeout" else failure_like(as_match(text))


def _failure_named(name: str) -> Failure:
    bare = name.rpartition(".")[2]
    known = getattr(builtins, bare, None)
    if isinstance(known, type) and issubclass(known, Exception) and name in lineage(known):
        # All builtin exception classes can be created without arguments.
        return DEFAULT_CLASSIFIER.failure_of(known.__new__(known), 0.0)
    return Failure(category="unknown", reason="this class is not known here", type=name, lineage=(name, bare))


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
            # The longest attempt is one that is cut, which gives the next ones more time.
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
        # An attempt or a wait can then last right up to the deadline.
        return policy.deadline
    return late.end if policy.deadline is None else min(late.end, policy.deadline)


def _in_words(failure: Failure) -> str:
    if failure.kind == "timeout":
        return "an attempt cut by its timeout"
    if failure.type:
        return failure.type.removeprefix("builtins.")
    return f"status {failure.status}" if failure.status is not None else f"a {failure.category} failure"

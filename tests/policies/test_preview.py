"""The preview: what it promises is what decide() does."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.failure import Failure
from redrive.failures.matching import ANYTHING, NOTHING, Match
from redrive.policies.backoff import Backoff, constant, exponential
from redrive.policies.decide import decide
from redrive.policies.decision import GiveUp
from redrive.policies.history import History, attempt_timeout
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, Rule
from redrive.policies.preview import (
    CUT_ATTEMPT,
    PLAIN_FAILURE,
    failure_like,
    preview,
    preview_all,
    read_failure,
)


@pytest.mark.promise("P5")
def test_the_default_policy_waits_500_to_750_ms_before_the_first_retry() -> None:
    shown = preview(Policy())
    assert [(row.attempt, row.raw, row.low, row.high) for row in shown.rows] == [
        (1, None, None, None),
        (2, 0.5, 0.5, 0.75),
        (3, 1.0, 1.0, 1.25),
    ]
    assert [(row.earliest, row.latest) for row in shown.rows] == [(0.0, 0.0), (0.5, 0.75), (1.5, 2.0)]
    assert (shown.ends, shown.attempts, shown.attempts_at_worst) == ("exhausted", 3, 3)
    assert (shown.worst_wait, shown.worst_total, shown.uncut_total) == (2.0, 60.0, 2.0)


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("kind", "waits"),
    [("exponential", [1, 2, 4, 8, 16]), ("linear", [1, 2, 3, 4, 5]), ("constant", [1, 1, 1, 1, 1])],
)
def test_waits_follow_the_formulas(kind: str, waits: list[float]) -> None:
    policy = Policy(attempts=6, backoff=Backoff(kind, 1.0), jitter=Jitter("none"), deadline=None)  # type: ignore[arg-type]  # a kind
    assert [row.high for row in preview(policy).rows[1:]] == waits


def test_attempt_timeouts_are_part_of_the_worst_case_and_grow_once() -> None:
    policy = Policy(attempts=3, backoff=constant(1.0), jitter=Jitter("none"), attempt_timeout=4.0)
    shown = preview(policy)
    assert [row.timeout for row in shown.rows] == [4.0, 6.0, 6.0]
    assert [row.latest for row in shown.rows] == [0.0, 5.0, 12.0]
    assert shown.worst_total == shown.uncut_total == 18.0


def test_timeouts_that_have_a_limit_of_their_own_are_not_assumed_beyond_it() -> None:
    policy = Policy(attempts=4, timeout_retries=0, attempt_timeout=4.0, jitter=Jitter("none"), backoff=constant(1.0))
    assert preview(policy).attempts_at_worst == 4
    assert preview(policy, CUT_ATTEMPT).attempts == 1


def test_the_deadline_cuts_what_comes_too_late() -> None:
    policy = Policy(attempts=5, backoff=exponential(1.0), jitter=Jitter("full"), deadline=5.0, max_wait=None)
    shown = preview(policy)
    assert shown.attempts == 5
    assert shown.attempts_at_worst == 3
    assert [row.latest for row in shown.rows] == [0.0, 1.0, 3.0, None, None]
    assert [row.earliest for row in shown.rows] == [0.0] * 5
    assert (shown.worst_total, shown.uncut_total) == (5.0, 15.0)


def test_what_can_never_happen_has_no_row() -> None:
    shown = preview(Policy(attempts=9, backoff=constant(2.0), jitter=Jitter("none"), deadline=5.0))
    assert (len(shown.rows), shown.ends) == (3, "deadline")
    assert "5" not in shown.because or "left" in shown.because


def test_an_unlimited_policy_shows_a_bounded_number_of_rows() -> None:
    shown = preview(Policy(attempts=None, deadline=None))
    assert (len(shown.rows), shown.more_rows, shown.ends) == (20, True, "unlimited")
    assert shown.attempts is shown.worst_wait is shown.worst_total is shown.uncut_total is None


def test_totals_count_the_attempts_that_are_not_shown() -> None:
    policy = Policy(attempts=101, backoff=constant(1.0), jitter=Jitter("none"), deadline=None, attempt_timeout=1.0)
    shown = preview(policy, rows=5)
    assert (len(shown.rows), shown.more_rows, shown.attempts) == (5, True, 101)
    assert shown.worst_total == pytest.approx(1.0 + 100 * 1.5 + 100)


@pytest.mark.parametrize(
    ("failure", "attempts", "ends"),
    [
        ("transient", 3, "exhausted"),
        ("unknown", 1, "unknown"),
        ("permanent", 1, "permanent"),
        ("ConnectionResetError", 3, "exhausted"),
        ("ValueError", 1, "permanent"),
        ("app.Strange", 1, "unknown"),
        ("status:503", 3, "exhausted"),
        ("status:404", 1, "permanent"),
        ("timeout", 3, "exhausted"),
    ],
)
def test_a_failure_can_be_named(failure: str, attempts: int, ends: str) -> None:
    shown = preview(Policy(), read_failure(failure))
    assert (shown.attempts, shown.ends) == (attempts, ends)


def test_each_rule_is_shown_with_a_failure_of_its_own() -> None:
    policy = Policy(
        attempts=None,
        rules=(
            Rule(match=Match(names=("app.Busy",)), retries=5),
            Rule(match=Match(types=(KeyError,)), retries=4),
            Rule(match=Match(statuses=((429, 429),)), retries=3),
            Rule(match=Match(categories=("permanent",)), retries=2),
        ),
        deadline=None,
    )
    shown = preview_all(policy)
    assert [one.answered_by for one in shown] == ["rules[0]", "rules[1]", "rules[2]", "rules[3]", "retry_on"]
    assert [one.attempts for one in shown] == [6, 5, 4, 3, None]
    assert [one.failure for one in shown] == [
        "app.Busy",
        "KeyError",
        "status 429",
        "a permanent failure",
        "a transient failure",
    ]
    assert preview(policy.replace(retry_on=NOTHING)).answered_by == "rules[0]"


def test_work_that_is_not_idempotent_is_shown_as_it_will_be() -> None:
    assert preview(Policy(idempotent=False)).ends == "not_idempotent"


def test_a_predicate_gets_a_plain_failure() -> None:
    assert failure_like(Match(predicates=(lambda error: True,))) is PLAIN_FAILURE
    assert failure_like(ANYTHING) is PLAIN_FAILURE


plain_jitters = st.sampled_from([Jitter("none"), Jitter("full"), Jitter("equal"), Jitter("decorrelated")])
jitters = (
    plain_jitters
    | st.floats(0, 5).map(lambda amount: Jitter("additive", amount))
    | st.floats(0, 1).map(lambda amount: Jitter("proportional", amount))
)


@given(
    kind=st.sampled_from(["constant", "linear", "exponential"]),
    base=st.floats(0, 100),
    factor=st.floats(1, 5),
    jitter=jitters,
    cap=st.none() | st.floats(0.001, 100),
    deadline=st.none() | st.floats(1, 1000),
    timeout=st.none() | st.floats(0.1, 20),
    attempts=st.integers(1, 8),
    data=st.data(),
)
def test_no_real_run_leaves_the_ranges_of_the_preview(
    kind: str,
    base: float,
    factor: float,
    jitter: Jitter,
    cap: float | None,
    deadline: float | None,
    timeout: float | None,
    attempts: int,
    data: st.DataObject,
) -> None:
    """Any draw of chance, any mix of quick failures and timeouts: each attempt begins where the preview says it can."""
    policy = Policy(
        attempts=attempts,
        backoff=Backoff(kind, base, factor),  # type: ignore[arg-type]  # a kind
        jitter=jitter,
        max_wait=cap,
        deadline=deadline,
        attempt_timeout=timeout,
    )
    shown = preview(policy)
    share = st.floats(0, 1)
    history, now, starts = History(0.0), 0.0, [0.0]
    while True:
        may_take = attempt_timeout(policy, history)
        failure: Failure = PLAIN_FAILURE
        if may_take is not None:
            took = data.draw(share)
            failure = CUT_ATTEMPT if took == 1 else PLAIN_FAILURE
            # A running attempt is cut at the deadline.
            now = min(now + may_take * took, deadline or math.inf)
        answer = decide(policy, history, failure, now, lambda: data.draw(share))
        if isinstance(answer, GiveUp):
            break
        history, now = history.after(answer), answer.when
        starts.append(now)
    assert shown.attempts is not None
    assert shown.attempts_at_worst is not None
    assert shown.attempts_at_worst <= len(starts) <= shown.attempts
    slack = 1e-6
    for start, row in zip(starts, shown.rows, strict=False):
        assert row.earliest is not None
        assert row.earliest <= start + slack
        assert row.latest is None or start <= row.latest + slack
    if shown.worst_total is not None and timeout is not None:
        assert now <= shown.worst_total + slack

"""Whether work may be attempted: the rule, its boundaries, and what people are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.eligibility_boundaries import BOUNDARIES, Boundary

from redrive.policies.eligibility import Eligibility, eligibility

NOW = 1_700_000_000.0


def judged(
    attempts: int = 1,
    max_attempts: int | None = 3,
    retryable: bool = True,
    next_retry_at: float | None = None,
    dependencies_satisfied: bool = True,
    running: bool = False,
) -> Eligibility:
    return eligibility(
        attempts=attempts,
        max_attempts=max_attempts,
        retryable=retryable,
        next_retry_at=next_retry_at,
        dependencies_satisfied=dependencies_satisfied,
        now=NOW,
        running=running,
    )


@pytest.mark.promise("T2", "T4", "T6")
@pytest.mark.parametrize(
    "case", [case for cases in BOUNDARIES.values() for case in cases], ids=lambda case: ",".join(map(str, case))
)
def test_the_boundaries_of_attempts(case: Boundary) -> None:
    answer = judged(case.attempts, case.max_attempts, case.retryable)
    assert (answer.retry_eligible, answer.ready) == (case.eligible, case.eligible)


@pytest.mark.promise("T4")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (judged(0), Eligibility(True, True, "first execution")),
        (judged(0, 0, retryable=False), Eligibility(True, True, "first execution")),
        (judged(1), Eligibility(True, True, "may be retried")),
        (judged(3), Eligibility(False, False, "no attempts left")),
        (judged(1, retryable=False), Eligibility(False, False, "not retryable")),
        (judged(3, retryable=False), Eligibility(False, False, "not retryable")),
        (judged(next_retry_at=NOW + 0.001), Eligibility(True, False, "waits for its time")),
        (judged(0, next_retry_at=NOW + 1), Eligibility(True, False, "waits for its time")),
        (judged(next_retry_at=NOW), Eligibility(True, True, "may be retried")),
        (judged(0, dependencies_satisfied=False), Eligibility(True, False, "waits for its dependencies")),
        (
            judged(next_retry_at=NOW + 1, dependencies_satisfied=False),
            Eligibility(True, False, "waits for its dependencies"),
        ),
        (judged(3, dependencies_satisfied=False), Eligibility(False, False, "no attempts left")),
        (judged(1, running=True), Eligibility(True, False, "an attempt is under way")),
        (judged(3, running=True), Eligibility(False, False, "an attempt is under way")),
    ],
)
def test_each_answer_has_its_reason(answer: Eligibility, expected: Eligibility) -> None:
    assert answer == expected


@pytest.mark.promise("T4")
@given(
    attempts=st.integers(0, 6),
    max_attempts=st.none() | st.integers(-2, 6),
    retryable=st.booleans(),
    wait=st.none() | st.floats(-10, 10),
    dependencies_satisfied=st.booleans(),
    running=st.booleans(),
)
def test_work_is_ready_when_nothing_stands_in_its_way(
    attempts: int,
    max_attempts: int | None,
    retryable: bool,
    wait: float | None,
    dependencies_satisfied: bool,
    running: bool,
) -> None:
    next_retry_at = None if wait is None else NOW + wait
    answer = judged(attempts, max_attempts, retryable, next_retry_at, dependencies_satisfied, running)
    left = max_attempts is None or max_attempts > attempts
    due = next_retry_at is None or next_retry_at <= NOW
    assert answer.retry_eligible == (attempts == 0 or (retryable and left))
    assert answer.ready == (answer.retry_eligible and dependencies_satisfied and due and not running)
    assert answer.ready == (answer.reason in ("first execution", "may be retried"))

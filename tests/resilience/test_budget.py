"""The retry budget: a share of the requests, with a floor, over a window that slides."""

import heapq
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.resilience.budget import Budget, BudgetSettings

pytestmark = pytest.mark.promise("P14")


def spend(budget: Budget, now: float) -> int:
    """How many retries are granted until the budget is spent."""
    granted = 0
    while budget.reserve_retry(now) is not None:
        granted += 1
    return granted


def test_the_floor_is_there_for_quiet_callers() -> None:
    assert spend(Budget(BudgetSettings(ratio=0.2, floor=3)), 0) == 3


def test_beyond_the_floor_retries_are_a_share_of_the_requests() -> None:
    budget = Budget(BudgetSettings(ratio=0.2, floor=3))
    for _ in range(100):
        budget.count_request(0)
    assert spend(budget, 0) == 20


def test_what_left_the_window_counts_no_more() -> None:
    budget = Budget(BudgetSettings(ratio=0.1, floor=0, window=10))
    for _ in range(100):
        budget.count_request(0)
    assert spend(budget, 5) == 10
    for _ in range(100):
        budget.count_request(12)
    assert budget.left(12) == 0
    # The retries made at 5 leave with the window.
    assert spend(budget, 15.5) == 10


def test_a_retry_that_is_not_made_is_given_back() -> None:
    budget = Budget(BudgetSettings(floor=1, ratio=0))
    reservation = budget.reserve_retry(0)
    assert reservation is not None
    assert budget.reserve_retry(0) is None
    budget.give_back(reservation, 1)
    assert budget.reserve_retry(1) is not None


def test_giving_back_after_the_window_changes_nothing() -> None:
    budget = Budget(BudgetSettings(floor=1, ratio=0, window=10))
    reservation = budget.reserve_retry(0)
    assert reservation is not None
    budget.give_back(reservation, 100)
    assert spend(budget, 100) == 1


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 5)), max_size=200),
    st.floats(0, 1),
    st.integers(0, 5),
)
def test_retries_never_exceed_their_share_of_the_window(
    story: list[tuple[bool, float]], ratio: float, floor: int
) -> None:
    window = 10.0
    budget = Budget(BudgetSettings(ratio=ratio, floor=floor, window=window))
    now, requests, retries = 0.0, [], []
    for is_request, passes in story:
        now += passes
        if is_request:
            budget.count_request(now)
            requests.append(now)
        elif budget.reserve_retry(now) is not None:
            retries.append(now)
            # The window slides in tenths, so it reaches back for nine to ten of them.
            recent = [when for when in retries if when > now - 0.9 * window]
            asked = [when for when in requests if when >= now - window]
            assert len(recent) <= max(floor, ratio * len(asked))


def test_whoever_lines_up_is_asked_back_when_a_retry_leaves_the_window() -> None:
    budget = Budget(BudgetSettings(floor=3, ratio=0, window=60))
    for now in (0, 1, 30):
        assert budget.reserve_retry(now) is not None
    # One after the other at first; then nobody waits longer than for what leaves: two at 60, and one at 90.
    assert [budget.line_up(31) for _ in range(6)] == [51, 60, 60, 71, 90, 91]


@given(st.lists(st.floats(0, 30), max_size=30), st.integers(1, 12), st.integers(1, 30))
def test_those_who_wait_use_what_the_budget_allows(made: list[float], floor: int, waiters: int) -> None:
    window, tenth, spread = 60.0, 6.0, 2.0
    budget = Budget(BudgetSettings(ratio=0, floor=floor, window=window))
    spent_at = max((now for now in sorted(made) if budget.reserve_retry(now) is not None), default=0.0)
    # As steps of flows do: they ask when they were told to, and line up again when they come in vain.
    line, made_by = [(30.0, waiter) for waiter in range(waiters)], list[float]()
    while line:
        now, waiter = heapq.heappop(line)
        if budget.reserve_retry(now) is not None:
            made_by.append(now)
        else:
            heapq.heappush(line, (max(budget.line_up(now), now + 1.0) + spread * (waiter % 7) / 7, waiter))
    for number, when in enumerate(made_by):
        assert when <= max(30.0, spent_at) + (window + tenth + spread) * (number // floor + 1)


def test_counts_are_exact_across_threads() -> None:
    budget = Budget(BudgetSettings(ratio=0.1, floor=0))
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: budget.count_request(0), range(10_000)))
        granted = sum(pool.map(lambda _: budget.reserve_retry(0) is not None, range(5_000)))
    assert granted == 1_000


def test_time_that_stands_still_or_steps_back_does_no_harm() -> None:
    budget = Budget(BudgetSettings(floor=2, ratio=0))
    assert budget.reserve_retry(100) is not None
    assert budget.reserve_retry(50) is not None
    assert budget.reserve_retry(100) is None

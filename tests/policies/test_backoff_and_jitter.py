"""The formulas, and the bounds that hold for every setting."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.failure import Failure
from redrive.policies.backoff import LONGEST_WAIT, Backoff, constant, exponential, linear
from redrive.policies.decide import decide
from redrive.policies.decision import RetryAt
from redrive.policies.history import Granted, History
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy

TRANSIENT = Failure(category="transient", reason="a test says so")

backoffs = st.builds(
    Backoff,
    st.sampled_from(["constant", "linear", "exponential"]),
    st.floats(0, 1e6),
    st.floats(1, 1000),
)
jitters = st.one_of(
    st.builds(Jitter, st.sampled_from(["none", "full", "equal", "decorrelated", "additive"]), st.floats(0, 1e5)),
    st.builds(Jitter, st.just("proportional"), st.floats(0, 10)),
)
caps = st.one_of(st.none(), st.floats(0.001, 1e6))
draws = st.floats(0, 1)
# Far beyond what any float could count to: growth must saturate, never overflow.
retry_numbers = st.one_of(st.integers(0, 100), st.integers(0, 10**400))


def wait_of(policy: Policy, n: int, draw: float, previous: float | None = None) -> RetryAt:
    history = History(0.0, 1, 0, (Granted("retry_on", n, previous or 0.0),) if previous is not None else ())
    if previous is None and n:
        history = History(0.0, 1, 0, (Granted("retry_on", n, policy.backoff.base),))
    decision = decide(policy, history, TRANSIENT, 0.0, lambda: draw)
    assert isinstance(decision, RetryAt)
    return decision


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (exponential(1.0), [1, 2, 4, 8, 16]),
        (linear(1.0), [1, 2, 3, 4, 5]),
        (constant(1.0), [1, 1, 1, 1, 1]),
        (exponential(0.5, factor=3), [0.5, 1.5, 4.5, 13.5, 30]),
    ],
)
def test_delays_without_jitter_follow_the_formulas_and_the_cap(backoff: Backoff, delays: list[float]) -> None:
    policy = Policy(attempts=None, backoff=backoff, jitter=Jitter("none"), max_wait=30.0, deadline=None)
    assert [wait_of(policy, n, 0.5).because.wait for n in range(5)] == delays


@pytest.mark.promise("A8", "S2")
@given(backoff=backoffs, jitter=jitters, cap=caps, n=retry_numbers, draw=draws)
def test_no_wait_exceeds_the_cap_at_any_retry_number(
    backoff: Backoff, jitter: Jitter, cap: float | None, n: int, draw: float
) -> None:
    policy = Policy(attempts=None, backoff=backoff, jitter=jitter, max_wait=cap, deadline=None)
    wait = wait_of(policy, n, draw).because.wait
    assert math.isfinite(wait)
    assert 0 <= wait <= (LONGEST_WAIT if cap is None else cap)


@pytest.mark.promise("A8")
@given(backoff=backoffs, n=st.integers(0, 10**6))
def test_waits_never_shrink_from_one_retry_to_the_next(backoff: Backoff, n: int) -> None:
    assert backoff.raw(n) <= backoff.raw(n + 1)


@pytest.mark.promise("S3")
@given(backoff=backoffs, cap=caps, n=st.integers(0, 200), draw=draws)
def test_full_jitter_draws_from_zero_to_the_delay(backoff: Backoff, cap: float | None, n: int, draw: float) -> None:
    policy = Policy(attempts=None, backoff=backoff, jitter=Jitter("full"), max_wait=cap, deadline=None, floor=0)
    delay = min(backoff.raw(n), LONGEST_WAIT if cap is None else cap)
    assert wait_of(policy, n, 0.0).because.wait == 0
    assert wait_of(policy, n, 1.0).because.wait == pytest.approx(delay)
    assert 0 <= wait_of(policy, n, draw).because.wait <= delay


@pytest.mark.promise("S3")
@given(backoff=backoffs, cap=caps, n=st.integers(0, 200), draw=draws)
def test_equal_jitter_draws_from_half_the_delay(backoff: Backoff, cap: float | None, n: int, draw: float) -> None:
    policy = Policy(attempts=None, backoff=backoff, jitter=Jitter("equal"), max_wait=cap, deadline=None, floor=0)
    delay = min(backoff.raw(n), LONGEST_WAIT if cap is None else cap)
    assert delay / 2 <= wait_of(policy, n, draw).because.wait <= delay


@pytest.mark.promise("S3")
@given(base=st.floats(0.001, 1e4), cap=st.floats(0.001, 1e4), previous=st.floats(0.001, 1e4), draw=draws)
def test_decorrelated_jitter_draws_from_base_to_three_times_the_last_wait(
    base: float, cap: float, previous: float, draw: float
) -> None:
    policy = Policy(
        attempts=None, backoff=exponential(base), jitter=Jitter("decorrelated"), max_wait=cap, deadline=None, floor=0
    )
    last = max(min(base, cap), min(previous, cap))
    wait = wait_of(policy, 3, draw, previous=last).because.wait
    assert min(base, cap) <= wait <= min(cap, 3 * last) + 1e-9


@pytest.mark.promise("P5")
def test_the_default_policy_waits_half_a_second_plus_up_to_a_quarter() -> None:
    assert wait_of(Policy(), 0, 0.0).because.wait == 0.5
    assert wait_of(Policy(), 0, 1.0).because.wait == 0.75
    assert wait_of(Policy(), 1, 0.5).because.wait == 1.125


@pytest.mark.promise("P5", "P19")
@given(n=retry_numbers, draw=draws)
def test_additive_jitter_is_capped_after_adding(n: int, draw: float) -> None:
    assert wait_of(Policy(attempts=None, deadline=None), n, draw).because.wait <= 30.0


@given(backoff=backoffs, fraction=st.floats(0, 10), cap=caps, n=retry_numbers, draw=draws)
def test_proportional_jitter_only_adds_and_no_more_than_its_share(
    backoff: Backoff, fraction: float, cap: float | None, n: int, draw: float
) -> None:
    def wait(jitter: Jitter) -> float:
        policy = Policy(attempts=None, backoff=backoff, jitter=jitter, max_wait=cap, deadline=None, floor=0.0)
        return wait_of(policy, n, draw).because.wait

    plain, spread = wait(Jitter("none")), wait(Jitter("proportional", fraction))
    assert plain <= spread <= plain * (1 + fraction) * (1 + 1e-9)
    assert cap is None or spread <= cap


@pytest.mark.promise("P9")
@given(jitter=jitters, draw=draws)
def test_a_zero_wait_is_lifted_to_the_floor_unless_chance_drew_it(jitter: Jitter, draw: float) -> None:
    policy = Policy(backoff=constant(0.0), jitter=jitter, floor=0.1)
    because = wait_of(policy, 0, draw).because
    assert because.lifted_to_floor
    assert because.high is not None
    assert because.high >= 0.1


@pytest.mark.promise("P9")
def test_the_floor_is_a_field_of_the_policy_and_may_be_zero() -> None:
    assert wait_of(Policy(backoff=constant(0.0), jitter=Jitter("none"), floor=0.25), 0, 0).because.wait == 0.25
    assert wait_of(Policy(backoff=constant(0.0), jitter=Jitter("none"), floor=0), 0, 0).because.wait == 0
    # The cap holds for the floor too.
    assert wait_of(Policy(backoff=constant(0.0), jitter=Jitter("none"), max_wait=0.01), 0, 0).because.wait == 0.01
    # A small wait that was asked for stays what it is.
    assert wait_of(Policy(backoff=constant(0.001), jitter=Jitter("none")), 0, 0).because.wait == 0.001

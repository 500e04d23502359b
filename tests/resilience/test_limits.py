"""Limits of requests, tokens and cost: pure, with time as an argument."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.resilience import Limits, LimitSettings
from redrive.resilience.limits import ONE_REQUEST, Demand, Grant, Refusal


def limits(**settings: Any) -> Limits:
    return Limits(LimitSettings(**settings))


def granted(place: Grant | Refusal) -> float:
    assert isinstance(place, Grant), place
    return place.when


def test_calls_within_the_limit_begin_at_once_and_the_next_waits_for_room() -> None:
    limit = limits(requests_per_minute=3)
    assert [granted(limit.reserve(ONE_REQUEST, now)) for now in (0.0, 10.0, 20.0)] == [0.0, 10.0, 20.0]
    assert granted(limit.reserve(ONE_REQUEST, 30.0)) == 61.0, "a step of a second after the first has left the window"


def test_those_behind_a_call_that_waits_are_told_a_later_time() -> None:
    limit = limits(requests_per_minute=1)
    assert [granted(limit.reserve(ONE_REQUEST, 0.0)) for _ in range(3)] == [0.0, 61.0, 122.0]


def test_a_call_that_cannot_begin_in_time_takes_no_place() -> None:
    limit = limits(requests_per_minute=1)
    limit.reserve(ONE_REQUEST, 0.0)
    refusal = limit.reserve(ONE_REQUEST, 0.0, until=30.0)
    assert refusal == Refusal("1 request per minute", 61.0)
    assert granted(limit.reserve(ONE_REQUEST, 0.0, until=100.0)) == 61.0


def test_what_alone_is_larger_than_the_limit_never_fits() -> None:
    refusal = limits(tokens_per_minute=1000).reserve(Demand(tokens=1001), 0.0)
    assert refusal == Refusal("1000 tokens per minute", None)


def test_each_thing_has_its_own_window() -> None:
    limit = limits(requests_per_minute=10, tokens_per_minute=100, cost_per_day=1.0)
    assert granted(limit.reserve(Demand(tokens=90, cost=0.9), 0.0)) == 0.0
    assert granted(limit.reserve(Demand(tokens=20), 0.0)) == 61.0
    refusal = limit.reserve(Demand(cost=0.2), 70.0, until=1000.0)
    assert isinstance(refusal, Refusal)
    assert refusal.limit == "1 of cost per day"
    assert refusal.when == 86_400 + 1440


def test_what_was_really_used_counts_instead_of_the_estimate() -> None:
    limit = limits(tokens_per_minute=100)
    first = limit.reserve(Demand(tokens=100), 0.0)
    assert isinstance(first, Grant)
    limit.settle(first, Demand(tokens=30), 1.0)
    second = limit.reserve(Demand(tokens=70), 1.0)
    assert granted(second) == 1.0
    assert isinstance(second, Grant)
    limit.settle(second, Demand(tokens=500), 2.0)
    assert granted(limit.reserve(Demand(tokens=1), 2.0)) == 62.0


def test_what_was_not_estimated_counts_once_it_is_known() -> None:
    limit = limits(tokens_per_minute=100)
    first, second = limit.reserve(ONE_REQUEST, 0.0), limit.reserve(ONE_REQUEST, 5.0)
    assert isinstance(first, Grant)
    assert isinstance(second, Grant)
    limit.settle(second, Demand(tokens=10), 6.0)
    limit.settle(first, Demand(tokens=95), 7.0)
    assert granted(limit.reserve(Demand(tokens=5), 7.0)) == 61.0


def test_a_place_that_is_given_back_holds_nobody_up() -> None:
    limit = limits(cost_per_day=1.0)
    limit.reserve(Demand(cost=0.9), 0.0)
    tomorrow = limit.reserve(Demand(cost=0.9), 0.0)
    assert isinstance(tomorrow, Grant)
    assert tomorrow.when > 86_400
    limit.give_back(tomorrow, 1.0)
    assert granted(limit.reserve(Demand(cost=0.1), 1.0)) == 1.0


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(1, 100)), min_size=1, max_size=60),
    st.integers(1, 6),
)
def test_no_minute_ever_holds_more_than_the_limit(calls: list[tuple[float, float]], requests: int) -> None:
    limit = limits(requests_per_minute=requests, tokens_per_minute=150)
    now, begun = 0.0, []
    for pause, tokens in calls:
        now += pause
        begun.append((granted(limit.reserve(Demand(tokens=tokens), now)), tokens))
    assert begun == sorted(begun, key=lambda one: one[0]), "in the order they asked"
    for start, _ in begun:
        inside = [tokens for when, tokens in begun if start <= when < start + 60]
        assert len(inside) <= requests
        assert sum(inside) <= 150 * (1 + 1e-6)


@pytest.mark.parametrize("value", [0, -1, True, "many", float("nan"), float("inf")])
def test_wrong_settings_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"tokens_per_minute: .* use a number above 0"):
        LimitSettings(tokens_per_minute=value)
    with pytest.raises(ValueError, match=r"requests_per_minute: 0.5 .* use a number of at least 1, or None"):
        LimitSettings(requests_per_minute=0.5)
    with pytest.raises(TypeError, match="use LimitSettings"):
        Limits({"requests_per_minute": 5})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"requests_per_minute": 1}, "1 request per minute"),
        ({"tokens_per_minute": 2_000_000}, "2000000 tokens per minute"),
        ({"cost_per_day": 0.00001}, "0.00001 of cost per day"),
        ({"cost_per_day": 12.5}, "12.5 of cost per day"),
    ],
)
def test_limits_are_told_in_digits(settings: dict[str, float], said: str) -> None:
    assert said in repr(Limits(LimitSettings(**settings)))

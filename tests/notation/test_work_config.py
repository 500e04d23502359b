"""work_config: N retries, milliseconds, three kinds of backoff, and nothing unknown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.decide import decide
from redrive.policies.decision import RetryAt
from redrive.policies.history import Granted, History
from redrive.policies.policy import Policy
from redrive.policies.preview import PLAIN_FAILURE, preview


def policy_of(**config: Any) -> Policy:
    return read_policy(config, "work_config").policy


def waits(policy: Policy, count: int) -> list[float | None]:
    return [row.high for row in preview(policy.replace(attempts=None), rows=count + 1).rows[1:]]


@pytest.mark.promise("A7")
@pytest.mark.parametrize(("max_retries", "attempts"), [(0, 1), (1, 2), (5, 6), (-1, None)])
def test_max_retries_counts_retries_after_the_first_attempt(max_retries: int, attempts: int | None) -> None:
    assert policy_of(max_retries=max_retries).attempts == attempts
    assert preview(policy_of(max_retries=max_retries)).attempts == attempts


@pytest.mark.promise("A7", "A8")
@pytest.mark.parametrize(
    ("backoff_type", "expected"),
    [
        ("fixed", [1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [1.0, 2.0, 3.0, 4.0, 5.0]),
        ("exponential", [1.0, 2.0, 4.0, 5.0, 5.0]),
    ],
)
def test_delays_follow_the_formulas_up_to_the_cap(backoff_type: str, expected: list[float]) -> None:
    policy = policy_of(backoff=1000, max_backoff=5000, backoff_type=backoff_type)
    assert waits(policy, 5) == expected


@pytest.mark.promise("A8")
@given(
    retry=st.integers(0, 10**30) | st.integers(40, 80),
    backoff=st.integers(0, 10**9),
    cap=st.integers(1, 10**9),
    kind=st.sampled_from(["fixed", "linear", "exponential"]),
)
def test_no_delay_exceeds_the_cap_at_any_retry_number(retry: int, backoff: int, cap: int, kind: str) -> None:
    policy = policy_of(max_retries=-1, backoff=backoff, max_backoff=cap, backoff_type=kind)
    history = History(0.0, 2, 0, (Granted("retry_on", retry, 0.0),))
    answer = decide(policy, history, PLAIN_FAILURE, 0.0, lambda: 1.0)
    assert isinstance(answer, RetryAt)
    assert 0 < answer.because.wait <= cap / 1000
    formula = {"fixed": backoff, "linear": backoff * (retry + 1), "exponential": backoff * 2 ** min(retry, 200)}[kind]
    if 0 < formula < cap:
        assert answer.because.wait == pytest.approx(formula / 1000)


def test_what_is_left_out_has_documented_defaults() -> None:
    policy = policy_of(max_retries=3)
    assert policy == policy_of(backoff=1000, max_backoff=60_000, backoff_type="exponential")
    assert (policy.jitter.kind, policy.deadline) == ("none", None)


def test_the_mapping_may_stand_under_its_name() -> None:
    reading = read_policy('{"work_config": {"max_retries": 7}}')
    assert (reading.notation, reading.policy.attempts) == ("work_config", 8)


@pytest.mark.promise("A7")
@pytest.mark.parametrize("value", [1.0, "3", True, None, [3], -2, 10**13])
@pytest.mark.parametrize("key", ["max_retries", "backoff", "max_backoff"])
def test_only_whole_numbers_are_accepted_and_the_key_is_named(key: str, value: object) -> None:
    with pytest.raises(NotationError) as refused:
        read_policy({key: value}, "work_config")
    assert refused.value.key == key
    assert refused.value.value == value
    assert "whole number" in refused.value.allowed


@pytest.mark.promise("A7")
def test_unknown_keys_are_refused_by_name() -> None:
    with pytest.raises(NotationError, match=r"key 'parallelism', value 4: unknown.*max_retries, backoff, max_backoff"):
        read_policy({"max_retries": 3, "parallelism": 4}, "work_config")

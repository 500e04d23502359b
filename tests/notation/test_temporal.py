"""Temporal's RetryPolicy, read."""

from typing import Any

import pytest

from redrive.notation import read_policy
from redrive.policies.policy import Policy
from redrive.policies.preview import preview, read_failure


def policy_of(**settings: Any) -> Policy:
    return read_policy(settings, "temporal").policy


def test_all_keys_in_both_spellings() -> None:
    camel = read_policy(
        '{"initialInterval": "1.500s", "backoffCoefficient": 3.0, "maximumInterval": "60s",'
        ' "maximumAttempts": 5, "nonRetryableErrorTypes": ["BadInput", "app.Gone"]}'
    )
    snake = read_policy(
        "initial_interval: 1.5s\nbackoff_coefficient: 3\nmaximum_interval: 1m\nmaximum_attempts: 5\n"
        "non_retryable_error_types: [BadInput, app.Gone]\n"
    )
    assert camel.notation == snake.notation == "temporal"
    assert camel.policy == snake.policy
    assert [row.high for row in preview(camel.policy).rows] == [None, 1.5, 4.5, 13.5, 40.5]
    assert camel.policy.never_on.names == ("BadInput", "app.Gone")


def test_defaults_are_one_second_doubling_to_a_hundred_times_without_end() -> None:
    policy = policy_of(initialInterval="2s")
    shown = preview(policy, rows=10)
    assert shown.ends == "unlimited"
    assert [row.high for row in shown.rows[1:]] == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 200.0, 200.0]


@pytest.mark.parametrize(("maximum", "attempts"), [(0, None), (1, 1), (4, 4)])
def test_zero_attempts_are_no_limit(maximum: int, attempts: int | None) -> None:
    assert policy_of(maximumAttempts=maximum).attempts == attempts


@pytest.mark.parametrize(("failure", "attempts"), [("ValueError", 3), ("transient", 3), ("BadInput", 1)])
def test_everything_is_retried_but_what_is_named(failure: str, attempts: int) -> None:
    policy = policy_of(maximumAttempts=3, nonRetryableErrorTypes=["BadInput"])
    assert preview(policy, read_failure(failure)).attempts == attempts

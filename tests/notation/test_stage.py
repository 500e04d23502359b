"""Stage arguments: the interceptor's defaults, the strategies, and classes where they come from Python."""

from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.matching import Match
from redrive.notation import read_policy, write_lossy, write_policy
from redrive.policies.policy import Policy
from redrive.policies.preview import preview, read_failure


class BackoffStrategy(Enum):
    LINEAR = "linear"


def policy_of(**arguments: Any) -> Policy:
    return read_policy(arguments, "stage").policy


@pytest.mark.promise("S4")
def test_defaults_are_those_of_the_interceptor() -> None:
    policy = policy_of(max_attempts=3)
    assert policy == policy_of(
        base_delay_ms=1000,
        max_delay_ms=30_000,
        backoff_strategy="exponential",
        jitter_strategy="full",
        retryable_errors=["TimeoutError", "ConnectionError", "OSError"],
    )
    assert policy.deadline is None


@pytest.mark.promise("S2", "S4")
@pytest.mark.parametrize(
    ("strategy", "milliseconds"),
    [
        ("exponential", [1000, 2000, 4000, 8000, 16_000, 30_000]),
        ("linear", [1000, 2000, 3000, 4000, 5000, 6000]),
        ("constant", [1000] * 6),
    ],
)
def test_delays_without_jitter(strategy: str, milliseconds: list[int]) -> None:
    policy = policy_of(max_attempts=7, jitter_strategy="none", backoff_strategy=strategy)
    rows = preview(policy).rows[1:]
    assert [(row.low, row.high) for row in rows] == [(ms / 1000, ms / 1000) for ms in milliseconds]


@pytest.mark.promise("S3")
@given(
    jitter=st.sampled_from(["full", "equal", "decorrelated"]),
    base=st.integers(1, 10**6),
    cap=st.integers(1, 10**6),
    strategy=st.sampled_from(["exponential", "linear", "constant"]),
)
def test_jitter_stays_in_its_range_at_every_setting(jitter: str, base: int, cap: int, strategy: str) -> None:
    policy = policy_of(
        max_attempts=9, base_delay_ms=base, max_delay_ms=cap, jitter_strategy=jitter, backoff_strategy=strategy
    )
    longest = base / 1000
    for row in preview(policy).rows[1:]:
        assert row.raw is not None
        assert row.low is not None
        assert row.high is not None
        delay = min(row.raw, cap / 1000)
        if jitter == "decorrelated":
            assert row.low == pytest.approx(min(base, cap) / 1000)
            assert row.high == pytest.approx(max(row.low, min(3 * longest, cap / 1000)))
            longest = row.high
        else:
            assert (row.low, row.high) == pytest.approx((0.0 if jitter == "full" else delay / 2, delay))


def test_classes_and_enums_from_python_are_taken_as_they_are() -> None:
    class Busy(Exception):
        pass

    policy = policy_of(retryable_errors=(Busy, OSError), backoff_strategy=BackoffStrategy.LINEAR)
    assert policy.retry_on == Match(types=(Busy, OSError))
    assert policy.backoff.kind == "linear"


def test_the_call_is_read_as_it_stands_in_code() -> None:
    reading = read_policy(
        """RetryInterceptor(
            max_attempts=5,
            base_delay_ms=500,
            backoff_strategy=BackoffStrategy.LINEAR,
            jitter_strategy=JitterStrategy.EQUAL,
            retryable_errors=(TimeoutError, IOError, RateLimitError),
        )"""
    )
    assert reading.notation == "stage"
    assert (reading.policy.attempts, reading.policy.backoff.kind, reading.policy.jitter.kind) == (5, "linear", "equal")
    assert reading.policy.retry_on.names == ("TimeoutError", "OSError", "RateLimitError")
    assert reading.line_of("jitter") == 5


def test_the_written_call_reads_back() -> None:
    policy = policy_of(max_attempts=5, retryable_errors=["TimeoutError"], jitter_strategy="decorrelated")
    text = write_policy(policy, "stage")
    assert text.startswith("RetryInterceptor(\n    max_attempts=5,\n")
    assert 'jitter_strategy="decorrelated"' in text
    assert "retryable_errors=(TimeoutError,)" in text
    assert read_policy(text).policy == policy


def test_what_arguments_cannot_say_is_named() -> None:
    text, warnings = write_lossy(Policy(), "stage")
    assert sorted(one.id for one in warnings) == ["lost-deadline", "lost-jitter", "lost-retry_on"]
    assert read_policy(text).policy.attempts == 3


def test_only_the_named_errors_are_retried() -> None:
    policy = policy_of(max_attempts=4)
    assert preview(policy, read_failure("ConnectionResetError")).attempts == 4
    assert preview(policy, read_failure("ValueError")).attempts == 1

"""The backoff library's settings, checked against the library itself."""

import random
import time
from typing import Any

import backoff
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.policy import Policy
from redrive.policies.preview import preview, read_failure

pytestmark = pytest.mark.promise("L8")

RETRIES = 8


def library_waits(generator: Any, settings: dict[str, Any], count: int = RETRIES) -> list[float]:
    """What backoff really sleeps."""
    slept: list[float] = []

    @backoff.on_exception(generator, OSError, max_tries=count + 1, logger=None, **settings)
    def fail() -> None:
        raise ConnectionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        with pytest.raises(ConnectionError):
            fail()
    return slept


def bounds(policy: Policy) -> list[tuple[float, float]]:
    rows = preview(policy, read_failure("OSError")).rows[1:]
    return [(row.low or 0.0, row.high or 0.0) for row in rows]


def converted(generator: str, settings: dict[str, Any]) -> Policy:
    data = {"wait_gen": generator, "exception": "OSError", "max_tries": RETRIES + 1, **settings}
    return read_policy(data, "backoff").policy


@given(
    base=st.floats(1, 5),
    factor=st.floats(0.01, 100),
    cap=st.none() | st.floats(1, 1000),
    jitter=st.sampled_from(["full_jitter", "random_jitter", None]),
    seed=st.integers(0, 1000),
)
def test_waits_are_within_the_bounds_of_the_policy(
    base: float, factor: float, cap: float | None, jitter: str | None, seed: int
) -> None:
    random.seed(seed)
    settings: dict[str, Any] = {"base": base, "factor": factor, "max_value": cap, "jitter": jitter}
    draw = None if jitter is None else getattr(backoff, jitter)
    theirs = library_waits(backoff.expo, {**settings, "jitter": draw})
    ours = bounds(converted("backoff.expo", settings))
    assert len(ours) == len(theirs) == RETRIES
    for wait, (low, high) in zip(theirs, ours, strict=True):
        # The random second of random_jitter is the one difference: here the cap holds for the sum, and that is said.
        longest = high + 1 if jitter == "random_jitter" and cap is not None else high
        assert low * (1 - 1e-9) <= wait <= longest * (1 + 1e-9)


@given(interval=st.floats(0.1, 1000))
def test_constant_waits_are_the_same(interval: float) -> None:
    theirs = library_waits(backoff.constant, {"interval": interval, "jitter": None})
    assert bounds(converted("constant", {"interval": interval, "jitter": None})) == [(one, one) for one in theirs]


def test_defaults_are_those_of_the_library() -> None:
    policy = read_policy("@backoff.on_exception(backoff.expo, OSError)").policy
    assert (policy.attempts, policy.deadline, policy.max_wait, policy.jitter.kind) == (None, None, None, "full")
    assert (policy.backoff.base, policy.backoff.factor) == (1.0, 2.0)


def test_a_cap_with_random_jitter_is_said() -> None:
    text = "@backoff.on_exception(backoff.expo, OSError, max_value=8, jitter=backoff.random_jitter)"
    assert [one.id for one in read_policy(text).warnings] == ["cap-after-jitter"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("backoff.on_exception(backoff.fibo, OSError)", "wait_gen"),
        ("backoff.on_exception(backoff.runtime, OSError, value=seconds)", "value"),
        ("backoff.on_exception(backoff.expo, OSError, interval=3)", "expo has no such argument"),
        ("backoff.on_exception(backoff.constant, OSError, interval=[1, 2])", "interval"),
        ("backoff.on_exception(backoff.expo, [])", "exception"),
        ("backoff.on_exception(backoff.expo, OSError, max_tries=count)", "max_tries"),
        ("backoff.on_exception(backoff.expo, OSError, 3)", "positional argument 3"),
    ],
)
def test_what_has_no_equivalent_is_refused(text: str, says: str) -> None:
    with pytest.raises(NotationError, match="<text>:1") as caught:
        read_policy(text)
    assert says in str(caught.value)

"""The same source, run by the real library and converted: the library's waits are within the policy's bounds."""

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.notation.python_source.read_source import read_source
from redrive.policies.preview import preview, read_failure

pytestmark = pytest.mark.promise("L8")

seconds = st.floats(0.1, 50).map(lambda one: round(one, 3))
factors = st.floats(1.1, 5).map(lambda one: round(one, 2))
attempts = st.integers(1, 12)

TENACITY = """
import tenacity as t
from datetime import timedelta
MOST = {attempts}

@t.retry(stop=t.stop_after_attempt(MOST), wait={wait}, retry=t.retry_if_exception_type(OSError), reraise=True)
def fail():
    raise ConnectionError
"""
STAMINA = """
import stamina

@stamina.retry(on=OSError, attempts={attempts}, timeout=None, wait_initial={initial}, wait_max={cap},
    wait_jitter={jitter}, wait_exp_base={factor})
def fail():
    raise ConnectionError
"""
BACKOFF = """
from backoff import on_exception, expo as growing

@on_exception(growing, (OSError, KeyError), max_tries={attempts}, base={factor}, factor={initial}, max_value={cap},
    logger=None)
def fail():
    raise ConnectionError
"""
TENACITY_WAITS = st.one_of(
    st.builds("t.wait_fixed({})".format, seconds),
    st.builds("t.wait_fixed(timedelta(milliseconds={}))".format, st.integers(1, 5000)),
    st.builds("t.wait_random({}, {})".format, seconds, seconds),
    st.builds("t.wait_exponential(multiplier={}, max={}, exp_base={})".format, seconds, seconds, factors),
    st.builds("t.wait_random_exponential(multiplier={}, max={})".format, seconds, seconds),
    st.builds("t.wait_exponential_jitter(multiplier={}, max={}, jitter={})".format, seconds, seconds, seconds),
    st.builds("t.wait_fixed({}) + t.wait_random(0, {})".format, seconds, seconds),
    st.builds("t.wait_fixed({} * 2 + 1)".format, seconds),
)


def check(text: str, seed: int) -> None:
    slept: list[float] = []
    space: dict[str, Any] = {}
    random.seed(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        exec(text, space)  # noqa: S102 - the same source that is converted
        with pytest.raises(ConnectionError):
            space["fail"]()
    found = read_source(text)
    (policy,) = found.policies
    shown = preview(policy.reading.policy, read_failure("OSError"), rows=20)
    assert shown.attempts == len(slept) + 1
    for wait, row in zip(slept, shown.rows[1:], strict=True):
        assert (row.low or 0) * (1 - 1e-9) <= wait <= (row.high or 0) * (1 + 1e-9), policy.python


@given(wait=TENACITY_WAITS, attempts=attempts, seed=st.integers(0, 99))
def test_tenacity(wait: str, attempts: int, seed: int) -> None:
    check(TENACITY.format(wait=wait, attempts=attempts), seed)


@given(
    attempts=attempts,
    initial=seconds,
    cap=seconds,
    jitter=st.just(0.0) | seconds,
    factor=factors,
    seed=st.integers(0, 99),
)
def test_stamina(attempts: int, initial: float, cap: float, jitter: float, factor: float, seed: int) -> None:
    check(STAMINA.format(attempts=attempts, initial=initial, cap=cap, jitter=jitter, factor=factor), seed)


@given(attempts=attempts, initial=seconds, cap=st.none() | seconds, factor=factors, seed=st.integers(0, 99))
def test_backoff(attempts: int, initial: float, cap: float | None, factor: float, seed: int) -> None:
    check(BACKOFF.format(attempts=attempts, initial=initial, cap=cap, factor=factor), seed)

"""stamina settings, checked against stamina itself."""

import random
import time
from typing import Any

import pytest
import stamina

from redrive.notation import read_policy
from redrive.policies.decide import decide
from redrive.policies.decision import RetryAt
from redrive.policies.history import History
from redrive.policies.preview import PLAIN_FAILURE, preview, read_failure

SETTINGS: list[dict[str, Any]] = [
    {},
    {"wait_initial": 0.5, "wait_max": 20.0, "wait_jitter": 0.25},
    {"wait_jitter": 0.0},
    {"wait_exp_base": 3, "wait_initial": 1.0},
    {"wait_initial": 7.0, "wait_max": 5.0},
]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("settings", SETTINGS)
def test_waits_are_those_of_the_library(
    settings: dict[str, Any], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: low + (high - low) * share)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)

    @stamina.retry(on=ConnectionError, attempts=9, timeout=None, **settings)
    def fail() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    policy = read_policy({"on": "ConnectionError", "attempts": 9, "timeout": None, **settings}, "stamina").policy
    history, ours = History(0.0), []
    failure = read_failure("ConnectionError")
    while isinstance(answer := decide(policy, history, failure, 0.0, lambda: share), RetryAt):
        ours.append(answer.because.wait)
        history = history.after(answer)
    assert ours == pytest.approx(slept)


def test_defaults_are_those_of_the_library() -> None:
    policy = read_policy("stamina.retry(on=ValueError)").policy
    assert (policy.attempts, policy.deadline, policy.max_wait, policy.jitter.amount) == (10, 45.0, 5.0, 1.0)
    assert preview(policy, PLAIN_FAILURE).attempts == 1
    assert preview(policy, read_failure("UnicodeError")).attempts == 10


def test_no_limits_are_no_limits() -> None:
    reading = read_policy("on: [shop.HTTPError]\nattempts: null\ntimeout: null\n")
    assert (reading.notation, reading.policy.attempts, reading.policy.deadline) == ("stamina", None, None)
    assert [one.id for one in reading.warnings] == ["dotted-name"]


def test_the_decorator_is_read_as_it_stands_in_code() -> None:
    reading = read_policy(
        "@stamina.retry(on=(httpx.HTTPError, OSError), attempts=3, timeout=dt.timedelta(minutes=1))\n"
        "async def fetch(): ..."
    )
    assert (reading.policy.attempts, reading.policy.deadline) == (3, 60.0)
    assert reading.policy.retry_on.names == ("httpx.HTTPError", "OSError")


def test_the_bare_name_is_told_by_its_arguments() -> None:
    assert read_policy("@retry(on=OSError, attempts=3)").notation == "stamina"
    assert read_policy("@retry(stop=stop_after_attempt(3))").notation == "tenacity"

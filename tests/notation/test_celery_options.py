"""Retry options of Celery tasks, checked against Celery itself."""

import random
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Retry
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.policy import Policy
from redrive.policies.preview import preview, read_failure

pytestmark = pytest.mark.promise("L8")

app = Celery("options", broker="memory://", set_as_current=False)


def library_waits(options: dict[str, Any]) -> list[float]:
    """The countdown of each retry that Celery asks for, until it raises the error itself."""
    countdowns: list[float] = []

    @app.task(bind=True, autoretry_for=(OSError,), **options)
    def fail(self: Any) -> None:
        raise OSError

    task = app.tasks[fail.name]
    retry = task.retry

    def recorded(**given: Any) -> Any:
        limit = given.get("max_retries")
        limit = task.max_retries if limit is None else limit
        if limit is not None and task.request.retries >= limit:
            raise given["exc"]
        countdown = given.get("countdown")
        countdowns.append(task.default_retry_delay if countdown is None else countdown)
        return Retry()

    task.retry = recorded
    try:
        for retries in range(50):
            task.push_request(retries=retries, called_directly=False)
            try:
                task.run()
            except Retry:
                continue
            except OSError:
                return countdowns
            finally:
                task.pop_request()
        return countdowns
    finally:
        task.retry = retry
        app.tasks.pop(fail.name)


def converted(options: dict[str, Any]) -> Policy:
    return read_policy({"autoretry_for": ["OSError"], **options}, "celery").policy


@given(
    options=st.fixed_dictionaries(
        {},
        optional={
            "max_retries": st.integers(0, 10),
            "default_retry_delay": st.integers(1, 1000),
            "retry_backoff": st.booleans() | st.floats(0, 50) | st.integers(0, 50),
            "retry_backoff_max": st.integers(1, 2000),
            "retry_jitter": st.booleans(),
            "retry_kwargs": st.fixed_dictionaries(
                {}, optional={"max_retries": st.integers(0, 6), "countdown": st.integers(1, 90)}
            ),
        },
    ),
    seed=st.integers(0, 1000),
)
def test_attempts_and_waits_are_within_the_bounds_of_the_policy(options: dict[str, Any], seed: int) -> None:
    random.seed(seed)
    theirs = library_waits(options)
    shown = preview(converted(options), read_failure("OSError"))
    assert shown.attempts == len(theirs) + 1
    for wait, row in zip(theirs, shown.rows[1:], strict=True):
        assert row.low is not None
        assert row.high is not None
        assert row.low <= wait <= row.high


def test_no_limit_is_no_limit() -> None:
    assert len(library_waits({"max_retries": None})) == 50
    assert converted({"max_retries": None}).attempts is None


def test_nothing_is_retried_without_autoretry_for() -> None:
    reading = read_policy({"retry_backoff": True, "max_retries": 5}, "celery")
    assert reading.policy.attempts == 1
    assert "nothing-retried" in {one.id for one in reading.warnings}


def test_settings_that_celery_ignores_are_said() -> None:
    reading = read_policy({"autoretry_for": ["OSError"], "retry_jitter": True, "retry_backoff_max": 5}, "celery")
    assert [one.key for one in reading.warnings if one.id == "ignored-setting"] == ["retry_backoff_max", "retry_jitter"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@app.task(autoretry_for=(OSError,), max_retries=many)", "max_retries"),
        ("@app.task(autoretry_for=(OSError,), retry_backoff='fast')", "retry_backoff"),
        ("@app.task(autoretry_for=(OSError,), retry_kwargs={'eta': 3})", "retry_kwargs.eta"),
        ("@app.task(autoretry_for=(OSError,), retry_backof=True)", "did you mean 'retry_backoff'?"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(NotationError, match="<text>:1") as caught:
        read_policy(text)
    assert says in str(caught.value)

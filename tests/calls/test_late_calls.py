"""Calls whose time is up before an attempt could begin."""

import asyncio
import logging
import pickle
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

import redrive
from redrive.integrations.httpx import RetryTransport
from redrive.integrations.prometheus import export
from redrive.policies.decision import GiveUp
from redrive.telemetry.events import AttemptFailed, Event
from redrive.testing import virtual_clock


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_whose_wait_ends_too_late_is_told_and_counted_as_given_up(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    stop = export(registry)
    told: list[AttemptFailed] = []

    with virtual_clock() as clock:

        def stall(event: Event) -> None:
            assert isinstance(event, AttemptFailed)
            told.append(event)
            clock.advance(60)

        settings: Any = {"operation": "pay", "deadline": 10, "on_event": stall}

        @redrive.retry(**settings)
        def pay() -> None:
            raise ConnectionError("down")

        @redrive.retry(**settings)
        async def async_pay() -> None:
            raise ConnectionError("down")

        with caplog.at_level(logging.INFO, "redrive"), pytest.raises(ConnectionError):
            asyncio.run(async_pay()) if is_async else pay()
    labels = {"operation": "pay", "kind": "deadline"}
    assert registry.get_sample_value("redrive_given_up_calls_total", labels) == 1
    stop()
    last = told[-1]
    assert [event.attempt for event in told] == [1, 1]
    assert isinstance(last.decision, GiveUp)
    assert (last.decision.kind, last.failure.message) == ("deadline", "down")
    assert "giving up (deadline)" in caplog.messages[-1]


@pytest.mark.parametrize("independent", [False, True])
def test_an_inner_call_that_is_too_late_is_told_only_where_it_retries_by_itself(independent: bool) -> None:
    told: list[Event] = []
    with virtual_clock() as clock:

        @redrive.retry(independent=independent, on_event=told.append)
        def inner() -> None:
            pytest.fail("it was called")

        @redrive.retry(deadline=10)
        def outer() -> None:
            clock.sleep(11)
            inner()

        with pytest.raises(redrive.DeadlineExceededError):
            outer()
    assert len(told) == independent


@pytest.mark.parametrize("independent", [False, True])
def test_an_inner_call_after_the_outer_deadline_says_so(independent: bool) -> None:
    with virtual_clock() as clock:

        @redrive.retry(deadline=5, independent=independent)
        def inner() -> None:
            pytest.fail("it was called")

        @redrive.retry(deadline=10)
        def outer() -> None:
            clock.sleep(11)
            inner()

        with pytest.raises(redrive.DeadlineExceededError) as caught:
            outer()
    says = "not called: the enclosing call's deadline of 10 s had passed"
    assert (str(caught.value), caught.value.seconds) == (says, 10)
    assert str(pickle.loads(pickle.dumps(caught.value))) == says  # noqa: S301 - made here


def test_a_request_after_the_outer_deadline_says_so() -> None:
    with virtual_clock() as clock, httpx.Client(transport=RetryTransport()) as client:

        @redrive.retry(deadline=10)
        def outer() -> None:
            clock.sleep(11)
            client.get("http://never.called.invalid")

        with pytest.raises(httpx.TimeoutException, match="not called: the enclosing call's deadline of 10 s"):
            outer()

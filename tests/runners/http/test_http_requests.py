"""What is sent with an attempt."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http_handlers import handlers
from tests.runners.http.step_calls import DELIVERY, attempt_to_make, failure, outcome

from redrive import Policy
from redrive.calls.ownership_headers import read_ownership
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.http.request import headers_of
from redrive.runners.http.settings import HttpSettings
from redrive.testing import virtual_clock


@pytest.mark.promise("A12", "P10", "P16")
def test_an_attempt_says_whose_it_is_and_the_receipt_token_stays_the_same() -> None:
    with handlers() as server:
        failure(f"{server.url}/503?times=1", {"order_id": "o1"})
        outcome(f"{server.url}/503?times=1", {"order_id": "o1"}, attempt=attempt_to_make(2))
    first = server.seen[0]
    assert (first.method, json.loads(first.body)) == ("POST", {"order_id": "o1"})
    assert first.headers["content-type"] == "application/json"
    assert first.headers["redrive-flow"] == "flow-1"
    assert first.headers["redrive-step"] == "reserve"
    assert first.headers["redrive-delivery-token"] == DELIVERY
    assert first.headers["redrive-retry-owner"] == "redrive"
    assert first.headers["user-agent"].startswith("redrive/")
    assert [seen.headers["redrive-attempt"] for seen in server.seen] == ["1", "2"]
    assert {seen.headers["redrive-receipt-token"] for seen in server.seen} == {"flow-1.7"}
    assert {seen.headers["idempotency-key"] for seen in server.seen} == {"flow-1.7"}


def test_the_time_that_is_left_is_sent_along() -> None:
    handler = HttpHandler(endpoint="http://handler/")
    with virtual_clock() as clock:
        attempt = attempt_to_make(timeout=30)
        assert headers_of(handler, attempt, HttpSettings())["Redrive-Deadline"] == "30.000"
        attempt.timeout_at = clock.wall() + 30
        clock.advance(12)
        assert headers_of(handler, attempt, HttpSettings())["Redrive-Deadline"] == "18.000"
        clock.advance(60)
        assert headers_of(handler, attempt, HttpSettings())["Redrive-Deadline"] == "0.000"
        assert headers_of(handler, attempt_to_make(timeout=None), HttpSettings())["Redrive-Deadline"] == "300.000"
        assert "Redrive-Deadline" not in headers_of(
            handler, attempt_to_make(timeout=None), HttpSettings(answer_timeout=None)
        )


@pytest.mark.promise("P16")
def test_a_step_that_is_tried_once_owns_no_retries() -> None:
    handler = HttpHandler(endpoint="http://handler/")
    assert "Redrive-Retry-Owner" not in headers_of(handler, attempt_to_make(policy=Policy(attempts=1)), HttpSettings())
    assert "Redrive-Retry-Owner" in headers_of(handler, attempt_to_make(policy=Policy(attempts=None)), HttpSettings())


@pytest.mark.promise("L4")
def test_a_service_behind_a_step_reads_who_retries_and_how_much_time_is_left() -> None:
    """As `redrive.integrations.fastapi` and the like do."""
    with handlers() as server:
        for attempts in (None, 1):
            attempt = attempt_to_make(2, policy=Policy(attempts=attempts), timeout=30)
            outcome(f"{server.url}/200", {}, attempt=attempt)
    owned, alone = (read_ownership(seen.headers) for seen in server.seen)
    assert (owned.attempt, owned.retries, alone.attempt, alone.retries) == (2, True, 2, False)
    assert owned.seconds_left is not None
    assert 20 < owned.seconds_left <= 30


@pytest.mark.promise("A16")
def test_an_asynchronous_step_is_told_where_to_report() -> None:
    settings = HttpSettings(allow=("127.0.0.1",), callback_base="https://redrive.example.com/")
    with handlers() as server:
        outcome(f"{server.url}/accept", mode="async", settings=settings)
        outcome(f"{server.url}/ok", settings=settings)
    callbacks = [seen.headers.get("redrive-callback") for seen in server.seen]
    assert callbacks == [f"https://redrive.example.com/v1/completions/flow-1.7.{DELIVERY}", None]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50))
def test_no_name_begins_a_header_of_its_own(step: str) -> None:
    for value in headers_of(
        HttpHandler(endpoint="http://handler/"), attempt_to_make(step=step), HttpSettings()
    ).values():
        assert value.isascii()
        assert value.isprintable()


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("ftp://handler/reserve", "must begin with http:// or https://"),
        ("handler/reserve", "must begin with http:// or https://"),
        ("http://", "cannot be used"),
        ("http://[::1/", "cannot be used"),
        ("http://handler:99999/", "cannot be used"),
        (f"http://{'x' * 300}/", ""),
    ],
)
def test_an_endpoint_that_is_none_fails_for_good_and_says_why(endpoint: str, says: str) -> None:
    failed = failure(endpoint)
    assert failed.category == "permanent", failed
    assert says in failed.message


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"allow": ("http://127.0.0.1",)}, "allow:"),
        ({"allow": ("10.0.0.1/8",)}, "allow:"),
        ({"allow": ("127.1",)}, "allow:"),
        ({"allow": ("*.internal",)}, "allow:"),
        ({"allow": ("",)}, "allow:"),
        ({"allow": "private"}, r"allow: 'private' is not allowed; use a list, such as \['private'\]"),
        ({"largest_answer": 0}, "largest_answer"),
        ({"connections": 0}, "connections"),
        ({"connect_timeout": 0.0}, "connect_timeout"),
        ({"answer_timeout": -1.0}, "answer_timeout"),
        ({"answer_timeout": 10**400}, "answer_timeout"),
        ({"answer_timeout": math.nan}, "answer_timeout"),
        ({"connect_timeout": "5s"}, "connect_timeout: '5s' is not allowed; use seconds"),
        ({"connections": "5"}, "connections: '5' is not allowed; write a whole number"),
        ({"callback_base": 5}, "callback_base"),
        ({"allow": None}, "allow:"),
        ({"callback_base": "redrive.example.com"}, "callback_base"),
        ({"callback_base": "http://a\r\nX: y"}, "callback_base"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        HttpSettings(**settings)  # type: ignore[arg-type]

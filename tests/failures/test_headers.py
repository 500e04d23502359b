"""The headers by which servers say whether and when to retry."""

from typing import Any

import httpx
import pytest

from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.headers import retry_after_header, should_retry_header
from redrive.integrations.httpx import RetryTransport
from redrive.testing import FlakyServer, Reply, virtual_clock

from .asking import look_alike
from .classifying import NOW, answered, failure_of


@pytest.mark.promise("L3")
class TestMilliseconds:
    @pytest.mark.parametrize(
        ("sent", "seconds"),
        [("1500", 1.5), ("250", 0.25), ("0", 0.0), ("0.5", 0.0005), (" 20 ", 0.02), ("90000", 90.0), ("0.001", 1e-6)],
    )
    def test_they_are_read_as_such(self, sent: str, seconds: float) -> None:
        assert failure_of(answered(429, retry_after_ms=sent)).retry_after == seconds
        assert DEFAULT_CLASSIFIER.failure_of_status(429, {"Retry-After-Ms": sent}, NOW).retry_after == seconds

    def test_they_go_before_seconds_whichever_comes_first(self) -> None:
        for pairs in ([("retry-after", "2"), ("retry-after-ms", "1500")], [("RETRY-AFTER-MS", "1500"), ("x", "y")]):
            assert retry_after_header(pairs) == "1.5"

    def test_azures_name_for_them(self) -> None:
        assert retry_after_header({"x-ms-retry-after-ms": "300", "Retry-After": "1"}) == "0.3"

    @pytest.mark.parametrize("sent", ["soon", "-5", "1e3", "", "nan", "9" * 40])
    def test_what_is_no_number_leaves_it_to_retry_after(self, sent: str) -> None:
        assert failure_of(answered(503, retry_after_ms=sent, retry_after="7")).retry_after == 7.0

    def test_what_is_no_number_is_noted(self) -> None:
        failure = failure_of(answered(503, retry_after_ms="soon"))
        assert failure.retry_after is None
        assert "'soon'" in failure.retry_after_note


@pytest.mark.promise("L3")
class TestShouldRetry:
    @pytest.mark.parametrize("sent", ["true", "True", " TRUE "])
    @pytest.mark.parametrize("status", [400, 409, 503])
    def test_true_is_transient(self, sent: str, status: int) -> None:
        for failure in (
            failure_of(answered(status, x_should_retry=sent)),
            DEFAULT_CLASSIFIER.failure_of_status(status, {"X-Should-Retry": sent}, NOW),
        ):
            assert failure.category == "transient"
            assert "the server says to retry, in a header" in failure.reason

    @pytest.mark.parametrize("status", [400, 429, 503])
    def test_false_is_permanent(self, status: int) -> None:
        for failure in (
            failure_of(answered(status, x_should_retry="false")),
            DEFAULT_CLASSIFIER.failure_of_status(status, {"x-should-retry": "false"}, NOW),
        ):
            assert failure.category == "permanent"
            assert "the server says not to retry, in a header" in failure.reason

    @pytest.mark.parametrize("sent", ["", "maybe", "1", "0", "yes"])
    def test_anything_else_says_nothing(self, sent: str) -> None:
        assert should_retry_header({"x-should-retry": sent}) is None
        assert failure_of(answered(503, x_should_retry=sent)).category == "transient"

    def test_an_error_without_a_status_but_with_a_response(self) -> None:
        response = type("Response", (), {"headers": {"x-should-retry": "true", "retry-after-ms": "40"}})()
        failure = failure_of(look_alike("some.sdk.Error", response=response))
        assert (failure.category, failure.retry_after) == ("transient", 0.04)

    def test_what_was_declared_for_the_call_goes_first(self) -> None:
        declared = Classifier(statuses={503: "transient"}, conflict_is_lock=True)
        assert failure_of(answered(503, x_should_retry="false"), declared).category == "transient"
        assert failure_of(answered(409, x_should_retry="false"), declared).category == "transient"

    @pytest.mark.parametrize("headers", [5, object(), [1], None, {1: 2}])
    def test_headers_that_are_none(self, headers: Any) -> None:
        assert should_retry_header(headers) is None


@pytest.mark.promise("L3")
class TestAtWork:
    @staticmethod
    def statuses(*script: Reply) -> tuple[int, list[float]]:
        with (
            FlakyServer(*script) as server,
            virtual_clock() as clock,
            httpx.Client(transport=RetryTransport()) as client,
        ):
            return client.get(server.url).status_code, clock.waits

    def test_a_client_adapter_waits_as_many_milliseconds(self) -> None:
        assert self.statuses(Reply(status=503, headers={"retry-after-ms": "40"})) == (200, [0.04])

    def test_a_client_adapter_retries_a_409_when_the_server_says_so(self) -> None:
        status, waits = self.statuses(Reply(status=409, headers={"x-should-retry": "true"}))
        assert (status, len(waits)) == (200, 1)

    def test_a_client_adapter_does_not_retry_a_503_when_the_server_says_so(self) -> None:
        assert self.statuses(Reply(status=503, headers={"x-should-retry": "false"})) == (503, [])

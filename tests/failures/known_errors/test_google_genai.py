"""Errors of google-genai, built by hand: it does not allow the tenacity that other tests need.

Its client really is httpx2, whose errors it lets through. Responses become errors as google-genai 3.3 makes them.
"""

from typing import Any

import pytest
from tests.failures.asking import look_alike
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.testing import FlakyServer, Reply

from .table import check_network_failure, check_row, check_status


def ask(url: str, timeout: float = PATIENCE) -> None:
    with imported("httpx2").Client(timeout=timeout, trust_env=False) as client:
        response = client.post(url, json={})
    raise api_error(response.status_code, response.json(), response)


def api_error(code: int, body: dict[str, Any], response: Any = None) -> Exception:
    """An error as google-genai raises it for this body."""
    base = type(look_alike("google.genai.errors.APIError"))
    name = "ServerError" if code >= 500 else "ClientError"
    about = {"code": code, "status": body["error"].get("status"), "details": body, "response": response}
    return look_alike(f"google.genai.errors.{name}", (base,), **about)


GOOGLE_GENAI = Library(name="google-genai (built by hand)", call=ask, raises=("google", "httpx2"))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(GOOGLE_GENAI, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(GOOGLE_GENAI, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(GOOGLE_GENAI)


@pytest.mark.promise("L3")
class TestVendorsOwnWords:
    def test_the_delay_that_google_asks_for(self) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
        body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [info]}}
        with FlakyServer(then=Reply(status=429, body=body)) as server:
            failure = classified(raised_by(ask, server.url))
        assert (failure.category, failure.retry_after) == ("transient", 34.5)

    @pytest.mark.parametrize(("said", "category"), [("ABORTED", "transient"), ("ALREADY_EXISTS", "permanent")])
    def test_a_409_that_was_aborted_may_be_run_again(self, said: str, category: str) -> None:
        body = {"error": {"code": 409, "status": said, "message": "x"}}
        with FlakyServer(then=Reply(status=409, body=body)) as server:
            failure = classified(raised_by(ask, server.url))
        assert (failure.category, failure.status) == (category, 409)

    def test_an_error_inside_a_200_counts_as_what_it_is(self) -> None:
        error = api_error(503, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}})
        failure = classified(error)
        assert (failure.category, failure.status) == ("transient", 503)

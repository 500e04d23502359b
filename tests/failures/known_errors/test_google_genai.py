"""Errors of google-genai."""

import json
from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES, event_stream
from tests.misbehaving.library import Library, classified, failure_after, imported

from redrive.failures.failure import Failure
from redrive.testing import Reply

from .model_apis import check_broken_stream
from .table import check_network_failure, check_row, check_status


def client(url: str, timeout: float = PATIENCE) -> Any:
    # Nothing is encrypted here, and to load the certificates takes longer than all else.
    unencrypted = {"verify": imported("ssl").SSLContext(), "trust_env": False}
    options = {"base_url": url, "client_args": unencrypted, "async_client_args": unencrypted}
    return imported("google.genai").Client(api_key="none", http_options={**options, "timeout": int(timeout * 1000)})


def ask(url: str, timeout: float = PATIENCE) -> Any:
    with client(url, timeout) as genai:
        return genai.models.generate_content(model="gemini-3-flash", contents="Hello")


def stream(url: str, timeout: float = PATIENCE) -> Any:
    with client(url, timeout) as genai:
        return list(genai.models.generate_content_stream(model="gemini-3-flash", contents="Hello"))


GOOGLE_GENAI = Library(name="google-genai", call=ask, calls={"error in a stream": stream}, raises=("google", "httpx2"))


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


def refused(code: int, said: str, *details: object) -> dict[str, Any]:
    """The body of a response, as Google's services write it."""
    return {"error": {"code": code, "status": said, "message": "x", "details": details}}


def failure_of_response(code: int, said: str, *details: object) -> Failure:
    return failure_after(Reply(status=code, body=refused(code, said, *details)), ask)


@pytest.mark.promise("L3")
class TestVendorsOwnWords:
    def test_the_delay_that_google_asks_for(self) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
        failure = failure_of_response(429, "RESOURCE_EXHAUSTED", info)
        assert (failure.category, failure.retry_after) == ("transient", 34.5)

    @pytest.mark.parametrize(("said", "category"), [("ABORTED", "transient"), ("ALREADY_EXISTS", "permanent")])
    def test_a_409_that_was_aborted_may_be_run_again(self, said: str, category: str) -> None:
        failure = failure_of_response(409, said)
        assert (failure.category, failure.status) == (category, 409)

    @pytest.mark.parametrize(
        ("code", "said", "category"),
        [(503, "UNAVAILABLE", "transient"), (429, "RESOURCE_EXHAUSTED", "transient"), (400, "INVALID", "permanent")],
    )
    def test_an_error_inside_a_200_counts_as_what_it_is(self, code: int, said: str, category: str) -> None:
        events = event_stream(f"data: {json.dumps(refused(code, said))}\n\n")
        failure = failure_after(events, stream)
        assert (failure.category, failure.status) == (category, code)


@pytest.mark.promise("L2")
def test_a_stream_that_breaks_off_is_transient() -> None:
    check_broken_stream(stream, "data: {}\n\n")


@pytest.mark.promise("L3")
def test_an_error_that_has_no_response() -> None:
    """Built by hand: errors over a websocket have no response."""
    error = imported("google.genai.errors").APIError(503, refused(503, "UNAVAILABLE"))
    assert (classified(error).category, classified(error).status) == ("transient", 503)

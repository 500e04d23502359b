"""Errors of the OpenAI client."""

import json
from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, failure_after, imported

from redrive.testing import Reply

from .model_apis import check_advice, check_broken_stream, failure_in_stream
from .table import check_network_failure, check_row, check_status


def client(url: str, timeout: float = PATIENCE) -> Any:
    openai = imported("openai")
    # Nothing is encrypted here, and to load the certificates takes longer than all else.
    http = openai.DefaultHttpxClient(verify=False, trust_env=False)
    return openai.OpenAI(base_url=url, api_key="sk-none", max_retries=0, timeout=timeout, http_client=http)


def ask(url: str, timeout: float = PATIENCE, stream: bool = False) -> Any:
    messages = [{"role": "user", "content": "Hello"}]
    with client(url, timeout) as openai:
        answer = openai.chat.completions.create(model="gpt-4o", messages=messages, stream=stream)
        return list(answer) if stream else answer


def stream(url: str, timeout: float = PATIENCE) -> Any:
    return ask(url, timeout, stream=True)


OPENAI = Library(name="openai", call=ask, calls={"error in a stream": stream}, raises=("openai",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(OPENAI, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(OPENAI, how, conflicts_pass=True)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(OPENAI)


@pytest.mark.promise("L3")
class TestVendorsOwnWords:
    @pytest.mark.parametrize(
        ("error", "category"),
        [
            ({"type": "server_error", "code": None, "message": "x"}, "transient"),
            ({"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "x"}, "transient"),
            ({"code": 502, "message": "an upstream failed"}, "transient"),
            ({"code": "503", "message": "an upstream failed"}, "transient"),
            ({"code": 400, "message": "x"}, "permanent"),
            ({"type": "invalid_request_error", "message": "x"}, "permanent"),
            ({"type": "insufficient_quota", "code": "insufficient_quota", "message": "x"}, "permanent"),
            ({"type": "something_new", "message": "x"}, "unknown"),
        ],
    )
    def test_an_error_inside_a_200_counts_as_what_it_is(self, error: dict[str, Any], category: str) -> None:
        assert failure_in_stream(stream, f"data: {json.dumps({'error': error})}\n\n").category == category

    def test_a_spent_quota_is_permanent_although_it_is_a_429(self) -> None:
        error = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota"}
        failure = failure_after(Reply(status=429, body={"error": error}, headers={"Retry-After": "7"}), ask)
        assert (failure.category, failure.status) == ("permanent", 429)
        assert "add credit" in failure.reason

    @pytest.mark.parametrize(
        ("status", "said", "category"),
        [(503, "false", "permanent"), (409, "false", "permanent"), (400, "true", "transient")],
    )
    def test_the_advice_of_the_server(self, status: int, said: str, category: str) -> None:
        check_advice(ask, status, said, category)


@pytest.mark.promise("L2")
def test_a_stream_that_breaks_off_is_transient() -> None:
    check_broken_stream(stream, "data: {}\n\n")


@pytest.mark.promise("L2")
def test_a_mistake_that_is_wrapped_as_a_connection_error_is_permanent() -> None:
    """Built by hand: OpenAI's client 2 wraps whatever is raised inside its HTTP client so, and client 3 does not."""
    error = imported("openai").APIConnectionError(request=None)
    error.__cause__ = TypeError("a mistake in a hook")
    assert classified(error).category == "permanent"

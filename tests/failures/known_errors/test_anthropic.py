"""Errors of the Anthropic client."""

import json
from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, failure_after, imported

from redrive.testing import Reply

from .model_apis import check_advice, check_broken_stream, failure_in_stream
from .table import check_network_failure, check_row, check_status


def ask(url: str, timeout: float = PATIENCE, stream: bool = False) -> Any:
    messages = [{"role": "user", "content": "Hello"}]
    library = imported("anthropic")
    # Nothing is encrypted here, and to load the certificates takes longer than all else.
    http = library.DefaultHttpxClient(verify=False, trust_env=False)
    settings = {"max_retries": 0, "timeout": timeout, "http_client": http}
    with library.Anthropic(base_url=url, api_key="sk-none", **settings) as anthropic:
        answer = anthropic.messages.create(model="claude-sonnet-4-5", max_tokens=10, messages=messages, stream=stream)
        return list(answer) if stream else answer


def stream(url: str, timeout: float = PATIENCE) -> Any:
    return ask(url, timeout, stream=True)


ANTHROPIC = Library(name="anthropic", call=ask, calls={"error in a stream": stream}, raises=("anthropic",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(ANTHROPIC, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(ANTHROPIC, how, conflicts_pass=True)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(ANTHROPIC)


@pytest.mark.promise("L3")
class TestVendorsOwnWords:
    @pytest.mark.parametrize(
        ("kind", "category"),
        [
            ("overloaded_error", "transient"),
            ("rate_limit_error", "transient"),
            ("api_error", "transient"),
            ("timeout_error", "transient"),
            ("invalid_request_error", "permanent"),
            ("billing_error", "permanent"),
            ("something_new", "unknown"),
        ],
    )
    def test_an_error_inside_a_200_counts_as_what_it_is(self, kind: str, category: str) -> None:
        body = {"type": "error", "error": {"type": kind, "message": "x"}}
        failure = failure_in_stream(stream, f"event: error\ndata: {json.dumps(body)}\n\n")
        assert failure.category == category
        assert kind in failure.reason or category == "unknown"

    def test_529_is_an_overload(self) -> None:
        failure = failure_after(Reply(status=529, headers={"Retry-After": "7"}), ask)
        assert (failure.category, failure.status, failure.retry_after) == ("transient", 529, 7.0)
        assert failure.reason.startswith("529 Overloaded")

    @pytest.mark.parametrize(
        ("status", "said", "category"),
        [(529, "false", "permanent"), (409, "false", "permanent"), (400, "true", "transient")],
    )
    def test_the_advice_of_the_server(self, status: int, said: str, category: str) -> None:
        check_advice(ask, status, said, category)


@pytest.mark.promise("L2")
def test_a_stream_that_breaks_off_is_transient() -> None:
    check_broken_stream(stream, 'event: ping\ndata: {"type": "ping"}\n\n')

"""Errors of litellm, built by hand: it is over 100 MB, asks the network for prices when it is imported, and has pins
that hold other clients back: OpenAI's at version 2, in releases that otherwise fit.

The chains are those that litellm 1.106 really makes: its own errors derive from OpenAI's, and are raised while an error
of the provider's module is handled, which was raised while the error of the HTTP client was handled.
"""

from typing import Any

import pytest
from tests.failures.asking import look_alike
from tests.misbehaving.failures import NETWORK_FAILURES, NOT_SENT, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, failure_of, imported, raised_by

from redrive.testing import FlakyServer, Reply

from .table import check_row
from .test_openai import ask

BASE = "litellm.llms.base_llm.chat.transformation.BaseLLMException"


def ask_through_litellm(url: str, timeout: float = PATIENCE) -> None:
    """OpenAI's client asks for real; what litellm makes of its error is built by hand."""
    inner = raised_by(lambda url: ask(url, timeout), url)
    openai = imported("openai")
    try:
        try:
            raise inner
        except Exception:
            raise _like_providers(inner)  # noqa: B904 - litellm does not name the cause either
    except Exception:
        raise _like_litellms(inner, openai)  # noqa: B904 - nor here


def _like_providers(inner: Any) -> Exception:
    base = type(look_alike(BASE))
    status = getattr(inner, "status_code", 500)
    return look_alike("litellm.llms.openai.common_utils.OpenAIError", (base,), status_code=status)


def _like_litellms(inner: Any, openai: Any) -> Exception:
    status = getattr(inner, "status_code", None)
    if status is None:
        timed_out = isinstance(inner, openai.APITimeoutError)
        name, base, status = ("Timeout", openai.APITimeoutError, 408) if timed_out else _SERVER_ERROR
    else:
        name = {429: "RateLimitError", 503: "ServiceUnavailableError", 500: "InternalServerError"}.get(
            status, "APIError"
        )
        base = openai.APIError
    kind: Any = type(
        name, (getattr(openai, base) if isinstance(base, str) else base,), {"__module__": "litellm.exceptions"}
    )
    error: Any = kind.__new__(kind)
    error.status_code, error.body, error.message = status, getattr(inner, "body", None), str(inner)
    assert isinstance(error, Exception)
    return error


# litellm says 500 for a connection that failed.
_SERVER_ERROR = ("InternalServerError", "InternalServerError", 500)

LITELLM = Library(name="litellm (built by hand)", call=ask_through_litellm, raises=("litellm",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    failure = failure_of(LITELLM, how)
    assert failure.type.startswith("litellm.exceptions.")
    assert (failure.category, failure.not_sent) == ("transient", how in NOT_SENT)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status_and_keep_their_headers(how: str) -> None:
    failure = failure_of(LITELLM, how)
    assert failure.category == ("transient" if how in ("409", "429", "500", "503") else "permanent")
    assert (failure.status, failure.retry_after) == (int(how), 7.0)


@pytest.mark.promise("L3")
def test_a_spent_quota_is_permanent() -> None:
    error = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota"}
    with FlakyServer(then=Reply(status=429, body={"error": error})) as server:
        failure = classified(raised_by(ask_through_litellm, server.url))
    assert (failure.category, failure.status) == ("permanent", 429)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(LITELLM)

"""Errors of the OpenAI client, and of litellm, whose errors derive from them."""

from collections.abc import Mapping

from redrive.failures.failure import Verdict
from redrive.failures.http_status import status_verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    status_number,
    transient,
    unknown,
    verdict_where_conflicts_pass,
    with_response,
    wrapped_verdict,
    wrapper,
)
from redrive.failures.known_errors.system.stdlib_errors import TIMEOUT

_LOST = transient("the connection failed or was lost; a retry may get through")
_QUOTA_SPENT = permanent(
    "insufficient_quota: the account has no credit left; add credit or raise its limit, then redrive the call"
)
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"})

# What an error event in a stream says: the response itself was a 200.
_TRANSIENT_CODES = frozenset({"server_error", "rate_limit_exceeded", "rate_limit_error", "service_unavailable"}) | {
    "internal_error",
    "internal_server_error",
    "overloaded",
    "overloaded_error",
    "server_overloaded",
    "timeout",
    "vector_store_timeout",
    "api_error",
    # Of redrive: the stream ended, but not as a whole one does.
    "stream_cut",
}
# Of redrive: whoever answered with the 200, it was not the vendor.
_NO_ANSWER = transient("the response is no answer of the vendor, as when a proxy answers for it; a retry may succeed")
_PERMANENT_CODES = frozenset(
    {"invalid_request_error", "authentication_error", "permission_error", "not_found_error"}
) | {
    "invalid_prompt",
    "invalid_api_key",
    "content_filter",
    "context_length_exceeded",
    "model_not_found",
    "data_residency_mismatch",
    "bio_policy",
    "misalignment_policy_violation",
    "image_content_policy_violation",
    "image_file_not_found",
    "image_file_too_large",
    "image_parse_error",
    "image_too_large",
    "image_too_small",
    "empty_image_file",
    "unsupported_image_media_type",
}
# invalid_image_url, invalid_base64_image and whatever else is added.
_INVALID = "invalid_"


def _codes(error: BaseException) -> list[object]:
    """Return what the error body calls itself: its `code` and its `type`, the more exact first."""
    body = attribute(error, "body")
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    in_body = [body.get("code"), body.get("type")] if isinstance(body, Mapping) else []
    return [*in_body, attribute(error, "code"), attribute(error, "type")]


def quota_is_spent(error: BaseException) -> bool:
    """Whether the vendor of a model says that the account has no credit left: waiting does not help."""
    if any(isinstance(code, str) and code in _QUOTA_CODES for code in _codes(error)):
        return True
    # Anthropic says it as an invalid request, in words alone.
    return "credit balance is too low" in str(attribute(error, "message"))


def _status_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    status, response = attribute(error, "status_code"), attribute(error, "response")
    headers = attribute(response, "headers")
    if quota_is_spent(error):
        # It comes as 429, like a rate limit, but no wait resets it.
        return with_response(_QUOTA_SPENT, status, headers)
    return verdict_where_conflicts_pass(status, headers)


def _stream_error(error: BaseException, lookup: Lookup) -> Verdict | None:
    """An error event inside a stream that began with a 200: only the body says what it is."""
    if quota_is_spent(error):
        return _QUOTA_SPENT
    for code in _codes(error):
        number = status_number(int(code) if isinstance(code, str) and code.isdecimal() else code)
        if number is not None and number >= 400:
            return status_verdict(number)
        if code == "no_answer":
            return _NO_ANSWER
        if code in _TRANSIENT_CODES:
            return transient(f"the stream ended with {code}; a retry may succeed")
        if code in _PERMANENT_CODES or (isinstance(code, str) and code.startswith(_INVALID)):
            return permanent(f"the stream ended with {code}: the same request is rejected again")
    return wrapped_verdict(error, lookup)


def _through_litellm(error: BaseException, lookup: Lookup) -> Verdict | None:
    """litellm gives connection errors a status, and loses headers; the error that it was handling has the facts."""
    if _says_quota(error):
        return with_response(_QUOTA_SPENT, attribute(error, "status_code"), None)
    return wrapped_verdict(error, lookup)


def _says_quota(error: BaseException) -> bool:
    # Not every provider's code is kept as an attribute.
    return quota_is_spent(error) or "insufficient_quota" in str(attribute(error, "message"))


_LITELLM_ERRORS = (
    "APIConnectionError",
    "APIError",
    "BadGatewayError",
    "InternalServerError",
    "RateLimitError",
    "ServiceUnavailableError",
    "Timeout",
)
_LITELLM: Table = {
    **{f"litellm.exceptions.{name}": _through_litellm for name in _LITELLM_ERRORS},
    "litellm.llms.base_llm.chat.transformation.BaseLLMException": _through_litellm,
    "litellm.exceptions.BudgetExceededError": permanent("the budget set in litellm is spent; raise it first"),
    "litellm.exceptions.MidStreamFallbackError": transient("the stream broke off midway; a retry may succeed"),
}

OPENAI_ERRORS: Table = {
    # An error event of a stream that the client hands on as an item; it has the same codes.
    "redrive.errors.ResponseFailedError": _stream_error,
    "openai.APITimeoutError": wrapper(TIMEOUT),
    "openai.APIConnectionError": wrapper(_LOST),
    "openai.APIStatusError": _status_error,
    "openai.APIResponseValidationError": permanent("validation: the response does not fit its schema"),
    "openai.APIError": _stream_error,
    "openai.LengthFinishReasonError": permanent("the answer reached its length limit: the same request does so again"),
    "openai.ContentFilterFinishReasonError": permanent("the content filter rejected the request"),
    "openai.WebSocketConnectionClosedError": wrapper(_LOST),
    "openai.WebSocketQueueFullError": unknown("messages are sent faster than the connection takes them"),
    **_LITELLM,
}

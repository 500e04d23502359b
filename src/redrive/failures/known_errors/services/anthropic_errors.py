"""Errors of the Anthropic client."""

from collections.abc import Mapping

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    transient,
    verdict_where_conflicts_pass,
    with_response,
    wrapper,
)
from redrive.failures.known_errors.system.stdlib_errors import TIMEOUT

_LOST = transient("the connection failed or was lost; a retry may get through")
_OVERLOADED = 529

# The types of error that an event in a stream may carry: the response itself was a 200.
_BY_TYPE = {
    "overloaded_error": transient("overloaded_error: the service is overloaded at the moment"),
    "rate_limit_error": transient("rate_limit_error: the rate limit resets over time"),
    "api_error": transient("api_error: a failure inside the service, which may be temporary"),
    "timeout_error": transient("timeout_error: the service timed out; the next attempt may be faster"),
    "invalid_request_error": permanent("invalid_request_error: the same request is rejected again"),
    "authentication_error": permanent("authentication_error: the credentials are missing or wrong"),
    "billing_error": permanent("billing_error: the account cannot be billed; correct that first"),
    "permission_error": permanent("permission_error: the caller may not do this"),
    "not_found_error": permanent("not_found_error: the resource does not exist"),
    "request_too_large": permanent("request_too_large: the same request is too large again"),
}


def _status_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    status, headers = attribute(error, "status_code"), attribute(attribute(error, "response"), "headers")
    verdict = verdict_where_conflicts_pass(status, headers)
    if verdict is None:
        return _stream_error(error)
    if status == _OVERLOADED and verdict.category == "transient":
        return with_response(transient("529 Overloaded: the service is overloaded at the moment"), status, headers)
    return verdict


def _stream_error(error: BaseException) -> Verdict | None:
    body = attribute(error, "body")
    about = body.get("error") if isinstance(body, Mapping) else None
    kind = about.get("type") if isinstance(about, Mapping) else attribute(error, "type")
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None


ANTHROPIC_ERRORS: Table = {
    "anthropic.APITimeoutError": wrapper(TIMEOUT),
    "anthropic.APIConnectionError": wrapper(_LOST),
    "anthropic.APIStatusError": _status_error,
    "anthropic.APIResponseValidationError": permanent("validation: the response does not fit its schema"),
    "anthropic.APIWebhookValidationError": permanent("validation: the webhook is not signed as it must be"),
    "anthropic.RetryableError": transient("the error asks for a retry by its class"),
    "anthropic.CredentialsError": permanent("the credentials are missing or cannot be read"),
}

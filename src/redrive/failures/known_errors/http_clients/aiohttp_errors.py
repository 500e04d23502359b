"""Errors of aiohttp's client."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    before_it_was_sent,
    permanent,
    transient,
    verdict_of_response,
)
from redrive.failures.known_errors.system.stdlib_errors import BODY_CUT_OFF, CERTIFICATE_REFUSED, NOT_HTTP, TIMEOUT

_NO_CONNECTION = transient("no connection could be made; a retry may get through", not_sent=True)
_LOST = transient("the connection was lost midway; a retry may get through")
_BAD_URL = permanent("validation: the URL cannot be used")


def _connector_error(error: BaseException, lookup: Lookup) -> Verdict:
    """The system's error is in `os_error`; whichever it is, nothing had been sent."""
    inner = attribute(error, "os_error")
    verdict = lookup(inner) if isinstance(inner, BaseException) else None
    return before_it_was_sent(verdict) if verdict is not None and verdict.category == "transient" else _NO_CONNECTION


def _tls_error(error: BaseException, lookup: Lookup) -> Verdict:
    inner = attribute(error, "os_error")
    verdict = lookup(inner) if isinstance(inner, BaseException) else None
    return before_it_was_sent(verdict) if verdict is not None else _NO_CONNECTION


def _payload_error(error: BaseException, _lookup: Lookup) -> Verdict:
    if _cause_is(error, "ContentEncodingError"):
        return permanent("validation: the body is not encoded as its header says")
    return BODY_CUT_OFF


def _response_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    # aiohttp reports a response that it cannot parse as status 400.
    if _cause_is(error, "HttpProcessingError"):
        return NOT_HTTP
    return verdict_of_response(attribute(error, "status"), attribute(error, "headers"))


def _content_type(error: BaseException, _lookup: Lookup) -> Verdict:
    """A gateway's error page is not JSON either, so the status is checked before the content type."""
    by_status = verdict_of_response(attribute(error, "status"), attribute(error, "headers"))
    return by_status or permanent("validation: the response does not have the expected content type")


def _proxy_answer(error: BaseException, lookup: Lookup) -> Verdict | None:
    verdict = _response_error(error, lookup)
    if verdict is None:
        return None
    # The status is the proxy's and must not be taken for the service's.
    return Verdict(category=verdict.category, reason=f"the proxy answered {verdict.reason}", not_sent=True)


def _cause_is(error: BaseException, name: str) -> bool:
    cause = error.__cause__
    return cause is not None and any(
        base.__module__ == "aiohttp.http_exceptions" and base.__name__ == name for base in type(cause).__mro__
    )


_BY_NAME: Table = {
    "ClientConnectorCertificateError": before_it_was_sent(CERTIFICATE_REFUSED),
    "ServerFingerprintMismatch": before_it_was_sent(CERTIFICATE_REFUSED),
    "ClientSSLError": _tls_error,
    "ClientConnectorError": _connector_error,
    "ConnectionTimeoutError": transient("connecting timed out; the next attempt may be faster", not_sent=True),
    "ServerTimeoutError": TIMEOUT,
    "ServerDisconnectedError": transient("the server closed the connection without a response"),
    "ClientConnectionError": _LOST,
    "ClientPayloadError": _payload_error,
    "UploadAbortedError": transient("the request was not sent completely; a retry may get through"),
    "ClientHttpProxyError": _proxy_answer,
    "TooManyRedirects": permanent("too many redirects: the same request is redirected again"),
    "ContentTypeError": _content_type,
    "ClientResponseError": _response_error,
    "InvalidURL": _BAD_URL,
    "NonHttpUrlClientError": _BAD_URL,
}

AIOHTTP_ERRORS: Table = {f"aiohttp.client_exceptions.{name}": entry for name, entry in _BY_NAME.items()}

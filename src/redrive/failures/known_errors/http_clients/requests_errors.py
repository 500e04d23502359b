"""Errors of requests, and of urllib3 beneath it."""

import re

from redrive.failures.failure import Verdict
from redrive.failures.http_status import status_verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    before_it_was_sent,
    permanent,
    transient,
    unknown,
    verdict_of_response,
)
from redrive.failures.known_errors.system.stdlib_errors import BODY_CUT_OFF, NOT_HTTP, TIMEOUT

_NO_CONNECTION = transient("no connection could be made; a retry may get through", not_sent=True)
_CONNECT_TIMEOUT = transient("connecting timed out; the next attempt may be faster", not_sent=True)
_LOST = transient("the connection failed or was lost; a retry may get through")
_BAD_URL = permanent("validation: the URL cannot be used")
_BAD_ENCODING = permanent("validation: the body is not encoded as its header says")
_TOO_MANY_REDIRECTS = permanent("too many redirects: the same request is redirected again")

_TUNNEL_STATUS = r"Tunnel connection failed: ([45][0-9]{2})\b"
_REPEATED_STATUS = r"too many ([45][0-9]{2}) error responses"


def _carried(error: BaseException, lookup: Lookup) -> Verdict | None:
    """Return the verdict on the wrapped error, which is in `reason` or the first argument."""
    for inner in (attribute(error, "reason"), error.args[0] if error.args else None):
        if isinstance(inner, BaseException) and (verdict := lookup(inner)) is not None:
            return verdict
    return None


def _connection_error(error: BaseException, lookup: Lookup) -> Verdict:
    return _carried(error, lookup) or _LOST


def _tls_error(error: BaseException, lookup: Lookup) -> Verdict:
    """TLS may fail before the request is sent, but also while the response is read."""
    return _carried(error, lookup) or unknown("a TLS error that may be transient or permanent")


def _proxy_error(error: BaseException, _lookup: Lookup) -> Verdict:
    if (found := re.search(_TUNNEL_STATUS, str(error))) is not None:
        verdict = status_verdict(int(found[1]))
        return Verdict(category=verdict.category, reason=f"the proxy answered {verdict.reason}", not_sent=True)
    return transient("the proxy could not be reached", not_sent=True)


def _gave_up(error: BaseException, lookup: Lookup) -> Verdict:
    return _carried(error, lookup) or transient("the client's own retries failed each time")


def _max_retries(error: BaseException, lookup: Lookup) -> Verdict | None:
    return _carried(error, lookup)


def _repeated_answers(error: BaseException, _lookup: Lookup) -> Verdict | None:
    """urllib3 made its own retries and got an error status each time."""
    if (found := re.search(_REPEATED_STATUS, str(error))) is not None:
        return status_verdict(int(found[1]))
    return _TOO_MANY_REDIRECTS if "too many redirects" in str(error) else None


def _answer(error: BaseException, _lookup: Lookup) -> Verdict | None:
    response = attribute(error, "response")
    return verdict_of_response(attribute(response, "status_code"), attribute(response, "headers"))


def _new_connection(error: BaseException, lookup: Lookup) -> Verdict:
    cause = error.__cause__
    verdict = lookup(cause) if cause is not None else None
    return before_it_was_sent(verdict) if verdict is not None and verdict.category == "transient" else _NO_CONNECTION


REQUESTS_ERRORS: Table = {
    "requests.exceptions.ConnectTimeout": _CONNECT_TIMEOUT,
    "requests.exceptions.ReadTimeout": TIMEOUT,
    "requests.exceptions.Timeout": TIMEOUT,
    "requests.exceptions.SSLError": _tls_error,
    "requests.exceptions.ProxyError": _proxy_error,
    "requests.exceptions.ConnectionError": _connection_error,
    "requests.exceptions.ChunkedEncodingError": BODY_CUT_OFF,
    "requests.exceptions.ContentDecodingError": _BAD_ENCODING,
    "requests.exceptions.RetryError": _gave_up,
    "requests.exceptions.HTTPError": _answer,
    "requests.exceptions.InvalidURL": _BAD_URL,
    "requests.exceptions.InvalidSchema": _BAD_URL,
    "requests.exceptions.MissingSchema": _BAD_URL,
    "requests.exceptions.URLRequired": _BAD_URL,
    "requests.exceptions.InvalidHeader": permanent("validation: a header is not valid HTTP"),
    "requests.exceptions.InvalidJSONError": permanent("validation: the data is not JSON"),
    "requests.exceptions.TooManyRedirects": _TOO_MANY_REDIRECTS,
    "requests.exceptions.StreamConsumedError": permanent("the body was read already"),
    "requests.exceptions.UnrewindableBodyError": permanent("the request's body cannot be sent a second time"),
    "urllib3.exceptions.NewConnectionError": _new_connection,
    "urllib3.exceptions.ConnectTimeoutError": _CONNECT_TIMEOUT,
    "urllib3.exceptions.TimeoutError": TIMEOUT,
    "urllib3.exceptions.EmptyPoolError": transient("no pooled connection was free in time", not_sent=True),
    "urllib3.exceptions.ClosedPoolError": permanent("the connection pool was closed"),
    "urllib3.exceptions.MaxRetryError": _max_retries,
    "urllib3.exceptions.ResponseError": _repeated_answers,
    "urllib3.exceptions.SSLError": _tls_error,
    "urllib3.exceptions.ProxyError": _proxy_error,
    "urllib3.exceptions.IncompleteRead": BODY_CUT_OFF,
    "urllib3.exceptions.InvalidChunkLength": BODY_CUT_OFF,
    "urllib3.exceptions.ResponseNotChunked": NOT_HTTP,
    "urllib3.exceptions.ProtocolError": _LOST,
    "urllib3.exceptions.DecodeError": _BAD_ENCODING,
    "urllib3.exceptions.InvalidHeader": permanent("validation: a header is not valid HTTP"),
    "urllib3.exceptions.LocationValueError": _BAD_URL,
    "urllib3.exceptions.UnrewindableBodyError": permanent("the request's body cannot be sent a second time"),
}

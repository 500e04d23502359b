"""Errors of requests, and of urllib3 below it."""

import re

from redrive.failures.failure import Verdict
from redrive.failures.http_status import status_verdict
from redrive.failures.known_errors.entries import (
    Ask,
    Table,
    attribute,
    before_it_was_sent,
    permanent,
    transient,
    unknown,
    verdict_of_response,
)
from redrive.failures.known_errors.stdlib_errors import BODY_CUT_OFF, NOT_HTTP, TIMEOUT

_NO_CONNECTION = transient("no connection could be made: a network failure passes", not_sent=True)
_CONNECT_TIMEOUT = transient("no connection in time: the next may be faster", not_sent=True)
_LOST = transient("the connection failed or was lost: a network failure passes")
_BAD_URL = permanent("validation: the URL cannot be used")
_BAD_ENCODING = permanent("validation: the body is not encoded as its header says")
_TOO_MANY_REDIRECTS = permanent("the redirects lead in a circle, and stay so")

_TUNNEL_STATUS = r"Tunnel connection failed: ([45][0-9]{2})\b"
_REPEATED_STATUS = r"too many ([45][0-9]{2}) error responses"


def _carried(error: BaseException, ask: Ask) -> Verdict | None:
    """What the tables say about the error inside: in `reason`, or the first argument."""
    for inner in (attribute(error, "reason"), error.args[0] if error.args else None):
        if isinstance(inner, BaseException) and (verdict := ask(inner)) is not None:
            return verdict
    return None


def _connection_error(error: BaseException, ask: Ask) -> Verdict:
    return _carried(error, ask) or _LOST


def _tls_error(error: BaseException, ask: Ask) -> Verdict:
    """TLS comes before the request, but may also break while the answer is read."""
    return _carried(error, ask) or unknown("a TLS error that says neither way")


def _proxy_error(error: BaseException, _ask: Ask) -> Verdict:
    if (found := re.search(_TUNNEL_STATUS, str(error))) is not None:
        verdict = status_verdict(int(found[1]))
        return Verdict(category=verdict.category, reason=f"the proxy answered {verdict.reason}", not_sent=True)
    return transient("the proxy could not be reached", not_sent=True)


def _max_retries(error: BaseException, ask: Ask) -> Verdict | None:
    return _carried(error, ask)


def _repeated_answers(error: BaseException, _ask: Ask) -> Verdict | None:
    """urllib3 retried by itself and got an error status each time."""
    if (found := re.search(_REPEATED_STATUS, str(error))) is not None:
        return status_verdict(int(found[1]))
    return _TOO_MANY_REDIRECTS if "too many redirects" in str(error) else None


def _answer(error: BaseException, _ask: Ask) -> Verdict | None:
    response = attribute(error, "response")
    return verdict_of_response(attribute(response, "status_code"), attribute(response, "headers"))


def _new_connection(error: BaseException, ask: Ask) -> Verdict:
    cause = error.__cause__
    verdict = ask(cause) if cause is not None else None
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
    "requests.exceptions.RetryError": _max_retries,
    "requests.exceptions.HTTPError": _answer,
    "requests.exceptions.InvalidURL": _BAD_URL,
    "requests.exceptions.InvalidSchema": _BAD_URL,
    "requests.exceptions.MissingSchema": _BAD_URL,
    "requests.exceptions.URLRequired": _BAD_URL,
    "requests.exceptions.InvalidHeader": permanent("validation: a header is not valid HTTP"),
    "requests.exceptions.InvalidJSONError": permanent("validation: the data is not JSON, and stays so"),
    "requests.exceptions.TooManyRedirects": _TOO_MANY_REDIRECTS,
    "requests.exceptions.StreamConsumedError": permanent("the body was read already"),
    "requests.exceptions.UnrewindableBodyError": permanent("the request's body cannot be sent a second time"),
    "urllib3.exceptions.NewConnectionError": _new_connection,
    "urllib3.exceptions.ConnectTimeoutError": _CONNECT_TIMEOUT,
    "urllib3.exceptions.TimeoutError": TIMEOUT,
    "urllib3.exceptions.EmptyPoolError": transient("no connection of the pool was free in time", not_sent=True),
    "urllib3.exceptions.ClosedPoolError": permanent("the pool of connections was closed"),
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

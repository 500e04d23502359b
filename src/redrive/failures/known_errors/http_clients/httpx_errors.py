"""Errors of httpx and its fork httpx2, and of httpcore and h11 beneath them."""

import re

from redrive.failures.failure import Verdict
from redrive.failures.http_status import status_verdict
from redrive.failures.known_errors.entries import (
    Entry,
    Lookup,
    Table,
    attribute,
    before_it_was_sent,
    permanent,
    transient,
    verdict_of_response,
)
from redrive.failures.known_errors.system.stdlib_errors import NOT_HTTP, TIMEOUT
from redrive.failures.matching import lineage

_LOST = transient("the connection was lost midway; a retry may get through")
_LEADING_STATUS = r"([45][0-9]{2})\b"
_DEEPEST_CAUSE = 8


def _connect_error(error: BaseException, lookup: Lookup) -> Verdict:
    """Connecting failed, so nothing was sent; but a rejected certificate is permanent."""
    cause = _carried(error)
    for _ in range(_DEEPEST_CAUSE):
        if cause is None:
            break
        if "ssl.SSLError" in lineage(type(cause)) and (verdict := lookup(cause)) is not None:
            return before_it_was_sent(verdict)
        cause = _carried(cause)
    return transient("no connection could be made; a retry may get through", not_sent=True)


def _carried(error: BaseException) -> BaseException | None:
    """Return the wrapped error: httpx chains it, httpcore keeps it as an argument without chaining."""
    if error.__cause__ is not None:
        return error.__cause__
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, BaseException) else None


def _proxy_error(error: BaseException, _lookup: Lookup) -> Verdict:
    """The proxy refused the connection; the text begins with its status."""
    if (found := re.match(_LEADING_STATUS, str(error))) is not None:
        verdict = status_verdict(int(found[1]))
        return Verdict(category=verdict.category, reason=f"the proxy answered {verdict.reason}", not_sent=True)
    return transient("the proxy could not be used", not_sent=True)


def _status_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    response = attribute(error, "response")
    return verdict_of_response(attribute(response, "status_code"), attribute(response, "headers"))


_TRANSPORT: dict[str, Entry] = {
    "ConnectError": _connect_error,
    "ConnectTimeout": transient("connecting timed out; the next attempt may be faster", not_sent=True),
    "PoolTimeout": transient("no pooled connection was free in time", not_sent=True),
    "ReadTimeout": TIMEOUT,
    "WriteTimeout": TIMEOUT,
    "TimeoutException": TIMEOUT,
    "NetworkError": _LOST,
    "RemoteProtocolError": NOT_HTTP,
    "LocalProtocolError": permanent("validation: the request is not valid HTTP"),
    "UnsupportedProtocol": permanent("validation: the URL's scheme cannot be used"),
    "ProxyError": _proxy_error,
}

_CLIENT: dict[str, Entry] = {
    **_TRANSPORT,
    "TransportError": _LOST,
    "HTTPStatusError": _status_error,
    "InvalidURL": permanent("validation: the URL cannot be used"),
    "TooManyRedirects": permanent("too many redirects: the same request is redirected again"),
    "DecodingError": permanent("validation: the body is not encoded as its header says"),
    "CookieConflict": permanent("several cookies have this name"),
    "StreamError": permanent("the body was read in the wrong order: the same call fails again"),
}

HTTPX_ERRORS: Table = {
    **{f"{package}.{name}": entry for package in ("httpx", "httpx2") for name, entry in _CLIENT.items()},
    **{f"{package}.{name}": entry for package in ("httpcore", "httpcore2") for name, entry in _TRANSPORT.items()},
    "h11._util.RemoteProtocolError": NOT_HTTP,
    "h11._util.LocalProtocolError": permanent("validation: the request is not valid HTTP"),
}

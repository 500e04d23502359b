"""Errors of websockets, by close code and by the answer to the handshake."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    transient,
    unknown,
    verdict_of_response,
)
from redrive.failures.known_errors.system.stdlib_errors import NOT_HTTP

_LOST = transient("the connection was lost midway; a retry may get through")
_BAD_HANDSHAKE = permanent("the server does not accept the WebSocket handshake")

_PERMANENT_CODES = {
    1002: "the peer says that the protocol was broken",
    1003: "the peer does not accept this kind of data",
    1007: "the peer could not decode the data",
    1008: "the peer says that its policy forbids this",
    1009: "the message is too big for the peer",
    1010: "the server lacks an extension that the client needs",
}


def _closed(error: BaseException, _lookup: Lookup) -> Verdict:
    code = attribute(attribute(error, "rcvd"), "code")
    if code in _PERMANENT_CODES:
        return permanent(f"close code {int(code)}: {_PERMANENT_CODES[code]}")
    return _LOST if code is None else transient(f"close code {int(code)}: the peer ended the connection; try again")


def _handshake_status(error: BaseException, _lookup: Lookup) -> Verdict | None:
    response = attribute(error, "response")
    return verdict_of_response(attribute(response, "status_code"), attribute(response, "headers"))


_BY_NAME: Table = {
    "ConnectionClosedOK": unknown("the peer closed the connection normally, which may or may not be a failure"),
    "ConnectionClosedError": _closed,
    "InvalidStatus": _handshake_status,
    "InvalidMessage": NOT_HTTP,
    "ProxyError": transient("the proxy could not be used", not_sent=True),
    "InvalidHandshake": _BAD_HANDSHAKE,
    "InvalidURI": permanent("validation: the URL cannot be used"),
    "InvalidProxy": permanent("validation: the proxy's URL cannot be used"),
    "PayloadTooBig": permanent("the message is too big: the same message is again"),
}

WEBSOCKETS_ERRORS: Table = {f"websockets.exceptions.{name}": entry for name, entry in _BY_NAME.items()}

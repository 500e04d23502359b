"""What an HTTP status says about trying again: a table, and the verdict drawn from it."""

from collections.abc import Mapping
from types import MappingProxyType

from redrive.failures.failure import Category, Verdict

STATUSES: Mapping[int, tuple[Category, str, str]] = MappingProxyType(
    {
        400: ("permanent", "Bad Request", "the same request gets the same answer"),
        401: ("permanent", "Unauthorized", "the credentials are missing or wrong, and stay so"),
        402: ("permanent", "Payment Required", "someone has to pay first"),
        403: ("permanent", "Forbidden", "the caller may not do this"),
        404: ("permanent", "Not Found", "what was asked for is not there"),
        405: ("permanent", "Method Not Allowed", "the same request gets the same answer"),
        406: ("permanent", "Not Acceptable", "the same request gets the same answer"),
        407: ("permanent", "Proxy Authentication Required", "the proxy's credentials are missing or wrong"),
        408: ("transient", "Request Timeout", "the server gave up waiting; the next request may be faster"),
        409: ("permanent", "Conflict", "the state has changed, and sending the same again does not change it back"),
        410: ("permanent", "Gone", "what was asked for is gone for good"),
        411: ("permanent", "Length Required", "the same request gets the same answer"),
        412: ("permanent", "Precondition Failed", "the state is not what the request requires"),
        413: ("permanent", "Content Too Large", "the same body stays too large"),
        414: ("permanent", "URI Too Long", "the same address stays too long"),
        415: ("permanent", "Unsupported Media Type", "the same body stays unreadable to the server"),
        416: ("permanent", "Range Not Satisfiable", "the range asked for is not there"),
        417: ("permanent", "Expectation Failed", "the same request gets the same answer"),
        421: ("permanent", "Misdirected Request", "this server does not answer for that host"),
        422: ("permanent", "Unprocessable Content", "the data did not pass validation"),
        423: ("permanent", "Locked", "the resource is locked; declare 423 transient if such locks are short"),
        424: ("permanent", "Failed Dependency", "a request this one depends on failed"),
        425: ("transient", "Too Early", "the server refused to risk a replay; it accepts the request a moment later"),
        426: ("permanent", "Upgrade Required", "the server wants another protocol"),
        428: ("permanent", "Precondition Required", "the same request gets the same answer"),
        429: ("transient", "Too Many Requests", "a rate limit passes"),
        431: ("permanent", "Request Header Fields Too Large", "the same headers stay too large"),
        451: ("permanent", "Unavailable For Legal Reasons", "the law does not change while we wait"),
        500: ("transient", "Internal Server Error", "a failure of the server may pass"),
        501: ("transient", "Not Implemented", "a failure of the server may pass"),
        502: ("transient", "Bad Gateway", "a gateway got no good answer, which passes"),
        503: ("transient", "Service Unavailable", "the server says that it is unavailable for now"),
        504: ("transient", "Gateway Timeout", "a gateway waited too long for an answer, which passes"),
        505: ("transient", "HTTP Version Not Supported", "a failure of the server may pass"),
        507: ("transient", "Insufficient Storage", "a failure of the server may pass"),
        508: ("transient", "Loop Detected", "a failure of the server may pass"),
        511: ("transient", "Network Authentication Required", "a network in between wants a login first"),
    }
)
"""For each status: its category, its name, and why it is in that category."""

REFUSED_UNPROCESSED = frozenset({425, 429})
"""The server turned these away before it did anything, so that repeating them cannot do the work twice."""

CONFLICT = 409

_NO_OVERRIDES: Mapping[int, Category] = MappingProxyType({})


def status_verdict(
    status: int,
    *,
    overrides: Mapping[int, Category] = _NO_OVERRIDES,
    conflict_is_lock: bool = False,
    retry_after: str | None = None,
) -> Verdict:
    """Whether an answer with this status may be followed by a better one.

    `overrides` is what the step declares about a status. `conflict_is_lock` declares 409 an optimistic-lock conflict:
    the caller promises to re-read the state before it tries again.
    """
    category, title, why = _row(status)
    if status in overrides:
        category = overrides[status]
        why = f"declared {category} for this call"
    elif status == CONFLICT and conflict_is_lock:
        category = "transient"
        why = "declared an optimistic-lock conflict; the state is re-read before the retry"
    return Verdict(
        category=category,
        reason=f"{status} {title}: {why}",
        status=status,
        retry_after=retry_after,
        not_sent=status in REFUSED_UNPROCESSED,
    )


def _row(status: int) -> tuple[Category, str, str]:
    if (row := STATUSES.get(status)) is not None:
        return row
    if 500 <= status <= 599:
        return "transient", "server error", "a failure of the server may pass"
    if 400 <= status <= 499:
        return "permanent", "client error", "the same request gets the same answer"
    if 300 <= status <= 399:
        return "unknown", "redirect", "it is not a failure by itself; declare the status if it is one here"
    if 200 <= status <= 299:
        return "unknown", "success", "it is not a failure; declare the status if it is one here"
    if 100 <= status <= 199:
        return "unknown", "interim answer", "it is not a failure by itself; the final answer never came"
    return "unknown", "no HTTP status", "statuses are 100 to 599"

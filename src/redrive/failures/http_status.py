"""Verdicts on HTTP statuses."""

from collections.abc import Mapping
from types import MappingProxyType

from redrive.failures.failure import Category, Verdict

STATUSES: Mapping[int, tuple[Category, str, str]] = MappingProxyType(
    {
        400: ("permanent", "Bad Request", "the same request is rejected again"),
        401: ("permanent", "Unauthorized", "the credentials are missing or wrong"),
        402: ("permanent", "Payment Required", "a payment is required first"),
        403: ("permanent", "Forbidden", "the caller may not do this"),
        404: ("permanent", "Not Found", "the resource does not exist"),
        405: ("permanent", "Method Not Allowed", "the same request is rejected again"),
        406: ("permanent", "Not Acceptable", "the same request is rejected again"),
        407: ("permanent", "Proxy Authentication Required", "the proxy's credentials are missing or wrong"),
        408: ("transient", "Request Timeout", "the server gave up waiting; the next attempt may be faster"),
        409: ("permanent", "Conflict", "the state has changed; sending the same request again does not change it back"),
        410: ("permanent", "Gone", "the resource is permanently gone"),
        411: ("permanent", "Length Required", "the same request is rejected again"),
        412: ("permanent", "Precondition Failed", "the state is not what the request requires"),
        413: ("permanent", "Content Too Large", "the same body is too large again"),
        414: ("permanent", "URI Too Long", "the same URI is too long again"),
        415: ("permanent", "Unsupported Media Type", "the server cannot read this kind of body"),
        416: ("permanent", "Range Not Satisfiable", "the requested range does not exist"),
        417: ("permanent", "Expectation Failed", "the same request is rejected again"),
        421: ("permanent", "Misdirected Request", "this server does not serve that host"),
        422: ("permanent", "Unprocessable Content", "the data failed validation"),
        423: ("permanent", "Locked", "the resource is locked; declare 423 transient if such locks are short"),
        424: ("permanent", "Failed Dependency", "a request this one depends on failed"),
        425: ("transient", "Too Early", "the server will not risk a replay; it accepts the request a moment later"),
        426: ("permanent", "Upgrade Required", "the server requires another protocol"),
        428: ("permanent", "Precondition Required", "the same request is rejected again"),
        429: ("transient", "Too Many Requests", "the rate limit resets over time"),
        431: ("permanent", "Request Header Fields Too Large", "the same headers are too large again"),
        451: ("permanent", "Unavailable For Legal Reasons", "access is denied for legal reasons"),
        500: ("transient", "Internal Server Error", "a server failure may be temporary"),
        501: ("transient", "Not Implemented", "a server failure may be temporary"),
        502: ("transient", "Bad Gateway", "the gateway got an invalid response; the server may recover"),
        503: ("transient", "Service Unavailable", "the server is temporarily unavailable"),
        504: ("transient", "Gateway Timeout", "the gateway timed out; the server may recover"),
        505: ("transient", "HTTP Version Not Supported", "a server failure may be temporary"),
        507: ("transient", "Insufficient Storage", "a server failure may be temporary"),
        508: ("transient", "Loop Detected", "a server failure may be temporary"),
        511: ("transient", "Network Authentication Required", "a network in between requires a login"),
    }
)
"""For each status: its category, its name, and the reason for the category."""

REFUSED_UNPROCESSED = frozenset({425, 429})
"""The server rejects these before it does any work, so that a retry cannot do the work twice."""

CONFLICT = 409

_NO_OVERRIDES: Mapping[int, Category] = MappingProxyType({})


def status_verdict(
    status: int,
    *,
    overrides: Mapping[int, Category] = _NO_OVERRIDES,
    conflict_is_lock: bool = False,
    retry_after: str | None = None,
    should_retry: bool | None = None,
) -> Verdict:
    """Return the verdict on a response with this status.

    `overrides`: categories declared for this call. `conflict_is_lock` declares 409 an optimistic-lock conflict: the
    caller promises to read the state again before it retries. `should_retry` is the server's own advice about an error
    response, such as `x-should-retry`: it goes before the table, but not before what was declared for this call.
    """
    category, title, why = _row(status)
    if status in overrides:
        category = overrides[status]
        why = f"declared {category} for this call"
    elif status == CONFLICT and conflict_is_lock:
        category = "transient"
        why = "declared an optimistic-lock conflict; the state is re-read before the retry"
    elif should_retry is not None and status >= 400:
        category = "transient" if should_retry else "permanent"
        why = f"the server says {'to retry' if should_retry else 'not to retry'}, in a header"
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
        return "transient", "server error", "a server failure may be temporary"
    if 400 <= status <= 499:
        return "permanent", "client error", "the same request is rejected again"
    if 300 <= status <= 399:
        return "unknown", "redirect", "not a failure by itself; declare the status if it is one here"
    if 200 <= status <= 299:
        return "unknown", "success", "not a failure; declare the status if it is one here"
    if 100 <= status <= 199:
        return "unknown", "interim response", "not a failure by itself; the final response never came"
    return "unknown", "not an HTTP status", "statuses are 100 to 599"

"""Building blocks of the tables of known errors."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.failures.failure import Verdict
from redrive.failures.headers import retry_after_header, should_retry_header
from redrive.failures.http_status import CONFLICT, status_verdict

Lookup = Callable[[BaseException], Verdict | None]
"""Looks up another error in all tables: the one that a wrapper carries."""

Reader = Callable[[BaseException, Lookup], Verdict | None]
"""Examines one error; None leaves the verdict to the entries for its base classes."""

Entry = Verdict | Reader
Table = Mapping[str, Entry]
"""Entries by qualified class name."""


def transient(reason: str, *, not_sent: bool = False) -> Verdict:
    return Verdict(category="transient", reason=reason, not_sent=not_sent)


def permanent(reason: str) -> Verdict:
    return Verdict(category="permanent", reason=reason)


def unknown(reason: str) -> Verdict:
    """A verdict that keeps the entries of base classes from giving a wrong one."""
    return Verdict(category="unknown", reason=f"{reason}; declare it with retry_on=... or with a classifier rule")


def before_it_was_sent(verdict: Verdict) -> Verdict:
    """Return the same verdict, for a request that certainly never reached the server."""
    return verdict if verdict.not_sent else msgspec.structs.replace(verdict, not_sent=True)


def wrapper(otherwise: Verdict) -> Reader:
    """Return a reader for errors that wrap others: the wrapped error's verdict, or `otherwise` if it is not known."""

    def read(error: BaseException, lookup: Lookup) -> Verdict:
        return wrapped_verdict(error, lookup) or otherwise

    return read


def wrapped_verdict(error: BaseException, lookup: Lookup) -> Verdict | None:
    """Return the verdict on the error that a library wrapped; None when there is none or it is not known.

    An error that was merely being handled counts as in `redrive.failures.causes`: only as evidence about the service.
    """
    for inner in (error.__cause__, attribute(error, "inner_exception")):
        if isinstance(inner, Exception) and (verdict := lookup(inner)) is not None:
            return verdict
    handled = None if error.__suppress_context__ else error.__context__
    verdict = lookup(handled) if isinstance(handled, Exception) else None
    if verdict is not None and (verdict.category == "transient" or verdict.status is not None):
        return verdict
    return None


def with_response(verdict: Verdict, status: Any, headers: Any) -> Verdict:
    """Return the verdict with the status and the Retry-After of the response it is about."""
    return msgspec.structs.replace(verdict, status=status_number(status), retry_after=retry_after_header(headers))


def attribute(thing: Any, name: str) -> Any:
    """Return the attribute; None when it is missing or reading it fails."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a broken property must not hide the failure itself
        return None


def status_number(value: Any) -> int | None:
    """Return the value if it is a valid HTTP status, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
        return int(value)
    return None


def verdict_of_response(status: Any, headers: Any) -> Verdict | None:
    """Return the verdict on an error response, by its status and its headers about retries; None for any other."""
    number = status_number(status)
    if number is None or number < 400:
        return None
    return status_verdict(number, retry_after=retry_after_header(headers), should_retry=should_retry_header(headers))


def verdict_where_conflicts_pass(status: Any, headers: Any) -> Verdict | None:
    """Return the verdict on an error response of a vendor whose 409 is a short lock that its own client retries."""
    if status == CONFLICT and should_retry_header(headers) is None:
        return with_response(transient("409 Conflict: another request holds the lock for a moment"), status, headers)
    return verdict_of_response(status, headers)


def verdict_of_advice(headers: Any) -> Verdict | None:
    """Return the verdict that the server gives with `x-should-retry`; None when it says nothing."""
    should_retry = should_retry_header(headers)
    if should_retry is None:
        return None
    return Verdict(
        category="transient" if should_retry else "permanent",
        reason=f"the server says {'to retry' if should_retry else 'not to retry'}, in a header",
        retry_after=retry_after_header(headers),
    )

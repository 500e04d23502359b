"""Building blocks of the tables of known errors."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.failures.failure import Verdict
from redrive.failures.headers import retry_after_header
from redrive.failures.http_status import status_verdict

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
    """Return the status table's verdict on an error response; None for any other."""
    number = status_number(status)
    if number is None or number < 400:
        return None
    return status_verdict(number, retry_after=retry_after_header(headers))

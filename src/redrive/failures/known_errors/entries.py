"""What a table of known errors is made of."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.failures.failure import Verdict
from redrive.failures.headers import retry_after_header
from redrive.failures.http_status import status_verdict

Ask = Callable[[BaseException], Verdict | None]
"""Asks all the tables about another error: the one that a wrapper carries."""

Reader = Callable[[BaseException, Ask], Verdict | None]
"""Looks into one error; None leaves the answer to the tables' entries for its base classes."""

Entry = Verdict | Reader
Table = Mapping[str, Entry]
"""Entries by qualified class name."""


def transient(reason: str, *, not_sent: bool = False) -> Verdict:
    return Verdict(category="transient", reason=reason, not_sent=not_sent)


def permanent(reason: str) -> Verdict:
    return Verdict(category="permanent", reason=reason)


def unknown(reason: str) -> Verdict:
    """An answer that keeps the base classes from giving a wrong one."""
    return Verdict(category="unknown", reason=f"{reason}; declare it with retry_on=... or with a classifier rule")


def before_it_was_sent(verdict: Verdict) -> Verdict:
    """The same verdict, about work that certainly never reached the other side."""
    return verdict if verdict.not_sent else msgspec.structs.replace(verdict, not_sent=True)


def attribute(thing: Any, name: str) -> Any:
    """The attribute, or None when there is none or reading it fails."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign exception must never hide the failure itself
        return None


def status_number(value: Any) -> int | None:
    """The value as an HTTP status, if it can be one."""
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
        return int(value)
    return None


def verdict_of_response(status: Any, headers: Any) -> Verdict | None:
    """The status table's verdict, when this is an answer that failed."""
    number = status_number(status)
    if number is None or number < 400:
        return None
    return status_verdict(number, retry_after=retry_after_header(headers))

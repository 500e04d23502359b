"""Read the headers about retries in whatever kind of mapping an HTTP library uses."""

import re
from collections.abc import Iterable
from typing import Any

_RETRY_AFTER = "retry-after"
# OpenAI and Anthropic send the first, Azure sends either.
_IN_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
# Of OpenAI, Anthropic and others, and of Stripe.
_SHOULD_RETRY = ("x-should-retry", "stripe-should-retry")
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"


def retry_after_header(headers: Any) -> str | None:
    """Return the wait that was asked for, as a Retry-After value; None when no header asks for one.

    `retry-after-ms` comes first, because it is more precise, and is returned in seconds. If it is not a number,
    Retry-After is used.
    """
    found = _values(headers, (*_IN_MILLISECONDS, _RETRY_AFTER))
    for name in _IN_MILLISECONDS:
        if name in found and re.fullmatch(_NUMBER, found[name].strip()):
            # Never in the form 1e-05, which is not a Retry-After value.
            return f"{float(found[name]) / 1000:.6f}".rstrip("0").rstrip(".")
    # An unreadable value is returned too: the note about it tells the user what the server sent.
    return next((found[name] for name in (_RETRY_AFTER, *_IN_MILLISECONDS) if name in found), None)


def should_retry_header(headers: Any) -> bool | None:
    """Return what the server says about a retry, with `x-should-retry: true` or `false`; None when it says nothing."""
    for said in _values(headers, _SHOULD_RETRY).values():
        if (advice := {"true": True, "false": False}.get(said.strip().lower())) is not None:
            return advice
    return None


def _values(headers: Any, names: tuple[str, ...]) -> dict[str, str]:
    """Return the first value of each header that is there; no values when the headers cannot be read."""
    found: dict[str, str] = {}
    if headers is None:
        return found
    try:
        pairs: Iterable[Any] = headers.items() if hasattr(headers, "items") else headers
        for given, value in pairs:
            name = _text(given).lower()
            if name in names and name not in found:
                found[name] = _text(value[0] if isinstance(value, list | tuple) else value)
    except Exception:  # noqa: BLE001 - a broken headers object must not hide the failure it came with
        return {}
    return found


def _text(part: Any) -> str:
    return part.decode("latin-1") if isinstance(part, bytes) else str(part)

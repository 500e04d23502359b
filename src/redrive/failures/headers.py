"""Find the Retry-After header in whatever kind of mapping an HTTP library uses."""

from collections.abc import Iterable
from typing import Any

_NAME = "retry-after"


def retry_after_header(headers: Any) -> str | None:
    """Return the value as it was sent; None when it is missing or the headers cannot be read."""
    if headers is None:
        return None
    try:
        pairs: Iterable[Any] = headers.items() if hasattr(headers, "items") else headers
        for name, value in pairs:
            if _text(name).lower() == _NAME:
                return _text(value[0] if isinstance(value, list | tuple) else value)
    except Exception:  # noqa: BLE001 - a broken headers object must not hide the failure it came with
        return None
    return None


def _text(part: Any) -> str:
    return part.decode("latin-1") if isinstance(part, bytes) else str(part)

"""Errors and ids as text without secrets, for events, logs and spans."""

from typing import Any

from redrive.failures.redaction import redact

MAX_ID_LENGTH = 200


def error_text(error: BaseException) -> str:
    """Return the error's message without secrets."""
    try:
        return redact(str(error))
    except Exception:  # noqa: BLE001 - an error whose __str__ fails still has to be reported
        return f"<{type(error).__name__} whose text cannot be read>"


def id_text(id_: Any) -> str | None:
    """Return an id as text; it may come from a caller's header and hold anything."""
    return None if id_ is None else redact(str(id_), MAX_ID_LENGTH)

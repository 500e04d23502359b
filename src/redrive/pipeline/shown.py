"""How errors and ids of the user's own are shown: in events, logs and spans."""

from typing import Any

from redrive.failures.redaction import redact

LONGEST_ID = 200


def message_of(error: BaseException) -> str:
    """The error's text, without secrets."""
    try:
        return redact(str(error))
    except Exception:  # noqa: BLE001 - an error that cannot print itself still happened
        return f"<{type(error).__name__} whose text cannot be read>"


def text_of(id_: Any) -> str | None:
    """An id, which may come from a caller's header with anything in it."""
    return None if id_ is None else redact(str(id_), LONGEST_ID)

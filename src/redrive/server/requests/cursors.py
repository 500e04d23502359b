"""Opaque cursors for paging through lists."""

import base64
import binascii

from redrive.server.contract.problems import ProblemError

_PREFIX = "after:"


def encode_cursor(last: str) -> str:
    """Return the cursor of the page that follows the entry `last`."""
    return base64.urlsafe_b64encode(f"{_PREFIX}{last}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> str | None:
    """Return what `encode_cursor` was given."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError, ValueError):
        text = ""
    if not text.startswith(_PREFIX) or "\x00" in text:
        raise invalid_cursor()
    return text.removeprefix(_PREFIX)


def invalid_cursor() -> ProblemError:
    detail = "this is not a valid cursor; leave it out, or use the `next` of the previous page"
    return ProblemError(422, detail, parameter="cursor")

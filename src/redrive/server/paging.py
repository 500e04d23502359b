"""Cursors: where the next page of a list begins. What is in them is nobody's business."""

import base64
import binascii

from redrive.server.problems import Refused

_MARK = "after:"


def cursor_after(last: str) -> str:
    return base64.urlsafe_b64encode(f"{_MARK}{last}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> str | None:
    """What `cursor_after` was given."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError, ValueError):
        text = ""
    if not text.startswith(_MARK) or "\x00" in text:
        raise no_cursor()
    return text.removeprefix(_MARK)


def no_cursor() -> Refused:
    return Refused(422, "this is no cursor; leave it out, or use the `next` of the page before", parameter="cursor")

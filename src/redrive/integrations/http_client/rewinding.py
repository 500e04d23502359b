"""Whether a request's body can be sent again, and how it is taken back to where it began."""

from collections.abc import Callable
from typing import Any

Rewind = Callable[[], Any]


def as_it_is() -> None:
    """The rewind of a body that is not used up by sending it."""


def rewind_of(source: Any) -> Rewind | None:
    """What takes `source` back to where it stands now; None when it can be read only once.

    Bytes and text are never used up. Files are taken back if they can seek. Generators and iterators cannot be.
    """
    if source is None or isinstance(source, bytes | bytearray | str | list | tuple):
        return as_it_is
    try:
        if not source.seekable():
            return None
        start = source.tell()
    except (AttributeError, OSError, ValueError):
        return None
    return lambda: source.seek(start)

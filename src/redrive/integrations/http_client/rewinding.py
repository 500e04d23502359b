"""Rewinds request bodies, so that they can be sent again."""

from collections.abc import Callable
from typing import Any

Rewind = Callable[[], Any]


def no_rewind() -> None:
    """Do nothing: the body can be read any number of times."""


def rewind_of(source: Any) -> Rewind | None:
    """Return a function that rewinds `source` to its current position; None if it can be read only once.

    Bytes and text need no rewinding. Files are rewound if they are seekable. Generators and iterators cannot be.
    """
    if source is None or isinstance(source, bytes | bytearray | str | list | tuple):
        return no_rewind
    try:
        if not source.seekable():
            return None
        start = source.tell()
    except (AttributeError, OSError, ValueError):
        return None
    return lambda: source.seek(start)

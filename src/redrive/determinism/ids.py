"""Ids: unguessable by default, and scripted by a test for its context."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ids = Callable[[], str]
"""Each call makes one new id."""


def random_id() -> str:
    """A random UUID (version 4). Made here: importing `uuid` would take a tenth of `import redrive`."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_ids: ContextVar[Ids] = ContextVar("redrive_ids", default=random_id)


def new_id() -> str:
    return _ids.get()()


@contextmanager
def use_ids(ids: Ids) -> Iterator[Ids]:
    """Make `ids` the current source for this context, and for the tasks and threads that inherit it."""
    token = _ids.set(ids)
    try:
        yield ids
    finally:
        _ids.reset(token)

"""Ids: unguessable by default, and scripted by a test for its context."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ids = Callable[[], str]
"""Each call makes one new id."""


def random_id() -> str:
    return str(uuid.uuid4())


UUID = uuid.UUID

# Asking the system for chance costs more than the rest of an id, so it is asked for many at once.
_IDS_AT_ONCE = 256
_ID_BYTES = 16
_drawn: list[str] = []


def random_token() -> str:
    """An unguessable token of 32 hexadecimal digits, quickly."""
    try:
        return _drawn.pop()
    except IndexError:
        chance = os.urandom(_IDS_AT_ONCE * _ID_BYTES).hex()
        _drawn.extend(chance[at : at + 2 * _ID_BYTES] for at in range(0, len(chance), 2 * _ID_BYTES))
        return _drawn.pop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)


_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def ordered_id(wall_now: float) -> str:
    """An id that sorts by the time it was made: a UUID of version 7."""
    millis, chance = (int(wall_now * 1000) & 0xFFFF_FFFF_FFFF).to_bytes(6, "big").hex(), random_token()
    variant = _VARIANT[chance[0]]
    return f"{millis[:8]}-{millis[8:]}-7{chance[1:4]}-{variant}{chance[4:7]}-{chance[7:19]}"


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

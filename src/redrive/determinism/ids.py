"""Ids: unguessable by default; tests can script them for their context."""

import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import SupportsIndex

Ids = Callable[[], str]
"""Each call returns a new id."""


def random_id() -> str:
    """Return a random UUID."""
    return str(uuid.uuid4())


UUID = uuid.UUID

# Reading random bytes from the system costs more than the rest of an id, so many are read at once.
_IDS_AT_ONCE = 256
_ID_BYTES = 16
_drawn: list[str] = []


def random_token() -> str:
    """Return an unguessable token of 32 hexadecimal digits."""
    try:
        return _drawn.pop()
    except IndexError:
        chance = os.urandom(_IDS_AT_ONCE * _ID_BYTES).hex()
        _drawn.extend(chance[at : at + 2 * _ID_BYTES] for at in range(0, len(chance), 2 * _ID_BYTES))
        return _drawn.pop()


class _Replaced(list[str]):
    """Stands for the tokens that were drawn; each is drawn when it is needed."""

    def __init__(self, draw: Callable[[], str]) -> None:
        super().__init__()
        self._draw = draw

    def pop(self, index: SupportsIndex = -1) -> str:
        return self._draw()


@contextmanager
def replace_tokens(draw: Callable[[], str]) -> Iterator[None]:
    """Take the tokens of this process from `draw`: for simulations, which repeat them and run nothing else."""
    global _drawn
    before, _drawn = _drawn, _Replaced(draw)
    try:
        yield
    finally:
        _drawn = before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)


_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def ordered_id(wall_now: float) -> str:
    """Return an id that sorts by creation time: a UUID of version 7."""
    return _version_7(wall_now, random_token())


def derived_id(wall_now: float, name: str) -> str:
    """Return the id of something with a unique name: the same for the same name and time, and sorted by that time."""
    return _version_7(wall_now, hashlib.sha256(name.encode()).hexdigest())


def _version_7(wall_now: float, chance: str) -> str:
    millis = (int(wall_now * 1000) & 0xFFFF_FFFF_FFFF).to_bytes(6, "big").hex()
    variant = _VARIANT[chance[0]]
    return f"{millis[:8]}-{millis[8:]}-7{chance[1:4]}-{variant}{chance[4:7]}-{chance[7:19]}"


_ids: ContextVar[Ids] = ContextVar("redrive_ids", default=random_id)


def new_id() -> str:
    """Return a new id from the source of this context."""
    return _ids.get()()


@contextmanager
def use_ids(ids: Ids) -> Iterator[Ids]:
    """Take ids from `ids` in this context, and in the tasks and threads that inherit it."""
    token = _ids.set(ids)
    try:
        yield ids
    finally:
        _ids.reset(token)

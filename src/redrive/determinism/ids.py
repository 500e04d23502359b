"""Ids: unguessable by default, and scripted by a test for its context."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ids = Callable[[], str]
"""Each call makes one new id."""


def random_id() -> str:
    return str(uuid.uuid4())


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

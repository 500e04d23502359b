"""The database connections of attempts that run in threads of a worker."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections

from redrive.runners.executors import CALL_CONTEXTS


def keep_connections_fresh() -> None:
    """As around a request: no attempt inherits a connection that is broken or too old."""
    if _fresh_connections not in CALL_CONTEXTS:
        CALL_CONTEXTS.append(_fresh_connections)


@contextmanager
def _fresh_connections() -> Iterator[None]:
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()

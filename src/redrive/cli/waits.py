"""What a command waits for: those who know log it, and without a worker's log nobody would see it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"redrive: {record.getMessage()}", err=True)


@contextmanager
def waits_told() -> Iterator[None]:
    """Have warnings on stderr meanwhile."""
    logger, handler = logging.getLogger("redrive"), _ToStderr(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

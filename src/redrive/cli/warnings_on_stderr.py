"""Show redrive's log warnings on stderr while a short command waits, for example for a locked store."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"redrive: {record.getMessage()}", err=True)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    logger, handler = logging.getLogger("redrive"), _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

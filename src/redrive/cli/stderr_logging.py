"""Log to stderr: every line of a long-running command, and the warnings of a short one."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer

LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"


def log_to_stderr(level: str) -> None:
    """Log all lines, with times in UTC."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=level.upper(), format=LINE, datefmt="%Y-%m-%dT%H:%M:%S")


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"redrive: {record.getMessage()}", err=True)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Show redrive's warnings while a short command waits, for example for a locked store."""
    logger, handler = logging.getLogger("redrive"), _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

"""Log to stderr: every line of a long-running command, and the warnings of a short one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from redrive.formatting.text import terminal_text


def log_to_stderr(level: str) -> None:
    """Log all lines, with times in UTC. Those of actions and workflows name their flow."""
    # Loaded here, so that `redrive --help` is quick.
    from redrive.runners import stderr_lines

    stderr_lines.log_to_stderr(level.upper())


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"redrive: {terminal_text(record.getMessage())}", err=True)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Show redrive's warnings while a short command waits, for example for a locked store."""
    logger, handler = logging.getLogger("redrive"), _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

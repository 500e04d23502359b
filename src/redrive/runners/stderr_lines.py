"""Log lines on stderr, the same from a worker as from the processes of its actions."""

import logging
import time

from redrive.formatting.text import terminal_text
from redrive.runners.flow_context import FlowContext

LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"


def log_to_stderr(level: str | int) -> None:
    """Log all lines, with times in UTC. Those of actions and workflows name their flow."""
    logging.basicConfig(level=level)
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, _TerminalFormatter):
            handler.addFilter(FlowContext())
            handler.setFormatter(_TerminalFormatter(LINE, datefmt="%Y-%m-%dT%H:%M:%S"))


def level_on_stderr() -> int | None:
    """Return the level from which lines are logged; None unless `log_to_stderr` was called."""
    root = logging.getLogger()
    return root.level if any(isinstance(one.formatter, _TerminalFormatter) for one in root.handlers) else None


class _TerminalFormatter(logging.Formatter):
    """Formats lines that cannot control a terminal; a traceback keeps its line breaks."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(super().format(record))

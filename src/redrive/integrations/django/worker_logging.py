"""The log lines of `manage.py redrive_worker`."""

import logging

from redrive.cli.stderr_logging import log_to_stderr
from redrive.integrations.logging import FlowContext
from redrive.telemetry.logs import has_handler


def log_flows() -> None:
    """Have the lines of actions and workflows name their flow, and log to stderr unless the project logs elsewhere."""
    if not has_handler():
        # Then nor has the root logger one, so that the lines of the project's own code would be lost too.
        log_to_stderr("info")
        for handler in logging.getLogger().handlers:
            handler.addFilter(_is_not_djangos)
    for handler in _handlers():
        if not any(isinstance(one, FlowContext) for one in handler.filters):
            handler.addFilter(FlowContext())


def _is_not_djangos(record: logging.LogRecord) -> bool:
    """Django's own lines have handlers of their own, and would be there twice."""
    return record.name.partition(".")[0] != "django"


def _handlers() -> set[logging.Handler]:
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    return {handler for one in loggers if isinstance(one, logging.Logger) for handler in one.handlers}

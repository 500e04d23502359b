"""The other side of an HTTP step: serves Python functions to the engine, and reports outcomes."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redrive.handlers.callbacks import report_outcome
    from redrive.handlers.headers import callback_url
    from redrive.handlers.steps import StepServer, serve_steps
    from redrive.handlers.verification import verify_request
    from redrive.runners.http.answers import Accepted

__all__ = ["Accepted", "StepServer", "callback_url", "report_outcome", "serve_steps", "verify_request"]

# aiohttp, an extra, is needed only when one of them is used.
_LAZY = {
    "Accepted": "runners.http.answers",
    "StepServer": "handlers.steps",
    "callback_url": "handlers.headers",
    "report_outcome": "handlers.callbacks",
    "serve_steps": "handlers.steps",
    "verify_request": "handlers.verification",
}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(f"redrive.{module}"), name)
        return value

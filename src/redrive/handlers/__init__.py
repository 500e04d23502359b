"""The handler side of HTTP steps: serve Python functions, and report the outcomes of asynchronous steps."""

from redrive.handlers.callbacks import OutcomeRefused, report_outcome
from redrive.handlers.headers import callback_url
from redrive.handlers.steps import StepServer, serve_steps

__all__ = ["OutcomeRefused", "StepServer", "callback_url", "report_outcome", "serve_steps"]

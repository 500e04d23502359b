"""redrive runs work that fails, until it succeeds or until someone knows exactly why it did not.

@redrive.retry                                   guard a function with the default policy
for attempt in redrive.attempts(attempts=5): …   guard a block
redrive.Retrier(policy).call(function)           guard a call
@redrive.workflow, @redrive.action               durable work; async with redrive.open("sqlite:///app.db") as app: …
with redrive.open_sync("sqlite:///app.db") as …  the same in a program without an event loop

More names are in redrive.errors, redrive.policies, redrive.failures, redrive.resilience, redrive.notation,
redrive.pipeline, redrive.handlers, redrive.codecs, redrive.testing and redrive.integrations.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from redrive import errors as errors
from redrive import failures as failures
from redrive import policies as policies
from redrive import resilience as resilience
from redrive.calls import fallback
from redrive.calls.attempt_iterator import attempts
from redrive.calls.attempt_loop import GuardedAttempt
from redrive.calls.decorator import retry
from redrive.calls.retrier import Retrier
from redrive.calls.scope import time_left
from redrive.calls.shared_dependencies import define_dependency
from redrive.errors import (
    AttemptTimeoutError,
    CircuitOpenError,
    DeadlineExceededError,
    FlowCancelledError,
    FlowNotFoundError,
    KeyTakenError,
    Permanent,
    RedriveError,
    RetryAfter,
    Snooze,
)
from redrive.failures import ANYTHING, TRANSIENT, UNKNOWN
from redrive.policies import Policy, Rule, constant, exponential, linear, report_of
from redrive.resilience import BudgetSettings, CircuitSettings
from redrive.telemetry.logs import log_event as _log_event
from redrive.telemetry.stream import correlate, listen

if TYPE_CHECKING:
    from redrive import codecs as codecs
    from redrive import handlers as handlers
    from redrive import integrations as integrations
    from redrive import notation as notation
    from redrive import pipeline as pipeline
    from redrive.assembly import open, open_sync  # noqa: A004 - it is called redrive.open
    from redrive.client.app import App
    from redrive.client.handle import Handle
    from redrive.client.sync_app import SyncApp
    from redrive.client.sync_handle import SyncHandle
    from redrive.flows.action import Action, ActionCall, action
    from redrive.flows.flow_call import FlowCall
    from redrive.flows.graphs.graph import Graph, register_graph
    from redrive.flows.graphs.notation.graph_reading import read_graph
    from redrive.flows.retry_policy import RetryPolicy
    from redrive.flows.schedules.declared import scheduled
    from redrive.flows.scripts.script import Script, register_script
    from redrive.flows.workflows.handlers import query, signal, update
    from redrive.flows.workflows.workflow import Workflow, workflow
    from redrive.handlers.steps import serve_steps
    from redrive.pipeline.durable import register_pipeline
    from redrive.runners.attempt import current_attempt
    from redrive.runners.http.settings import HttpSettings
    from redrive.stores.batches import BatchCounts

__all__ = [
    "ANYTHING",
    "TRANSIENT",
    "UNKNOWN",
    "Action",
    "ActionCall",
    "App",
    "AttemptTimeoutError",
    "BatchCounts",
    "BudgetSettings",
    "CircuitOpenError",
    "CircuitSettings",
    "DeadlineExceededError",
    "FlowCall",
    "FlowCancelledError",
    "FlowNotFoundError",
    "Graph",
    "GuardedAttempt",
    "Handle",
    "HttpSettings",
    "KeyTakenError",
    "Permanent",
    "Policy",
    "RedriveError",
    "Retrier",
    "RetryAfter",
    "RetryPolicy",
    "Rule",
    "Script",
    "Snooze",
    "SyncApp",
    "SyncHandle",
    "Workflow",
    "__version__",
    "action",
    "attempts",
    "constant",
    "correlate",
    "current_attempt",
    "define_dependency",
    "exponential",
    "fallback",
    "linear",
    "listen",
    "open",
    "open_sync",
    "query",
    "read_graph",
    "register_graph",
    "register_pipeline",
    "register_script",
    "report_of",
    "retry",
    "scheduled",
    "serve_steps",
    "signal",
    "time_left",
    "update",
    "workflow",
]

__version__ = "0.1.0"

# The durable engine is loaded when it is first used.
_LAZY = {
    "Action": "flows.action",
    "ActionCall": "flows.action",
    "App": "client.app",
    "BatchCounts": "stores.batches",
    "FlowCall": "flows.flow_call",
    "Graph": "flows.graphs.graph",
    "Handle": "client.handle",
    "HttpSettings": "runners.http.settings",
    "RetryPolicy": "flows.retry_policy",
    "Script": "flows.scripts.script",
    "SyncApp": "client.sync_app",
    "SyncHandle": "client.sync_handle",
    "Workflow": "flows.workflows.workflow",
    "action": "flows.action",
    "current_attempt": "runners.attempt",
    "open": "assembly",
    "open_sync": "assembly",
    "query": "flows.workflows.handlers",
    "read_graph": "flows.graphs.notation.graph_reading",
    "register_graph": "flows.graphs.graph",
    "register_pipeline": "pipeline.durable",
    "register_script": "flows.scripts.script",
    "scheduled": "flows.schedules.declared",
    "serve_steps": "handlers.steps",
    "signal": "flows.workflows.handlers",
    "update": "flows.workflows.handlers",
    "workflow": "flows.workflows.workflow",
}
_MODULES = (
    "codecs",
    "errors",
    "failures",
    "handlers",
    "integrations",
    "notation",
    "pipeline",
    "policies",
    "resilience",
    "testing",
)


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return _import_module(f"redrive.{name}")
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module 'redrive' has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(f"redrive.{module}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


listen(_log_event)

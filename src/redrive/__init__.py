"""redrive runs work that fails, until it succeeds or until someone knows exactly why it did not.

@redrive.retry                                   guard a function with the default policy
for attempt in redrive.attempts(attempts=5): …   guard a block
redrive.Retrier(policy).call(function)           guard a call
@redrive.workflow, @redrive.action               durable work; async with redrive.open("sqlite:///app.db") as app: …
"""

from typing import TYPE_CHECKING, Any

from redrive.calls import fallback
from redrive.calls.attempt_iterator import Attempt, attempts
from redrive.calls.decorator import retry
from redrive.calls.dependencies import define_dependency
from redrive.calls.retrier import Retrier
from redrive.calls.scope import time_left
from redrive.errors import (
    AttemptLostError,
    AttemptTimeoutError,
    CircuitOpenError,
    CrashLoopError,
    DeadlineExceededError,
    Permanent,
    PolicyError,
    ResultRejectedError,
    RetryAfter,
    Snooze,
)
from redrive.failures.classifier import Classifier
from redrive.failures.failure import Failure, Verdict
from redrive.failures.matching import ANYTHING, NOTHING, TRANSIENT, UNKNOWN, Match, as_match
from redrive.policies.backoff import Backoff, constant, exponential, linear
from redrive.policies.decide import decide
from redrive.policies.decision import Because, Conditions, Decision, GiveUp, RetryAt
from redrive.policies.history import History
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, Rule
from redrive.policies.report import AttemptRecord, Report, report_of
from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.telemetry.logs import log_event as _log_event
from redrive.telemetry.stream import correlate, listen

if TYPE_CHECKING:
    from redrive.assembly import open  # noqa: A004 - it is called redrive.open
    from redrive.client.app import App
    from redrive.client.handle import Handle
    from redrive.errors import (
        DeserializationError,
        FlowCancelledError,
        FlowFinishedError,
        FlowNotFoundError,
        GraphError,
        InputError,
        InvalidStateError,
        KeyTakenError,
        LeaseLostError,
        NondeterminismError,
        OutcomeRefusedError,
        PlanError,
        ScriptError,
        SerializationError,
        StoreError,
        StoreUnavailableError,
        StoreUnusableError,
    )
    from redrive.flows.action import Action, ActionCall, action
    from redrive.flows.graphs.builder import Graph
    from redrive.flows.graphs.reading import read_graph
    from redrive.flows.registry import register_graph, register_script
    from redrive.flows.retry_policy import RetryPolicy
    from redrive.flows.scripts.script import Script
    from redrive.flows.workflow import Workflow, workflow
    from redrive.handlers.callbacks import complete_step
    from redrive.handlers.headers import callback_url
    from redrive.handlers.steps import StepServer, serve_steps
    from redrive.pipeline.durable import register_pipeline
    from redrive.runners.attempt import current_attempt
    from redrive.runners.http.answers import Accepted
    from redrive.runners.http.settings import HttpSettings

__all__ = [
    "ANYTHING",
    "NOTHING",
    "TRANSIENT",
    "UNKNOWN",
    "Accepted",
    "Action",
    "ActionCall",
    "App",
    "Attempt",
    "AttemptLostError",
    "AttemptRecord",
    "AttemptTimeoutError",
    "Backoff",
    "Because",
    "Budget",
    "BudgetSettings",
    "Circuit",
    "CircuitOpenError",
    "CircuitSettings",
    "Classifier",
    "Conditions",
    "CrashLoopError",
    "DeadlineExceededError",
    "Decision",
    "Dependencies",
    "Dependency",
    "DeserializationError",
    "Failure",
    "FlowCancelledError",
    "FlowFinishedError",
    "FlowNotFoundError",
    "GiveUp",
    "Graph",
    "GraphError",
    "Handle",
    "History",
    "HttpSettings",
    "InputError",
    "InvalidStateError",
    "Jitter",
    "KeyTakenError",
    "LeaseLostError",
    "Match",
    "NondeterminismError",
    "OutcomeRefusedError",
    "Permanent",
    "PlanError",
    "Policy",
    "PolicyError",
    "Report",
    "ResultRejectedError",
    "Retrier",
    "RetryAfter",
    "RetryAt",
    "RetryPolicy",
    "Rule",
    "Script",
    "ScriptError",
    "SerializationError",
    "Snooze",
    "StepServer",
    "StoreError",
    "StoreUnavailableError",
    "StoreUnusableError",
    "Verdict",
    "Workflow",
    "__version__",
    "action",
    "as_match",
    "attempts",
    "callback_url",
    "complete_step",
    "constant",
    "correlate",
    "current_attempt",
    "decide",
    "define_dependency",
    "exponential",
    "fallback",
    "linear",
    "listen",
    "open",
    "read_graph",
    "register_graph",
    "register_pipeline",
    "register_script",
    "report_of",
    "retry",
    "serve_steps",
    "time_left",
    "workflow",
]

__version__ = "0.1.0"

# The durable engine is loaded when it is first used.
_DURABLE = {
    "Accepted": "runners.http.answers",
    "Action": "flows.action",
    "ActionCall": "flows.action",
    "App": "client.app",
    "FlowCancelledError": "errors",
    "FlowFinishedError": "errors",
    "FlowNotFoundError": "errors",
    "Graph": "flows.graphs.builder",
    "GraphError": "errors",
    "Handle": "client.handle",
    "HttpSettings": "runners.http.settings",
    "InputError": "errors",
    "KeyTakenError": "errors",
    "LeaseLostError": "errors",
    "NondeterminismError": "errors",
    "InvalidStateError": "errors",
    "DeserializationError": "errors",
    "SerializationError": "errors",
    "OutcomeRefusedError": "errors",
    "PlanError": "errors",
    "RetryPolicy": "flows.retry_policy",
    "Script": "flows.scripts.script",
    "ScriptError": "errors",
    "StepServer": "handlers.steps",
    "StoreError": "errors",
    "StoreUnavailableError": "errors",
    "StoreUnusableError": "errors",
    "Workflow": "flows.workflow",
    "action": "flows.action",
    "callback_url": "handlers.headers",
    "complete_step": "handlers.callbacks",
    "current_attempt": "runners.attempt",
    "open": "assembly",
    "read_graph": "flows.graphs.reading",
    "register_graph": "flows.registry",
    "register_pipeline": "pipeline.durable",
    "register_script": "flows.registry",
    "serve_steps": "handlers.steps",
    "workflow": "flows.workflow",
}


def __getattr__(name: str) -> Any:
    module = _DURABLE.get(name)
    if module is None:
        raise AttributeError(f"module 'redrive' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"redrive.{module}"), name)
    return value


listen(_log_event)

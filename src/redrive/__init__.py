"""redrive runs work that fails, until it succeeds or until someone knows exactly why it did not.

@redrive.retry                                   guard a function with the default policy
for attempt in redrive.attempts(attempts=5): …   guard a block
redrive.Retrier(policy).call(function)           guard a call
@redrive.workflow, @redrive.action               durable work; async with redrive.open("sqlite:///app.db") as app: …
"""

from typing import TYPE_CHECKING, Any

from redrive.calls import fallback
from redrive.calls.attempt_iterator import attempts
from redrive.calls.attempt_loop import GuardedAttempt
from redrive.calls.decorator import retry
from redrive.calls.dependencies import define_dependency
from redrive.calls.retrier import Retrier
from redrive.calls.scope import time_left
from redrive.failures.classifier import Classifier
from redrive.failures.failure import Failure, Verdict
from redrive.failures.matching import ANYTHING, NOTHING, TRANSIENT, UNKNOWN, Match, as_match
from redrive.failures.signals import (
    AttemptLost,
    AttemptTimeout,
    CrashLoop,
    DeadlineExceeded,
    Permanent,
    ResultRejected,
    RetryAfter,
    Snooze,
)
from redrive.policies.backoff import Backoff, constant, exponential, linear
from redrive.policies.decide import decide
from redrive.policies.decision import Because, Conditions, Decision, GiveUp, RetryAt
from redrive.policies.history import History
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, PolicyError, Rule
from redrive.policies.report import AttemptRecord, Report, report_of
from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitOpen, CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.telemetry.logs import log_event as _log_event
from redrive.telemetry.stream import correlate, listen

if TYPE_CHECKING:
    from redrive.assembly import open  # noqa: A004 - it is called redrive.open
    from redrive.client.app import App
    from redrive.client.handle import FlowCancelledError, FlowFinished, FlowNotFound, Handle, NotPossible
    from redrive.client.starting import KeyTaken
    from redrive.flows.action import Action, ActionCall, action
    from redrive.flows.graphs.graph import Graph, register_graph
    from redrive.flows.graphs.notation.graph_reading import read_graph
    from redrive.flows.graphs.notation.problems import GraphError
    from redrive.flows.graphs.plan import InputError, PlanError
    from redrive.flows.replay import NonDeterminism
    from redrive.flows.retry_policy import RetryPolicy
    from redrive.flows.scripts.errors import ScriptError
    from redrive.flows.scripts.script import Script
    from redrive.flows.values.json_form import NotReadable, NotStorable
    from redrive.flows.workflows.workflow import Workflow, workflow
    from redrive.handlers.callbacks import OutcomeRefused, report_outcome
    from redrive.handlers.headers import callback_url
    from redrive.handlers.steps import StepServer, serve_steps
    from redrive.pipeline.durable import register_pipeline
    from redrive.runners.attempt import current_attempt
    from redrive.runners.http.answers import Accepted
    from redrive.runners.http.settings import HttpSettings
    from redrive.stores.errors import LeaseLost, StoreError, StoreUnavailable, StoreUnusable

__all__ = [
    "ANYTHING",
    "NOTHING",
    "TRANSIENT",
    "UNKNOWN",
    "Accepted",
    "Action",
    "ActionCall",
    "App",
    "AttemptLost",
    "AttemptRecord",
    "AttemptTimeout",
    "Backoff",
    "Because",
    "Budget",
    "BudgetSettings",
    "Circuit",
    "CircuitOpen",
    "CircuitSettings",
    "Classifier",
    "Conditions",
    "CrashLoop",
    "DeadlineExceeded",
    "Decision",
    "Dependencies",
    "Dependency",
    "Failure",
    "FlowCancelledError",
    "FlowFinished",
    "FlowNotFound",
    "GiveUp",
    "Graph",
    "GraphError",
    "GuardedAttempt",
    "Handle",
    "History",
    "HttpSettings",
    "InputError",
    "Jitter",
    "KeyTaken",
    "LeaseLost",
    "Match",
    "NonDeterminism",
    "NotPossible",
    "NotReadable",
    "NotStorable",
    "OutcomeRefused",
    "Permanent",
    "PlanError",
    "Policy",
    "PolicyError",
    "Report",
    "ResultRejected",
    "Retrier",
    "RetryAfter",
    "RetryAt",
    "RetryPolicy",
    "Rule",
    "Script",
    "ScriptError",
    "Snooze",
    "StepServer",
    "StoreError",
    "StoreUnavailable",
    "StoreUnusable",
    "Verdict",
    "Workflow",
    "__version__",
    "action",
    "as_match",
    "attempts",
    "callback_url",
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
    "report_outcome",
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
    "FlowCancelledError": "client.handle",
    "FlowFinished": "client.handle",
    "FlowNotFound": "client.handle",
    "Graph": "flows.graphs.graph",
    "GraphError": "flows.graphs.notation.problems",
    "Handle": "client.handle",
    "HttpSettings": "runners.http.settings",
    "InputError": "flows.graphs.plan",
    "KeyTaken": "client.starting",
    "LeaseLost": "stores.errors",
    "NonDeterminism": "flows.replay",
    "NotPossible": "client.handle",
    "NotReadable": "flows.values.json_form",
    "NotStorable": "flows.values.json_form",
    "OutcomeRefused": "handlers.callbacks",
    "PlanError": "flows.graphs.plan",
    "RetryPolicy": "flows.retry_policy",
    "Script": "flows.scripts.script",
    "ScriptError": "flows.scripts.errors",
    "StepServer": "handlers.steps",
    "StoreError": "stores.errors",
    "StoreUnavailable": "stores.errors",
    "StoreUnusable": "stores.errors",
    "Workflow": "flows.workflows.workflow",
    "action": "flows.action",
    "callback_url": "handlers.headers",
    "current_attempt": "runners.attempt",
    "open": "assembly",
    "read_graph": "flows.graphs.notation.graph_reading",
    "register_graph": "flows.graphs.graph",
    "register_pipeline": "pipeline.durable",
    "register_script": "flows.scripts.script",
    "report_outcome": "handlers.callbacks",
    "serve_steps": "handlers.steps",
    "workflow": "flows.workflows.workflow",
}


def __getattr__(name: str) -> Any:
    module = _DURABLE.get(name)
    if module is None:
        raise AttributeError(f"module 'redrive' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"redrive.{module}"), name)
    return value


listen(_log_event)

"""redrive runs work that fails, until it succeeds or until someone knows exactly why it did not.

@redrive.retry                                   guard a function with the default policy
for attempt in redrive.attempts(attempts=5): …   guard a block
redrive.Retrier(policy).call(function)           guard a call
"""

from redrive.calls import fallback
from redrive.calls.attempt_iterator import Attempt, attempts
from redrive.calls.decorator import retry
from redrive.calls.dependencies import define_dependency
from redrive.calls.report import AttemptRecord, Report, report_of
from redrive.calls.retrier import Retrier
from redrive.calls.scope import time_left
from redrive.failures.classifier import Classifier
from redrive.failures.failure import Failure, Verdict
from redrive.failures.matching import ANYTHING, NOTHING, TRANSIENT, UNKNOWN, Match, as_match
from redrive.failures.signals import AttemptTimeout, DeadlineExceeded, Permanent, ResultRejected, RetryAfter
from redrive.observability.logs import log_event as _log_event
from redrive.observability.stream import correlate, listen
from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitOpen, CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.retry.backoff import Backoff, constant, exponential, linear
from redrive.retry.decide import decide
from redrive.retry.decision import Because, Conditions, Decision, GiveUp, RetryAt
from redrive.retry.history import History
from redrive.retry.jitter import Jitter
from redrive.retry.policy import Policy, PolicyError, Rule

__all__ = [
    "ANYTHING",
    "NOTHING",
    "TRANSIENT",
    "UNKNOWN",
    "Attempt",
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
    "DeadlineExceeded",
    "Decision",
    "Dependencies",
    "Dependency",
    "Failure",
    "GiveUp",
    "History",
    "Jitter",
    "Match",
    "Permanent",
    "Policy",
    "PolicyError",
    "Report",
    "ResultRejected",
    "Retrier",
    "RetryAfter",
    "RetryAt",
    "Rule",
    "Verdict",
    "__version__",
    "as_match",
    "attempts",
    "constant",
    "correlate",
    "decide",
    "define_dependency",
    "exponential",
    "fallback",
    "linear",
    "listen",
    "report_of",
    "retry",
    "time_left",
]

__version__ = "0.1.0"

listen(_log_event)

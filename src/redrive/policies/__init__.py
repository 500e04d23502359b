"""What to do about a failure: the retry policy, and `decide`, the one function that decides about every retry."""

from redrive.policies.backoff import Backoff, constant, exponential, linear
from redrive.policies.decide import decide
from redrive.policies.decision import Because, Conditions, Decision, GiveUp, GiveUpKind, RetryAt
from redrive.policies.history import History
from redrive.policies.jitter import Jitter
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule
from redrive.policies.preview import Preview, PreviewRow, preview, preview_all
from redrive.policies.report import AttemptRecord, Report, report_of

__all__ = [
    "DEFAULT_POLICY",
    "AttemptRecord",
    "Backoff",
    "Because",
    "Conditions",
    "Decision",
    "GiveUp",
    "GiveUpKind",
    "History",
    "Jitter",
    "Policy",
    "Preview",
    "PreviewRow",
    "Report",
    "RetryAt",
    "Rule",
    "constant",
    "decide",
    "exponential",
    "linear",
    "preview",
    "preview_all",
    "report_of",
]

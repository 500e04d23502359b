"""What went wrong: a failure, its category, and why it is in that category."""

from redrive.failures.classifier import Classifier
from redrive.failures.failure import Category, Failure, Verdict
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

__all__ = [
    "ANYTHING",
    "NOTHING",
    "TRANSIENT",
    "UNKNOWN",
    "AttemptLost",
    "AttemptTimeout",
    "Category",
    "Classifier",
    "CrashLoop",
    "DeadlineExceeded",
    "Failure",
    "Match",
    "Permanent",
    "ResultRejected",
    "RetryAfter",
    "Snooze",
    "Verdict",
    "as_match",
]

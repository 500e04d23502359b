"""What went wrong: a failure, its category, and why it is in that category."""

from redrive.failures.classifier import Classifier
from redrive.failures.failure import Category, Failure, Verdict
from redrive.failures.matching import ANYTHING, NOTHING, TRANSIENT, UNKNOWN, Match, as_match
from redrive.failures.redaction import hide_secrets

__all__ = [
    "ANYTHING",
    "NOTHING",
    "TRANSIENT",
    "UNKNOWN",
    "Category",
    "Classifier",
    "Failure",
    "Match",
    "Verdict",
    "as_match",
    "hide_secrets",
]

"""Decides what to report to a dependency's circuit after a failed attempt."""

from redrive.errors import CircuitOpenError, Snooze
from redrive.failures.failure import Failure
from redrive.policies.decide import is_retried
from redrive.policies.policy import Policy
from redrive.resilience import circuit as circuits


def circuit_outcome(policy: Policy, failure: Failure) -> circuits.Report:
    """Return `failed` if the dependency is down, `succeeded` if it answered with a refusal, otherwise `ignored`."""
    if isinstance(failure.error, Snooze | CircuitOpenError):
        # A snooze is not an attempt; and an inner call may have been refused by another dependency's circuit.
        return circuits.ignored
    if failure.category == "transient" or is_retried(policy, failure):
        return circuits.failed
    return circuits.succeeded if failure.status is not None else circuits.ignored

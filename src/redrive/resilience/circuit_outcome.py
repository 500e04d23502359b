"""What a failure says about the dependency that was called."""

from redrive.errors import CircuitOpenError, Snooze
from redrive.failures.failure import Failure
from redrive.policies.decide import is_retried
from redrive.policies.policy import Policy
from redrive.resilience import circuit as circuits


def circuit_outcome(policy: Policy, failure: Failure) -> circuits.Report:
    """That it is down, that it is alive (it answered and refused), or nothing."""
    if isinstance(failure.error, Snooze | CircuitOpenError):
        # No attempt, whatever the policy retries; or a call inside was refused, perhaps by another one.
        return circuits.ignored
    if failure.category == "transient" or is_retried(policy, failure):
        return circuits.failed
    return circuits.succeeded if failure.status is not None else circuits.ignored

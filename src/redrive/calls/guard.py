"""What the parts of a guarded call need to know about their guard. `Retrier` implements it."""

from collections.abc import Callable
from typing import Any, Protocol

from redrive.calls.fallback import Fallback
from redrive.failures.classifier import Classifier
from redrive.failures.failure import Failure
from redrive.policies.policy import Policy
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener


class Guard(Protocol):
    """A policy and its collaborators. A guard holds no state of any one call."""

    policy: Policy
    operation: str | None
    """The configured name; None: use the function's name."""
    dependency: Dependency | None
    dependency_name: str | None
    classifier: Classifier
    fallback: Fallback | None
    retry_result: Callable[[Any], bool] | None
    classify_result: Callable[[Any, float], Failure] | None
    reread: Callable[[], Any] | None
    independent: bool
    """Retry even inside another guarded call. A fallback implies it."""
    independent_by_request: bool
    """The caller asked for `independent`; it is not only implied by a fallback."""
    owns_retries: bool
    """Guarded calls inside this one make a single attempt."""
    succeeds_unobserved: bool
    """A first attempt that succeeds needs no bookkeeping: no circuit, no timeout, no check of the result."""
    hooks: tuple[Listener, ...]

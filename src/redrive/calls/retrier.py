"""`redrive.Retrier`: a policy with everything that a guarded call needs besides: classifier, dependency, fallback."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec, TypeVar, Unpack

from redrive.calls import async_driver, sync_driver
from redrive.calls.attempt_loop import Attempts
from redrive.calls.fallback import as_fallback
from redrive.calls.function_kinds import is_async, operation_name
from redrive.calls.guarded_function import guarded_function
from redrive.calls.settings import PolicySettings, policy_from
from redrive.calls.shared_dependencies import as_dependency
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Failure
from redrive.failures.redaction import redact
from redrive.policies.policy import Policy
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")


class Retrier:
    """Guards calls with one policy. It holds no state of a call: make it once and use it anywhere.

    payments = Retrier(Policy(attempts=5), dependency="payments")
    receipt = payments.call(charge, "u1", cents=100)
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        operation: str | None = None,
        dependency: str | Dependency | None = None,
        fallback: Any = None,
        classifier: Classifier = DEFAULT_CLASSIFIER,
        retry_result: Callable[[Any], bool] | None = None,
        reread: Callable[[], Any] | None = None,
        independent: bool = False,
        on_event: Listener | Iterable[Listener] = (),
        classify_result: Callable[[Any, float], Failure] | None = None,
        **settings: Unpack[PolicySettings],
    ) -> None:
        """
        policy: the default policy if omitted; `settings` override its fields: Retrier(attempts=5).
        operation: the name in logs and reports; the function's name if omitted.
        dependency: the service that is called. All guards that name it share its circuit and retry budget.
        fallback: answers when the call has given up: `redrive.fallback.…`, a function, or a value.
        classifier: distinguishes transient failures from permanent ones.
        retry_result: returns true for a result that counts as a failure.
        reread: declares 409 an optimistic-lock conflict, and refreshes the state before the retry.
        independent: retry even inside another guarded call, which otherwise owns the retries.
        on_event: hooks for the events of these calls.
        classify_result: (result, wall-clock time) -> the Failure that a rejected result means; transient if omitted.
        """
        if not isinstance(classifier, Classifier):
            raise TypeError(f"classifier: use a Classifier, not {type(classifier).__name__}")
        for name, function in (
            ("retry_result", retry_result),
            ("reread", reread),
            ("classify_result", classify_result),
        ):
            if function is not None and not callable(function):
                raise TypeError(f"{name}: use a function, not {type(function).__name__}")
            if function is not None and name != "reread" and is_async(function):
                raise TypeError(f"{name}: use a plain function; nothing awaits what a coroutine function returns")
        policy = self.policy = policy_from(settings, policy)
        # A name may be built from configuration, such as an address that contains a password.
        self.operation = operation if operation is None else redact(str(operation))
        self.dependency = as_dependency(dependency)
        self.dependency_name = None if self.dependency is None else self.dependency.name
        self.fallback = as_fallback(fallback)
        self.classifier = classifier if reread is None else classifier.with_lock_conflicts()
        self.retry_result = retry_result
        self.reread = reread
        # Failures that a fallback covers never reach the enclosing call, so nobody else could retry them.
        self.independent = independent or self.fallback is not None
        self.independent_by_request = independent
        self.hooks = as_hooks(on_event)
        self.classify_result = classify_result
        self.owns_retries = policy.attempts != 1
        self.succeeds_unobserved = (
            self.dependency is None and policy.attempt_timeout is None and retry_result is None and not self.independent
        )

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function until it succeeds or the policy gives up; then raise its last error."""
        result: T = sync_driver.run(self, self._name_of(function), function, args, kwargs).unwrap()
        return result

    async def acall(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same with a coroutine function, under asyncio or trio."""
        result: T = (await async_driver.run(self, self._name_of(function), function, args, kwargs)).unwrap()
        return result

    def wrap(self, function: F) -> F:
        """Return the guarded version of a function; also as a decorator: `@retrier.wrap`."""
        guarded: F = guarded_function(self, function)
        return guarded

    def attempts(self) -> Attempts:
        """Return a loop over attempts, as `redrive.attempts` does."""
        return Attempts(self)

    def _name_of(self, function: Callable[..., Any]) -> str:
        return self.operation or operation_name(function)

    def __repr__(self) -> str:
        about = f", dependency={self.dependency_name!r}" if self.dependency_name else ""
        return f"Retrier({self.operation or 'any call'}, attempts={self.policy.attempts}{about})"


def as_hooks(on_event: Listener | Iterable[Listener]) -> tuple[Listener, ...]:
    """Read an `on_event` setting: a function, or several."""
    hooks = (on_event,) if callable(on_event) or not isinstance(on_event, Iterable) else tuple(on_event)
    for hook in hooks:
        if not callable(hook):
            raise TypeError(f"on_event: use a function, or several, not {type(hook).__name__}")
    return hooks

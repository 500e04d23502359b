"""A policy with everything a guarded call needs around it: classifier, dependency, fallback, hooks."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from redrive.calls.dependencies import as_dependency
from redrive.calls.fallback import as_fallback
from redrive.calls.settings import PolicySettings, policy_from
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Failure
from redrive.failures.redaction import redact
from redrive.policies.policy import Policy
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener

if TYPE_CHECKING:
    from redrive.calls.attempt_iterator import Attempts

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")


class Retrier:
    """Guards calls with one policy. Make it once, use it from anywhere: it holds no state of a call.

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
        policy: the policy, by default the default one; `settings` change it: Retrier(attempts=5).
        operation: the name in logs and reports; by default the function's.
        dependency: what is called; its circuit and retry budget are shared by all who name it.
        fallback: answers when the call has given up: `redrive.fallback.…`, a function, or a value.
        classifier: tells transient from permanent failures.
        retry_result: true for results that count as a failure.
        reread: declares 409 an optimistic-lock conflict, and refreshes the state before the retry that follows one.
        independent: retry even inside another guarded attempt, which otherwise owns the retries.
        on_event: hooks for the events of these calls.
        classify_result: what a refused result means: (result, wall clock) -> Failure; by default it is transient.
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
        # Names may be made of what was configured, an address with a password say.
        self.operation = operation if operation is None else redact(str(operation))
        self.dependency = as_dependency(dependency)
        self.dependency_name = None if self.dependency is None else self.dependency.name
        self.fallback = as_fallback(fallback)
        self.classifier = classifier if reread is None else classifier.with_lock_conflicts()
        self.retry_result = retry_result
        self.reread = reread
        # Failures that a fallback covers never reach an enclosing call, so no one else could retry them.
        self.independent = independent or self.fallback is not None
        self.asked_to_be_independent = independent
        self.hooks = as_hooks(on_event)
        self.classify_result = classify_result
        self.owns_retries = policy.attempts != 1
        # Whether a first attempt that succeeds needs nothing but being made.
        self.plain = (
            self.dependency is None and policy.attempt_timeout is None and retry_result is None and not self.independent
        )

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function until it succeeds or the policy gives up; then its last error is raised."""
        from redrive.calls.sync_driver import run

        result: T = run(self, self.name_of(function), function, args, kwargs)
        return result

    async def acall(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a coroutine function, under asyncio or trio."""
        from redrive.calls.async_driver import run

        result: T = await run(self, self.name_of(function), function, args, kwargs)
        return result

    def wrap(self, function: F) -> F:
        """The guarded version of a function or a coroutine function; also as a decorator: `@retrier.wrap`."""
        from redrive.calls.decorator import guard

        guarded: F = guard(self, function)
        return guarded

    def attempts(self) -> "Attempts":
        """A loop over attempts, as `redrive.attempts` makes it."""
        from redrive.calls.attempt_iterator import Attempts

        return Attempts(self)

    def name_of(self, function: Callable[..., Any]) -> str:
        return self.operation or operation_name(function)

    def __repr__(self) -> str:
        about = f", dependency={self.dependency_name!r}" if self.dependency_name else ""
        return f"Retrier({self.operation or 'any call'}, attempts={self.policy.attempts}{about})"


def as_hooks(on_event: Listener | Iterable[Listener]) -> tuple[Listener, ...]:
    """Read what users write: a function, or several."""
    hooks = (on_event,) if callable(on_event) or not isinstance(on_event, Iterable) else tuple(on_event)
    for hook in hooks:
        if not callable(hook):
            raise TypeError(f"on_event: use a function, or several, not {type(hook).__name__}")
    return hooks


def operation_name(function: Callable[..., Any]) -> str:
    """The name of what is called, without its arguments."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name.replace("<locals>.", "")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine; objects with an async `__call__` included."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - asks whether it is async, not whether it exists

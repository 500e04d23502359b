"""`@redrive.retry`: guards a function, a coroutine function, a method, or (on request) a generator function."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, Unpack, overload

from redrive.calls.retrier import Retrier, is_async
from redrive.calls.settings import PolicySettings, policy_from
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.observability.stream import Listener
from redrive.resilience.dependencies import Dependency
from redrive.retry.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])
Generators = Literal["refuse", "restart"]


@overload
def retry(target: F, /) -> F: ...


@overload
def retry(
    target: Policy | Retrier | None = None,
    /,
    *,
    operation: str | None = None,
    dependency: str | Dependency | None = None,
    fallback: Any = None,
    classifier: Classifier = ...,
    retry_result: Callable[[Any], bool] | None = None,
    reread: Callable[[], Any] | None = None,
    independent: bool = False,
    on_event: Listener | Iterable[Listener] = (),
    generators: Generators = "refuse",
    **settings: Unpack[PolicySettings],
) -> Callable[[F], F]: ...


def retry(
    target: Any = None,
    /,
    *,
    operation: str | None = None,
    dependency: str | Dependency | None = None,
    fallback: Any = None,
    classifier: Classifier = DEFAULT_CLASSIFIER,
    retry_result: Callable[[Any], bool] | None = None,
    reread: Callable[[], Any] | None = None,
    independent: bool = False,
    on_event: Listener | Iterable[Listener] = (),
    generators: Generators = "refuse",
    **settings: Unpack[PolicySettings],
) -> Any:
    """Call the function until it succeeds or the policy gives up; then its last error is raised, attempts attached.

        @redrive.retry
        @redrive.retry(attempts=5, on=(ConnectionError,), deadline="60s", attempt_timeout="5s")
        @redrive.retry(Policy(attempts=5), dependency="payments")

    Without settings it is the default policy: 3 attempts, only transient failures, 60 s in all. The settings are
    those of `PolicySettings` and of `Retrier`. A generator function is refused: its items would come twice after a
    retry; `generators="restart"` says that this is meant.
    """
    if isinstance(target, Retrier):
        retrier = target
        if settings:
            raise TypeError("a Retrier has its settings already; give them to the Retrier, or pass its policy")
    else:
        if target is not None and not isinstance(target, Policy) and not _is_function(target):
            raise TypeError(
                f"retry takes a function, a Policy or a Retrier, not {type(target).__name__}; "
                "write @retry(attempts=5) to name a setting"
            )
        retrier = Retrier(
            policy_from(settings, target if isinstance(target, Policy) else None),
            operation=operation,
            dependency=dependency,
            fallback=fallback,
            classifier=classifier,
            retry_result=retry_result,
            reread=reread,
            independent=independent,
            on_event=on_event,
        )
    if _is_function(target) and not isinstance(target, Policy | Retrier):
        return guard(retrier, target, generators)
    return functools.partial(guard, retrier, generators=generators)


def guard(retrier: Retrier, function: Any, generators: Generators = "refuse") -> Any:
    """The guarded version of `function`, of the same kind."""
    if isinstance(function, staticmethod | classmethod):
        return type(function)(guard(retrier, function.__func__, generators))
    if not callable(function):
        raise TypeError(f"retry guards functions; {type(function).__name__} cannot be called")
    if isinstance(function, type):
        raise TypeError(
            f"retry guards functions; guard the methods of {function.__name__}, or a function that makes it"
        )
    operation = retrier.name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        if generators != "restart":
            raise TypeError(
                f"{operation} is a generator function: after a retry its items would come again from the start; "
                'write @retry(generators="restart") if they may, or guard what it calls'
            )
        from redrive.calls.generator_driver import guard_generator_function

        guarded = guard_generator_function(retrier, operation, function)
    elif is_async(function):
        guarded = _guard_async(retrier, operation, function)
    else:
        guarded = _guard_sync(retrier, operation, function)
    functools.update_wrapper(guarded, function)
    guarded.retrier = retrier  # type: ignore[attr-defined]  # for those who want the policy of a guarded function
    return guarded


def _guard_sync(retrier: Retrier, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if retrier.plain:
        from redrive.calls.fast_path import guard_function

        return guard_function(retrier, operation, function)
    from redrive.calls.sync_driver import run

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return run(retrier, operation, function, args, kwargs)

    return guarded


def _guard_async(retrier: Retrier, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if retrier.plain:
        from redrive.calls.async_fast_path import guard_coroutine_function

        return guard_coroutine_function(retrier, operation, function)
    from redrive.calls.async_driver import run

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        return await run(retrier, operation, function, args, kwargs)

    return guarded


def _is_function(target: Any) -> bool:
    return callable(target) or isinstance(target, staticmethod | classmethod)

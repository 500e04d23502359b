"""`@redrive.retry`: guards a function, a coroutine function, a method, or (on request) a generator function."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Unpack, get_args, overload

from redrive.calls.retrier import Retrier, is_async
from redrive.calls.settings import GuardSettings
from redrive.policies.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])
Generators = Literal["refuse", "restart"]


@overload
def retry(target: F, /) -> F: ...


@overload
def retry(
    target: Policy | None = None, /, *, generators: Generators = "refuse", **settings: Unpack[GuardSettings]
) -> Callable[[F], F]: ...


def retry(target: Any = None, /, *, generators: Generators = "refuse", **settings: Unpack[GuardSettings]) -> Any:
    """Call the function until it succeeds or the policy gives up; then its last error is raised, attempts attached.

        @redrive.retry
        @redrive.retry(attempts=5, on=(ConnectionError,), deadline="60s", attempt_timeout="5s")
        @redrive.retry(Policy(attempts=5), dependency="payments")

    Without settings it is the default policy: 3 attempts, only transient failures, 60 s in all. The settings are
    those of a policy (`PolicySettings`) and of a `Retrier`. A generator function is refused: its items would come
    twice after a retry; `generators="restart"` says that this is meant.
    """
    if generators not in get_args(Generators):
        raise ValueError(f'generators: {generators!r} is not allowed; use "refuse" or "restart"')
    if target is None or isinstance(target, Policy):
        return functools.partial(guard, Retrier(target, **settings), generators=generators)
    if isinstance(target, Retrier):
        raise TypeError("a Retrier guards functions itself: write @retrier.wrap")
    if not callable(target) and not isinstance(target, staticmethod | classmethod):
        raise TypeError(
            f"retry takes a function or a Policy, not {type(target).__name__}; write @retry(attempts=5) for a setting"
        )
    return guard(Retrier(**settings), target, generators)


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
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 - asks what it is, not whether
    yields_async = inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(called)
    if retrier.reread is not None and is_async(retrier.reread) and not yields_async and not is_async(function):
        from redrive.calls.sync_driver import async_reread

        raise async_reread(operation)
    if yields_async or inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(called):
        if generators != "restart":
            raise TypeError(
                f"{operation} is a generator function: after a retry its items would come again from the start; "
                'write @retry(generators="restart") if they may, or guard what it calls'
            )
        from redrive.calls.generator_driver import guard_generator_function

        guarded = guard_generator_function(retrier, operation, function, yields_async)
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

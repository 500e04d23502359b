"""`@redrive.retry`: guards a function with a policy."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, Unpack, get_args, overload

from redrive.calls.guarded_function import Generators, guarded_function
from redrive.calls.retrier import Retrier
from redrive.calls.settings import GuardSettings
from redrive.policies.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])


@overload
def retry(target: F, /) -> F: ...


@overload
def retry(
    target: Policy | None = None, /, *, generators: Generators = "first_output", **settings: Unpack[GuardSettings]
) -> Callable[[F], F]: ...


def retry(target: Any = None, /, *, generators: Generators = "first_output", **settings: Unpack[GuardSettings]) -> Any:
    """Call the function until it succeeds or the policy gives up; then raise its last error, with a report attached.

        @redrive.retry
        @redrive.retry(attempts=5, retry_on=(ConnectionError,), deadline="60s", attempt_timeout="5s")
        @redrive.retry(Policy(attempts=5), dependency="payments")

    Without settings the default policy applies: 3 attempts, transient failures only, 60 s in all. The settings are
    those of a policy (`PolicySettings`) and of a `Retrier`. A generator function is retried until its first item: a
    later retry would repeat items, so StreamBrokenError is raised instead; `generators="restart"` allows repeats.
    """
    if generators not in get_args(Generators):
        raise ValueError(f'generators: {generators!r} is not allowed; use "first_output" or "restart"')
    if target is None or isinstance(target, Policy):
        return functools.partial(guarded_function, Retrier(target, **settings), generators=generators)
    if isinstance(target, Retrier):
        raise TypeError("a Retrier guards functions itself: write @retrier.wrap")
    if not callable(target) and not isinstance(target, staticmethod | classmethod):
        raise TypeError(
            f"retry takes a function or a Policy, not {type(target).__name__}; write @retry(attempts=5) for a setting"
        )
    return guarded_function(Retrier(**settings), target, generators)

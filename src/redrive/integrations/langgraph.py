"""Retries for LangGraph nodes: by LangGraph, with redrive's classification of failures, or by redrive.

builder.add_node("ask", ask, retry_policy=RetryPolicy(max_attempts=5, retry_on=retry_on))     LangGraph retries
builder.add_node("ask", guarded_node(ask, attempts=5, dependency="openai"))                   redrive retries

Only the second obeys Retry-After, has deadlines, circuits and limits, and owns the retries of guarded calls inside. Use
one of them for a node, not both: the attempts would multiply.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, Unpack, overload

try:
    from langgraph.errors import GraphBubbleUp
except ImportError as error:
    raise ImportError("the LangGraph integration needs LangGraph: pip install langgraph") from error

from redrive.calls.retrier import Retrier
from redrive.calls.settings import GuardSettings
from redrive.determinism.clock import current_clock
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.policies.decide import is_retried
from redrive.policies.policy import DEFAULT_POLICY, Policy

__all__ = ["guarded_node", "retry_on", "retry_on_by"]

F = TypeVar("F", bound=Callable[..., Any])


def retry_on(error: Exception) -> bool:
    """Whether the error is transient: for `RetryPolicy(retry_on=retry_on)` of LangGraph."""
    return retry_on_by(DEFAULT_POLICY)(error)


def retry_on_by(policy: Policy, classifier: Classifier = DEFAULT_CLASSIFIER) -> Callable[[Exception], bool]:
    """Return a `retry_on` that retries what the policy retries: its `retry_on`, `never_on` and `rules`.

    How often and how long LangGraph waits is for its RetryPolicy to say.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"retry_on_by: {type(policy).__name__} is not a Policy; without one, use retry_on")

    def by_policy(error: Exception) -> bool:
        return is_retried(policy, classifier.failure_of(error, current_clock().wall()))

    return by_policy


class _BubbledUp(BaseException):
    """Carries what LangGraph raises to pause or to leave a node past the guard, to which it would be a failure."""

    def __init__(self, reason: GraphBubbleUp) -> None:
        self.reason = reason


@overload
def guarded_node(node: F, /, policy: Policy | None = None, **settings: Unpack[GuardSettings]) -> F: ...
@overload
def guarded_node(
    node: None = None, /, policy: Policy | None = None, **settings: Unpack[GuardSettings]
) -> Callable[[F], F]: ...
def guarded_node(node: Any = None, /, policy: Policy | None = None, **settings: Unpack[GuardSettings]) -> Any:
    """Return the node, plain or async, run under a redrive policy; also as a decorator: `@guarded_node(attempts=5)`.

    The settings are those of `redrive.retry`. An interrupt passes through: it is neither a failure nor retried.
    """
    if node is None:
        return functools.partial(guarded_node, policy=policy, **settings)
    if not inspect.isroutine(node):
        raise TypeError(
            f"guarded_node takes a function, not {type(node).__name__}; write a function that calls it, and guard that"
        )
    settings.setdefault("operation", getattr(node, "__name__", "node"))
    retrier = Retrier(policy, **settings)
    if inspect.iscoroutinefunction(node):

        async def attempt_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await node(*args, **kwargs)
            except GraphBubbleUp as reason:
                raise _BubbledUp(reason) from None

        @functools.wraps(node)
        async def guarded_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await retrier.acall(attempt_async, *args, **kwargs)
            except _BubbledUp as carried:
                raise carried.reason from None

        return guarded_async

    def attempt(*args: Any, **kwargs: Any) -> Any:
        try:
            return node(*args, **kwargs)
        except GraphBubbleUp as reason:
            raise _BubbledUp(reason) from None

    @functools.wraps(node)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return retrier.call(attempt, *args, **kwargs)
        except _BubbledUp as carried:
            raise carried.reason from None

    return guarded

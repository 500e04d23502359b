"""The `Retrier` of each stage, from the settings of the interceptors and the stage's own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from redrive.calls.retrier import Retrier
from redrive.failures.failure import Failure
from redrive.failures.matching import Match
from redrive.pipeline.errors import failure_of_output
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.interceptors.circuit_breaker import CircuitBreakerInterceptor
from redrive.pipeline.interceptors.retry import RetryInterceptor
from redrive.pipeline.interceptors.timeout import TimeoutInterceptor
from redrive.pipeline.stage import StageSpec
from redrive.policies.policy import Policy
from redrive.telemetry.events import Event
from redrive.telemetry.stream import hooks_only

T = TypeVar("T", bound=BaseInterceptor)

_DEFAULT_RETRY = RetryInterceptor()
# Matches no failure, so that only failures that ask for a retry are retried.
_ONLY_ON_REQUEST = Match(names=("redrive.pipeline.StageOutput.retry",))

_captured: ContextVar[list[Event] | None] = ContextVar("redrive_stage_events", default=None)


class StageRetriers:
    """Makes the retriers of all stages for one set of interceptors. Of several of one type the last one counts."""

    def __init__(self, interceptors: Sequence[BaseInterceptor]) -> None:
        self._retry = _last(interceptors, RetryInterceptor)
        self._circuit = _last(interceptors, CircuitBreakerInterceptor)
        timeout = _last(interceptors, TimeoutInterceptor)
        self._timeout = None if timeout is None else timeout.timeout
        self._shared: dict[tuple[bool, float | None], Policy] = {}

    def retrier_for(self, spec: StageSpec) -> Retrier:
        # The stages of a nested pipeline are retried and timed out one by one, unless the stage itself declares more.
        retried = spec.retry_config is not None or (self._retry is not None and not spec.is_pipeline)
        timeout = self._timeout if spec.timeout is None and not spec.is_pipeline else spec.timeout
        policy = self._policy(spec, retried, timeout)
        circuit = None if self._circuit is None else self._circuit.settings_for(policy.attempts)
        retrier = Retrier(
            policy,
            operation=spec.name,
            dependency=None if circuit is None else spec.dependency_with(circuit),
            classify_result=partial(_classify_output, retry_on_fail=spec.retry_on_fail),
            on_event=_capture,
        )
        # Where the stage is not retried, guarded calls inside it retry for themselves.
        retrier.owns_retries = retried and policy.attempts != 1
        return retrier

    def _policy(self, spec: StageSpec, retried: bool, timeout: float | None) -> Policy:
        # Stages without settings of their own share one policy: a pipeline may have thousands of them.
        shared = self._shared.get((retried, timeout)) if spec.retry_config is None else None
        if shared is not None:
            return shared
        policy = (self._retry or _DEFAULT_RETRY).policy_for(spec.retry_config).replace(attempt_timeout=timeout)
        if not retried:
            policy = policy.replace(retry_on=_ONLY_ON_REQUEST, timeout_retries=0)
        if spec.retry_config is None:
            self._shared[retried, timeout] = policy
        return policy


@contextmanager
def captured_events() -> Iterator[list[Event]]:
    """Collect the events of a stage's guarded call instead of publishing them: listeners get the stage's own events."""
    events: list[Event] = []
    token = _captured.set(events)
    try:
        with hooks_only():
            yield events
    finally:
        _captured.reset(token)


def _capture(event: Event) -> None:
    events = _captured.get()
    if events is not None:
        events.append(event)


def _classify_output(output: Any, _wall_now: float, *, retry_on_fail: bool) -> Failure:
    return failure_of_output(output, retry_on_fail=retry_on_fail)


def _last(interceptors: Sequence[BaseInterceptor], kind: type[T]) -> T | None:
    return next((one for one in reversed(interceptors) if isinstance(one, kind)), None)

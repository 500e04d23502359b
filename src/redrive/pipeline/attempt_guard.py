"""How the attempts at a stage are guarded: its policy, its timeout and its dependency, as a `Retrier`."""

from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from redrive.calls.retrier import Retrier
from redrive.failures.failure import Failure
from redrive.failures.matching import Match
from redrive.failures.redaction import redact
from redrive.pipeline.errors import StageReportedError
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.interceptors.circuit_breaker import CircuitBreakerInterceptor
from redrive.pipeline.interceptors.retry import RetryInterceptor
from redrive.pipeline.interceptors.timeout import TimeoutInterceptor
from redrive.pipeline.output import StageOutput, StageStatus
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import StageRun
from redrive.policies.policy import Policy
from redrive.telemetry.events import Event

T = TypeVar("T", bound=BaseInterceptor)

CURRENT_STAGE: ContextVar[StageRun] = ContextVar("redrive_stage")

_UNASKED = RetryInterceptor()
# Names no failure: nothing is retried but what asks for it.
_ASKED_FOR = Match(names=("redrive.pipeline.StageOutput.retry",))


class GuardMaker:
    """Makes the guards of all stages for one set of interceptors. Of several of one kind the last counts."""

    def __init__(self, interceptors: Sequence[BaseInterceptor]) -> None:
        self._retry = _last(interceptors, RetryInterceptor)
        self._circuit = _last(interceptors, CircuitBreakerInterceptor)
        timeout = _last(interceptors, TimeoutInterceptor)
        self._timeout = None if timeout is None else timeout.timeout
        self._plain: dict[tuple[bool, float | None], Policy] = {}

    def guard_for(self, spec: StageSpec, *, passes_on: bool) -> Retrier:
        """`passes_on`: the stages inside retry, and are cut, for themselves (a sub-pipeline).

        Unless the stage says otherwise.
        """
        asked = spec.retry_config is not None or (self._retry is not None and not passes_on)
        limit = self._timeout if spec.timeout is None and not passes_on else spec.timeout
        policy = self._policy(spec, asked, limit)
        guard = Retrier(
            policy,
            operation=spec.name,
            dependency=None
            if self._circuit is None
            else spec.dependency_with(self._circuit.settings_for(policy.attempts)),
            classify_result=partial(failure_of_output, retried=True) if spec.retry_on_fail else failure_of_output,
            on_event=_tell_the_stage,
        )
        # Where the stage retries nothing by itself, guarded calls inside it do.
        guard.owns_retries = asked and policy.attempts != 1
        return guard

    def _policy(self, spec: StageSpec, asked: bool, limit: float | None) -> Policy:
        known = self._plain.get((asked, limit)) if spec.retry_config is None else None
        if known is not None:
            return known
        policy = (self._retry or _UNASKED).policy_for(spec.retry_config).replace(attempt_timeout=limit)
        if not asked:
            policy = policy.replace(retry_on=_ASKED_FOR, timeout_retries=0)
        if spec.retry_config is None:
            # Stages that say nothing of their own share theirs: a pipeline may have very many of them.
            self._plain[asked, limit] = policy
        return policy


def _last(interceptors: Sequence[BaseInterceptor], kind: type[T]) -> T | None:
    return next((one for one in reversed(interceptors) if isinstance(one, kind)), None)


def _tell_the_stage(event: Event) -> None:
    CURRENT_STAGE.get().heard.append(event)


def failure_of_output(output: StageOutput, wall_now: float, retried: bool = False) -> Failure:
    """What a stage reported by its output, as a failure. `retried`: the stage wants its failures retried, too."""
    asks = retried or output.status is StageStatus.RETRY
    return Failure(
        category="transient" if asks else "permanent",
        reason="the stage asks for a retry" if asks else "the stage says that it failed",
        kind="result",
        type=StageReportedError.__name__,
        message=redact(output.error),
        retry_after=None if output.retry_after_ms is None else output.retry_after_ms / 1000,
        asks_for_retry=asks,
        marked_permanent=not asks,
    )

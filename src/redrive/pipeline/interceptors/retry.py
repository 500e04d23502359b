"""Which failures of a stage are retried, how often and how far apart: settings for `decide()`."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from redrive.determinism.dice import current_dice
from redrive.failures.failure import Failure
from redrive.failures.matching import TRANSIENT, Match
from redrive.notation import read_policy
from redrive.pipeline.interceptors.base import ErrorAction, StatelessInterceptor
from redrive.pipeline.stage_run import StageRun
from redrive.policies.decide import decide
from redrive.policies.decision import RetryAt
from redrive.policies.history import Granted, History
from redrive.policies.policy import Policy

DEFAULT_ERRORS: tuple[type[Exception], ...] = (TimeoutError, ConnectionError, OSError)

# Some errors with an HTTP status are OSErrors whatever the status; client errors are still permanent.
CLIENT_ERRORS = Match(statuses=((400, 407), (409, 424), (426, 428), (430, 499)))


class BackoffStrategy(Enum):
    """How waits grow from retry to retry."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    CONSTANT = "constant"


class JitterStrategy(Enum):
    """How waits are randomized."""

    NONE = "none"
    FULL = "full"
    EQUAL = "equal"
    DECORRELATED = "decorrelated"


class RetryInterceptor(StatelessInterceptor):
    """Retries stages that fail, and those that return `StageOutput.retry`.

    With the default `retryable_errors`, every failure that is known to be transient is retried too; of errors with an
    HTTP status, 408, 425, 429 and 5xx.
    """

    name = "retry"
    priority = 15

    def __init__(
        self,
        max_attempts: int = 3,
        base_delay_ms: int = 1000,
        max_delay_ms: int = 30000,
        backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL,
        jitter_strategy: JitterStrategy = JitterStrategy.FULL,
        retryable_errors: tuple[type[Exception], ...] = DEFAULT_ERRORS,
    ) -> None:
        """
        max_attempts: total attempts, the first included.
        base_delay_ms: the wait before the first retry, before jitter.
        max_delay_ms: the limit of computed waits. A requested wait (Retry-After, `retry_after_ms`) may be as long as
            60 s, or max_delay_ms if that is more; the stage fails if more is requested.
        """
        self.max_attempts = max_attempts
        self.base_delay_ms = base_delay_ms
        self.max_delay_ms = max_delay_ms
        self.backoff_strategy = backoff_strategy
        self.jitter_strategy = jitter_strategy
        self.retryable_errors = retryable_errors
        self.policy = self.policy_for(None)

    def policy_for(self, retry_config: Mapping[str, Any] | None) -> Policy:
        """Return the policy of a stage: these arguments, overridden by the stage's own."""
        arguments = {
            "max_attempts": self.max_attempts,
            "base_delay_ms": self.base_delay_ms,
            "max_delay_ms": self.max_delay_ms,
            "backoff_strategy": self.backoff_strategy,
            "jitter_strategy": self.jitter_strategy,
            "retryable_errors": self.retryable_errors,
            **(retry_config or {}),
        }
        policy = read_policy(arguments, "stage", "RetryInterceptor").policy
        # Computed waits may be this long, so requested ones may be too.
        accepted = max(policy.max_retry_after or 0.0, policy.max_wait or 0.0)
        policy = policy.replace(max_retry_after=accepted)
        if arguments["retryable_errors"] != DEFAULT_ERRORS:
            return policy
        return policy.replace(retry_on=policy.retry_on | TRANSIENT, never_on=CLIENT_ERRORS)

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        """Return what the policy decided; the run waits and retries. Override it to overrule the policy."""
        return ErrorAction.RETRY if isinstance(ctx.decision, RetryAt) else ErrorAction.FAIL

    def _calculate_delay(self, stage_name: str, attempt: int) -> int:
        """Return the wait in milliseconds before retry `attempt`; 0 is the first."""
        history = History(0.0, attempts=attempt + 1, granted=(Granted("retry_on", attempt, self.policy.backoff.base),))
        failure = Failure(category="transient", reason="preview", asks_for_retry=True)
        decision = decide(self.policy.replace(attempts=None), history, failure, 0.0, current_dice())
        return round(decision.because.wait * 1000)

"""Temporal activities whose retries redrive decides (`pip install 'redrive[temporal]'`).

Worker(client, ..., interceptors=[RedriveInterceptor({"charge": redrive.Policy(attempts=5)})])
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

try:
    from temporalio import activity
    from temporalio.common import RetryPolicy
    from temporalio.exceptions import ApplicationError, FailureError
    from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor
except ImportError as error:
    raise ImportError("Temporal activities need the extra 'temporal': pip install 'redrive[temporal]'") from error

from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Failure
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.integrations.engine_attempt import EngineAttempt
from redrive.notation.read import read_policy
from redrive.policies.decision import Decision, RetryAt
from redrive.policies.history import Granted, History
from redrive.policies.policy import Policy
from redrive.policies.report import next_step

__all__ = ["RedriveInterceptor", "policy_of"]

# Temporal takes a delay of zero for none at all, and then uses its own.
_SHORTEST_DELAY = 0.001
_DECLARED = "ApplicationError without non_retryable: a retry may help, says the activity"


class RedriveInterceptor(Interceptor):
    """Lets redrive decide whether and when a failed activity is retried.

    A failed attempt becomes an ApplicationError with `next_retry_delay`, or with `non_retryable` when redrive gives
    up; its last detail says why. Temporal's own limits still apply: leave `maximum_attempts` of the activity's
    RetryPolicy at 0. What the worker does not see, such as its own death, is retried by Temporal alone.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy] | None = None,
        *,
        default: Policy | None = DURABLE_DEFAULT,
        classifier: Classifier = DEFAULT_CLASSIFIER,
    ) -> None:
        """
        policies: activity type -> its policy.
        default: the policy of all other activities; None leaves them to Temporal.
        classifier: distinguishes transient failures from permanent ones.
        """
        self._policies = dict(policies or {})
        for name, policy in self._policies.items():
            if not isinstance(policy, Policy):
                raise TypeError(f"activity {name}: {type(policy).__name__} is not a redrive.Policy")
        self._default = default
        self._classifier = classifier

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return _DecidedActivity(next, self._policies, self._default, self._classifier)


class _DecidedActivity(ActivityInboundInterceptor):
    def __init__(
        self,
        following: ActivityInboundInterceptor,
        policies: Mapping[str, Policy],
        default: Policy | None,
        classifier: Classifier,
    ) -> None:
        super().__init__(following)
        self._policies = policies
        self._default = default
        self._classifier = classifier

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        info = activity.info()
        policy = self._policies.get(info.activity_type, self._default)
        if policy is None:
            return await self.next.execute_activity(input)
        attempt = EngineAttempt(
            policy,
            info.activity_type,
            history_of(policy, info),
            receipt_token=f"{info.workflow_run_id or info.activity_run_id}.{info.activity_id}",
            classifier=self._classifier,
            left_out=info.attempt - 1,
        )
        with attempt.running():
            try:
                result = await self.next.execute_activity(input)
            except Exception as error:
                if _is_decided(error):
                    raise
                failure = _with_declared_type(attempt.classify(error), error)
                decision = attempt.failed(error, failure)
                raise _as_temporal_failure(error, failure, decision) from error
        attempt.succeeded()
        return result


def history_of(policy: Policy, info: activity.Info) -> History:
    """Return the history as far as Temporal knows it: when the first attempt was scheduled, and how many there were.

    Temporal does not say which rule granted the earlier retries, so each rule counts all of them.
    """
    retries = info.attempt - 1
    names = [*(f"rules[{index}]" for index in range(len(policy.rules))), "retry_on"] if retries else []
    granted = tuple(Granted(name, retries, policy.backoff.base) for name in names)
    return History(info.scheduled_time.timestamp(), info.attempt, 0, granted)


def policy_of(
    retry_policy: RetryPolicy | None = None,
    *,
    start_to_close_timeout: timedelta | None = None,
    schedule_to_close_timeout: timedelta | None = None,
) -> Policy:
    """Return the policy that does what Temporal's RetryPolicy does; None is Temporal's default.

    The timeouts are those of the activity: for one attempt, and for all attempts and waits together.
    """
    given = retry_policy or RetryPolicy()
    settings = {
        "initial_interval": given.initial_interval,
        "backoff_coefficient": given.backoff_coefficient,
        "maximum_interval": given.maximum_interval,
        "maximum_attempts": given.maximum_attempts,
        "non_retryable_error_types": None
        if given.non_retryable_error_types is None
        else list(given.non_retryable_error_types),
    }
    policy = read_policy(settings, "temporal", source="RetryPolicy").policy
    return policy.replace(
        attempt_timeout=None if start_to_close_timeout is None else start_to_close_timeout.total_seconds(),
        deadline=None if schedule_to_close_timeout is None else schedule_to_close_timeout.total_seconds(),
    )


def _is_decided(error: Exception) -> bool:
    """Whether the activity itself, or Temporal, has said how it goes on: cancelled, non-retryable, or with a delay."""
    if isinstance(error, ApplicationError):
        return error.non_retryable or error.next_retry_delay is not None
    return isinstance(error, FailureError)


def _with_declared_type(failure: Failure, error: Exception) -> Failure:
    """Add what an ApplicationError says about itself: its type, and that it may be retried."""
    if not isinstance(error, ApplicationError):
        return failure
    names = (error.type, *failure.lineage) if error.type else failure.lineage
    if failure.category != "unknown":
        return msgspec.structs.replace(failure, lineage=names)
    return msgspec.structs.replace(failure, lineage=names, category="transient", reason=_DECLARED)


def _as_temporal_failure(error: Exception, failure: Failure, decision: Decision) -> ApplicationError:
    details: dict[str, Any] = {"because": msgspec.to_builtins(decision.because)}
    delay: timedelta | None = None
    if isinstance(decision, RetryAt):
        details = {"decision": "retry", "wait": decision.because.wait, **details}
        delay = timedelta(seconds=max(decision.because.wait, _SHORTEST_DELAY))
    else:
        step = next_step(decision, failure, None)
        details = {"decision": "give_up", "kind": decision.kind, "next_step": step, **details}
    of_error: tuple[Any, ...] = ()
    kind: str | None = type(error).__name__
    message = failure.message
    if isinstance(error, ApplicationError):
        of_error, kind, message = tuple(error.details), error.type, error.message
    return ApplicationError(
        message, *of_error, {"redrive": details}, type=kind, non_retryable=delay is None, next_retry_delay=delay
    )

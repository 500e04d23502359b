"""Celery tasks whose retries redrive decides (`pip install 'redrive[celery]'`).

@app.task(base=RedriveTask, policy=redrive.Policy(attempts=5, deadline=3600))
def charge(order): ...
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

try:
    from celery import Task
    from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
except ImportError as error:
    raise ImportError("Celery tasks need the extra 'celery': pip install 'redrive[celery]'") from error

from redrive.determinism.clock import current_clock
from redrive.errors import Permanent
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.integrations.carried_history import Carried, read_carried, write_carried
from redrive.integrations.engine_attempt import EngineAttempt
from redrive.notation.durations import write_duration
from redrive.notation.formats.celery import KEYS
from redrive.notation.read import read_policy
from redrive.policies.decision import RetryAt
from redrive.policies.history import History
from redrive.policies.policy import Policy

__all__ = ["RedriveTask", "hints", "policy_of"]

HEADER = "redrive"
"""The message header that carries the history from attempt to attempt."""
# What the broker transports do if they are not told otherwise, in seconds.
_VISIBILITY = {"redis": 3600.0, "rediss": 3600.0, "sentinel": 3600.0, "sqs": 1800.0}


class RedriveTask(Task):  # type: ignore[misc]  # Celery has no types
    """A task that redrive retries: base=RedriveTask, with `policy` as an option of the task.

    A failed attempt is classified and decided about like any other in redrive. A retry goes back to the broker, with
    the delay that the policy or the server's Retry-After says, and carries the attempts so far in a header of its
    message. When redrive gives up, the task fails with its last error, which has the report (`redrive.report_of`).
    """

    abstract = True
    policy: ClassVar[Policy] = DURABLE_DEFAULT
    """What is retried, how often, with which waits and for how long, over all attempts of the task."""
    classifier: ClassVar[Classifier] = DEFAULT_CLASSIFIER
    """Distinguishes transient failures from permanent ones."""
    # The policy limits the attempts.
    max_retries = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = getattr(cls, "name", None) or cls.__name__
        if not isinstance(cls.policy, Policy):
            raise TypeError(
                f"task {name}: policy must be a redrive.Policy, not {type(cls.policy).__name__}; write "
                "policy=redrive.Policy(attempts=...)"
            )
        for option, instead in (
            ("autoretry_for", "policy=redrive.Policy(retry_on=...)"),
            ("max_retries", "policy=redrive.Policy(attempts=...); attempts counts the first attempt too"),
        ):
            if getattr(cls, option, None):
                raise TypeError(
                    f"task {name}: {option} makes Celery a second owner of the retries; instead, write {instead}"
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one attempt. A task that is called like a function, without a worker, is not retried."""
        request = self.request
        if request.called_directly or request._protected:
            return super().__call__(*args, **kwargs)
        # A task may call itself like a function; that call is no attempt of its own.
        request._protected = 1
        attempt = self._attempt()
        with attempt.running():
            try:
                result = self.run(*args, **kwargs)
            except (Ignore, Reject, Retry):
                raise
            except Exception as error:  # noqa: BLE001 - every failure is classified
                failure = attempt.classify(error, timed_out=isinstance(error, SoftTimeLimitExceeded))
                failed_with = error
            else:
                attempt.succeeded()
                return result
        decision = attempt.failed(failed_with, failure)
        if isinstance(decision, RetryAt):
            self._retry_at(decision, attempt, failed_with)
        raise failed_with

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        *others: Any,
        **options: Any,
    ) -> Any:
        """Refuse `self.retry(...)` in the body: such retries would not count against the policy.

        Called like a function, without a worker, the task raises the error, as every Celery task does.
        """
        if self.request.called_directly:
            return super().retry(args, kwargs, exc, *others, **options)
        raise Permanent(
            f"task {self.name}: self.retry(...) makes the task a second owner of its retries; raise the error itself, "
            "and the policy decides about the retry, or raise redrive.RetryAfter(seconds) to set the wait"
        ) from exc

    def _attempt(self) -> EngineAttempt:
        carried = self._carried()
        return EngineAttempt(
            self.policy,
            str(self.name),
            carried.history,
            receipt_token=str(self.request.id),
            classifier=self.classifier,
            records=carried.records,
            left_out=carried.left_out,
        )

    def _carried(self) -> Carried:
        carried = read_carried((self.request.headers or {}).get(HEADER))
        if carried is not None:
            return carried
        # The first attempt, or one whose header was lost: Celery has counted the retries.
        retries = self.request.retries or 0
        return Carried(started_at=current_clock().wall(), attempts=retries + 1, left_out=retries)

    def _retry_at(self, decision: RetryAt, attempt: EngineAttempt, error: Exception) -> NoReturn:
        history: History = attempt.history.after(decision)
        headers = {
            **(self.request.headers or {}),
            HEADER: write_carried(history, attempt.records, attempt.left_out),
        }
        # Celery counts from now.
        countdown = max(0.0, decision.when - current_clock().wall())
        raise super().retry(exc=error, countdown=countdown, headers=headers, throw=False)


def policy_of(task: Any) -> Policy:
    """Return the policy that does what a task's own retry options do: autoretry_for, retry_backoff, max_retries, ...

    `task` is a Celery task, or a mapping of its options. NotationError when an option cannot be read.
    """
    if isinstance(task, Mapping):
        given = {key: task[key] for key in KEYS if key in task}
    else:
        given = {key: getattr(task, key) for key in KEYS if hasattr(task, key)}
    return read_policy(given, "celery", source=f"task {getattr(task, 'name', 'options')}").policy


def hints(task: Any) -> list[str]:
    """Return what to change in the settings around a task so that no retry is lost or doubled."""
    found = []
    policy = task.policy if isinstance(task, RedriveTask) else policy_of(task)
    late = bool(task.acks_late)
    if not late and policy.idempotent is not False:
        found.append(
            "a worker that dies during an attempt loses the task; if repeating the work is harmless, write "
            "acks_late=True, reject_on_worker_lost=True"
        )
    if late and policy.idempotent is False:
        found.append(
            "acks_late=True runs the task again when its worker dies, but the policy says idempotent=False; "
            "write acks_late=False"
        )
    if late and not task.reject_on_worker_lost:
        found.append(
            "acks_late=True alone loses tasks whose worker process is killed; write reject_on_worker_lost=True"
        )
    if policy.attempt_timeout is not None and not (task.soft_time_limit or task.app.conf.task_soft_time_limit):
        found.append(
            "Celery does not stop a running task at the policy's attempt_timeout; write "
            f"soft_time_limit={policy.attempt_timeout:g}"
        )
    visible, longest = _visibility_timeout(task), _longest_wait(policy)
    if visible is not None and longest > visible:
        found.append(
            f"a retry may wait {write_duration(longest)}, but the broker delivers a message again after "
            f"{write_duration(visible)}; raise visibility_timeout in broker_transport_options, or lower max_wait and "
            "max_retry_after"
        )
    return found


def _visibility_timeout(task: Any) -> float | None:
    """Return after how many seconds the broker delivers a waiting message again; None: it does not."""
    scheme = str(task.app.conf.broker_url or "").partition("://")[0].partition("+")[0]
    set_to = (task.app.conf.broker_transport_options or {}).get("visibility_timeout")
    return float(set_to) if set_to is not None and scheme in _VISIBILITY else _VISIBILITY.get(scheme)


def _longest_wait(policy: Policy) -> float:
    limits = (policy.max_wait, policy.max_retry_after, *(rule.max_wait for rule in policy.rules))
    longest = max(one or 0.0 for one in limits)
    if policy.max_wait is None or policy.max_retry_after is None:
        longest = policy.deadline or policy.backoff.raw(policy.attempts or 0)
    return longest if policy.deadline is None else min(longest, policy.deadline)

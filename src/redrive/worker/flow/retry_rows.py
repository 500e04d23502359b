"""Describe a work item that failed and will be retried as a row of the retry queue."""

from redrive.failures.redaction import redact
from redrive.flows.item import Item
from redrive.flows.waits import WaitsFor
from redrive.policies.backoff import Backoff
from redrive.policies.policy import Policy
from redrive.stores.records import FlowRecord, RetryRow, RetryStatus

# The largest number that a database column holds.
LARGEST = 2**62
LONGEST_REASON = 300


def retry_row(flow: FlowRecord, item: Item, status: RetryStatus, dependency: str | None) -> RetryRow:
    policy = item.policy
    timeouts = item.retries.timeouts if item.retries else 0
    timeout_limit = policy.timeout_retries
    backoff = _backoff(policy, item)
    return RetryRow(
        flow_id=flow.id,
        item=item.number,
        step=item.step,
        queue=flow.queue,
        status=status,
        # Counted from 0: the running attempt, or the next one while the item waits.
        attempt_number=item.attempt - (status == "dispatched"),
        max_retries=_max_retries(policy, attempts_before_redrive(item)),
        timeout_seconds=policy.attempt_timeout,
        timeout_retry_limit=None if timeout_limit is None else max(0, min(timeout_limit - timeouts, LARGEST)),
        backoff_kind=backoff.kind if backoff.base else "none",
        backoff_base_delay_ms=backoff.base * 1000,
        retry_kind=item.retry_kind,
        scheduled_at=item.attempt_began if item.retry_at is None else item.retry_at,
        timeout_at=item.timeout_at,
        delivery_token=item.delivery,
        definition=flow.definition,
        # It may be a URL with a password.
        dependency=redact(dependency) if dependency else "",
        waits_for=_waits_for(item) if status == "waiting" else "",
        reason=item.deferred[:LONGEST_REASON] if status == "waiting" else "",
        error_type=item.failures[-1].event.failure.type.removeprefix("builtins.") if item.failures else "",
        since=item.attempt_began if status == "dispatched" else item.waits[-1].at if item.waits else None,
    )


def _waits_for(item: Item) -> WaitsFor:
    if item.deferred:
        # Logs of earlier versions do not say.
        return item.held_by or "circuit"
    if item.retry_kind in ("snooze", "redrive"):
        return "snooze" if item.retry_kind == "snooze" else "redrive"
    asked = item.failures[-1].event.decision.because.retry_after if item.failures else None
    return "retry_after" if asked else "backoff"


def attempts_before_redrive(item: Item) -> int:
    """Attempts made before the last redrive, which renewed the allowance while attempts count on."""
    if item.retries is not None:
        begun = item.retries.attempts - (item.state == "waiting")
    else:
        begun = int(item.started_at is not None)
    return max(0, item.attempt - begun)


def _max_retries(policy: Policy, before_redrive: int) -> int | None:
    """The limit of retries, as far as one number can express it."""
    if policy.attempts is not None:
        return min(policy.attempts - 1 + before_redrive, LARGEST)
    limits = [rule.retries for rule in policy.rules]
    if policy.retry_on or not limits:
        return None
    known = [limit for limit in limits if limit is not None]
    return min(sum(known) + before_redrive, LARGEST) if len(known) == len(limits) else None


def _backoff(policy: Policy, item: Item) -> Backoff:
    """The backoff of the rule that answered the last failure."""
    if policy.rules and item.failures:
        rule = item.failures[-1].event.decision.because.rule
        for index, one in enumerate(policy.rules):
            if rule == f"rules[{index}]" and one.backoff is not None:
                return one.backoff
    return policy.backoff

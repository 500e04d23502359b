"""A work item that was tried and failed, as the retry queue shows it."""

from redrive.flows.history import Item
from redrive.policies.backoff import Backoff
from redrive.policies.policy import Policy
from redrive.stores.records import FlowRecord, RetryRow, RetryStatus

# What a database column holds.
MOST_SHOWN = 2**62


def retry_row(flow: FlowRecord, item: Item, status: RetryStatus) -> RetryRow:
    policy = item.policy
    timeouts = item.retries.timeouts if item.retries else 0
    timeout_limit = policy.timeout_retries
    backoff = _backoff(item)
    return RetryRow(
        flow_id=flow.id,
        item=item.number,
        step=item.step,
        queue=flow.queue,
        status=status,
        attempt_number=item.attempt - (status == "dispatched"),
        max_retries=_max_retries(policy, written_off(item)),
        timeout_seconds=policy.attempt_timeout,
        timeout_retry_limit=None if timeout_limit is None else max(0, min(timeout_limit - timeouts, MOST_SHOWN)),
        backoff_kind=backoff.kind if backoff.base else "none",
        backoff_base_delay_ms=backoff.base * 1000,
        retry_kind=item.retry_kind,
        scheduled_at=item.attempt_began if item.retry_at is None else item.retry_at,
        timeout_at=item.timeout_at,
        delivery_token=item.delivery,
    )


def written_off(item: Item) -> int:
    """Attempts made before a redrive: they are counted on, but the allowance began anew."""
    if item.retries is not None:
        begun = item.retries.attempts - (item.state == "waiting")
    else:
        begun = int(item.started_at is not None)
    return max(0, item.attempt - begun)


def _max_retries(policy: Policy, written_off: int) -> int | None:
    """Retries in all, as far as one number can say it."""
    if policy.attempts is not None:
        return min(policy.attempts - 1 + written_off, MOST_SHOWN)
    limits = [rule.retries for rule in policy.rules]
    return None if policy.retry_on or not limits else _sum([*limits, written_off])


def _sum(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return min(sum(known), MOST_SHOWN) if len(known) == len(limits) else None


def _backoff(item: Item) -> Backoff:
    """That of the rule which answered the last failure."""
    rule = item.failures[-1].event.decision.because.rule if item.failures else ""
    for index, one in enumerate(item.policy.rules):
        if rule == f"rules[{index}]" and one.backoff is not None:
            return one.backoff
    return item.policy.backoff

"""Checks the settings that a flow is started with, and makes the row that is stored."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from redrive.failures.duration import read_duration
from redrive.flows.retry_policy import Timeout
from redrive.flows.start_settings import check_concurrency_key, check_key, check_priority, check_queue
from redrive.flows.tags import write_tags
from redrive.policies.backoff import LONGEST_WAIT
from redrive.stores.records import NewFlow
from redrive.telemetry.traceparent import read_traceparent
from redrive.telemetry.tracing import current_traceparent


class SharedSettings(TypedDict, total=False):
    """How flows are started, whatever they run; many flows can share them."""

    queue: str
    """Which workers take the flow."""
    priority: int
    """Flows with a higher priority go first."""
    delay: Timeout | datetime | None
    """Begin later: seconds, a timedelta, text such as "2h", or a datetime."""
    traceparent: str | None
    """The W3C trace context that the flow's spans belong to; by default that of the current OpenTelemetry span."""
    concurrency_key: str | None
    """The flows of a queue with the same one, such as a tenant, take turns with others and share its limits per key."""
    tags: Mapping[str, str] | None
    """Names and texts to find flows by: {"tenant": "acme"}."""


class FlowSettings(SharedSettings, total=False):
    """How a flow is started, whatever it runs."""

    key: str | None
    """Starting again with the same key and input returns the same flow; with another input it is a KeyTakenError."""
    unique_for: Timeout | None
    """With a key: for how long after its start the same flow is returned; then the key may start a new flow."""
    debounce: Timeout | None
    """With a key: begin only once nobody has started it again for this time; each start replaces the input."""
    connection: Any
    """Your own connection to the store's database: the flow exists only if your transaction commits."""
    signal: tuple[str, Mapping[str, Any]] | None
    """A signal for the flow, whether it is new or has the key already: its name and its arguments."""


def new_flow(
    flow_id: str,
    now: float,
    definition: str,
    input: str,  # noqa: A002 - the name of the stored column
    *,
    key: str | None = None,
    queue: str = "default",
    priority: int = 0,
    delay: Any = None,
    traceparent: str | None = None,
    concurrency_key: str | None = None,
    tags: Mapping[str, str] | None = None,
    batch: str | None = None,
) -> NewFlow:
    """Return the row of a new flow; ValueError when a setting is invalid."""
    check_key(key)
    check_concurrency_key(concurrency_key)
    check_queue(queue)
    check_priority(priority)
    if traceparent is not None and (not isinstance(traceparent, str) or read_traceparent(traceparent) is None):
        raise ValueError(
            f"traceparent: {traceparent!r:.80} is not a W3C trace context; use text such as "
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        )
    return NewFlow(
        id=flow_id,
        definition=definition,
        input=input,
        created_at=now,
        start_at=_start_time(now, delay),
        queue=queue,
        priority=priority,
        key=key,
        traceparent=current_traceparent() if traceparent is None else traceparent,
        batch=batch,
        tags=write_tags(tags),
        concurrency_key=concurrency_key,
    )


def _start_time(now: float, delay: Any) -> float:
    if delay is None:
        return now
    if isinstance(delay, datetime):
        if delay.tzinfo is None:
            raise ValueError("delay: a datetime needs a time zone, such as datetime.UTC")
        start_at = max(now, delay.timestamp())
    else:
        start_at = now + read_duration(delay)
    if start_at - now > LONGEST_WAIT:
        raise ValueError("delay: a flow begins within ten years; use an earlier time")
    return start_at

"""What a flow is started with, whatever it runs: checked, and as it is stored."""

from datetime import datetime
from typing import Any, TypedDict

from redrive.determinism.ids import ordered_id
from redrive.failures.duration import read_duration
from redrive.flows.retry_policy import Timeout
from redrive.flows.values.json_form import is_storable
from redrive.policies.backoff import LONGEST_WAIT
from redrive.stores.queue_names import check_queue
from redrive.stores.records import NewFlow

LARGEST_PRIORITY = 2**31 - 1


class FlowSettings(TypedDict, total=False):
    """How a flow is started, whatever it runs; see `App.start`."""

    key: str | None
    queue: str
    priority: int
    delay: Timeout | datetime | None
    connection: Any


def new_flow(
    now: float,
    definition: str,
    input: str,  # noqa: A002 - what the flow is started with
    key: str | None,
    queue: str,
    priority: int,
    delay: Any,
) -> NewFlow:
    if key is not None and (not isinstance(key, str) or not key or len(key) > 500 or not is_storable(key)):
        raise ValueError("key: use a text of 1 to 500 characters, without NUL and unpaired surrogates")
    check_queue(queue)
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > LARGEST_PRIORITY:
        raise ValueError(
            f"priority: {priority!r} is not allowed; use a whole number up to {LARGEST_PRIORITY}, higher goes first"
        )
    if delay is None:
        start_at = now
    elif isinstance(delay, datetime):
        if delay.tzinfo is None:
            raise ValueError("delay: a datetime needs a time zone, such as datetime.UTC")
        start_at = max(now, delay.timestamp())
    else:
        start_at = now + read_duration(delay)
    if start_at - now > LONGEST_WAIT:
        raise ValueError("delay: a flow begins within ten years; use an earlier time")
    return NewFlow(
        id=ordered_id(now),
        definition=definition,
        input=input,
        created_at=now,
        start_at=start_at,
        queue=queue,
        priority=priority,
        key=key,
    )

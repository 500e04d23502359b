"""Lists, configures, pauses and resumes queues."""

from collections.abc import Mapping
from typing import Any, TypedDict

from redrive.client.flow_access import FlowAccess
from redrive.failures.duration import read_duration
from redrive.flows.messages import check_by_and_why
from redrive.flows.retry_policy import Timeout
from redrive.near_names import unknown_setting
from redrive.stores.queue_names import check_limit, check_queue
from redrive.stores.queues import SETTINGS, QueuePause, QueueRecord
from redrive.stores.rates import read_rate

SHORTEST_AGING, LONGEST_AGING = 0.001, 86_400.0 * 3650


class QueueChanges(TypedDict, total=False):
    """What is set for a queue in the whole fleet; None: nothing."""

    limit: int | None
    """How many of its flows may run at once."""
    per_key: int | None
    """How many of these may have the same concurrency key."""
    rate: str | None
    """How many of its flows may begin in which time, such as "100/m"."""
    key_rate: str | None
    """How many of its flows with the same concurrency key may begin in which time."""
    aging: Timeout | None
    """The time of waiting after which the priority of a flow rises by one, such as "10m"."""


def checked_changes(changes: Mapping[str, Any] | QueueChanges) -> dict[str, Any]:
    """Return the changes as they are stored; ValueError when one is invalid."""
    return {name: _checked(name, value) for name, value in changes.items()}


def _checked(name: str, value: Any) -> Any:
    if name in ("limit", "per_key"):
        check_limit(value, name)
    elif value is not None and name in ("rate", "key_rate"):
        try:
            read_rate(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from None
    elif value is not None:
        try:
            value = read_duration(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if not SHORTEST_AGING <= value <= LONGEST_AGING:
            raise ValueError(f"{name}: use a time from 1 ms to ten years, or None")
    return value


class QueueControl:
    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def records(self) -> list[QueueRecord]:
        return await self._flows.store.list_queues(self._flows.now())

    async def configure(self, queue: str, changes: Mapping[str, Any] | QueueChanges) -> None:
        check_queue(queue)
        if unknown := {name: value for name, value in changes.items() if name not in SETTINGS}:
            raise unknown_setting("app.configure_queue", unknown, SETTINGS)
        await self._flows.store.configure_queue(queue, checked_changes(changes))

    async def pause(self, queue: str, by: str, why: str) -> bool:
        check_queue(queue)
        check_by_and_why(by, why)
        return await self._flows.store.set_queue_pause(queue, QueuePause(at=self._flows.now(), by=by, why=why))

    async def resume(self, queue: str) -> bool:
        check_queue(queue)
        return await self._flows.store.set_queue_pause(queue, None)

"""What is asked of a store about the settings of queues, and about starts that share a key."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class QueueUse(NamedTuple):
    """How much of its limits and rates a queue, or a concurrency key in it, uses at this moment."""

    held: int
    """How many flows of the key are owned."""
    level: float | None
    """Up to which time the queue's rate has been used; see `redrive.stores.rates`."""
    key_level: float | None
    """The same for the rate of the key."""


NOT_USED = QueueUse(0, None, None)


class FlowControl(Protocol):
    async def configure_queue(self, queue: str, changes: Mapping[str, Any]) -> None:
        """Change these settings of a queue, by the names of the fields of QueueSettings; the others stay as they are.

        A rate that changes starts afresh.
        """
        ...

    async def queue_use(self, queue: str, key: str | None) -> QueueUse: ...

    async def release_key(self, flow_id: str) -> None:
        """Take the key from a flow, so that another one of its definition can have it."""
        ...

    async def replace_input(self, flow_id: str, text: str, start_at: float) -> bool:
        """Give a flow that was never claimed another input, and if it waits for its start another start.

        Return False, and change nothing, when it was claimed, has ended or does not exist.
        """
        ...

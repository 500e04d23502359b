"""Counts the flows of an open store, for metrics."""

from collections.abc import Callable

from redrive.determinism.clock import current_clock
from redrive.stores.interface import Store
from redrive.telemetry.queue_counts import Counts, QueueCounts, register


def count_flows(store: Store) -> Callable[[], None]:
    """Have the metrics of this process include the store's flows. Returns a function that stops it."""

    async def read() -> Counts:
        return {
            (queue.name, status): number
            for queue in await store.list_queues(current_clock().wall())
            for status, number in (("ready", queue.ready), ("waiting", queue.waiting), ("running", queue.running))
        }

    return register(QueueCounts(read))

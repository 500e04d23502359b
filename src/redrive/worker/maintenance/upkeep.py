"""What each worker does for all flows of the store, beside running its own."""

from collections.abc import Callable, Coroutine
from typing import Any

from redrive.stores.interface import Store
from redrive.worker.maintenance.batch_ender import end_batches
from redrive.worker.maintenance.lease_reaper import reap_leases
from redrive.worker.maintenance.pruner import prune_finished
from redrive.worker.settings import WorkerSettings


def upkeep(
    store: Store,
    settings: WorkerSettings,
    worker: str,
    on_flows_released: Callable[[], None],
    wall: Callable[[], float],
) -> list[Coroutine[Any, Any, None]]:
    """Return what runs until it is cancelled.

    worker: the name of this worker.
    """
    tasks: list[Coroutine[Any, Any, None]] = [
        reap_leases(store, settings.lease, on_flows_released, worker),
        end_batches(store, wall),
    ]
    if settings.keep_finished is not None:
        tasks.append(prune_finished(store, settings.keep_finished, wall))
    return tasks

"""Remove flows, and runs of flows that continued as new, that ended long ago."""

from collections.abc import Callable

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.stores.interface import Store
from redrive.worker.store_outages import log_outage

PRUNED_AT_ONCE = 500
PRUNE_EVERY = 60.0


async def prune_finished(store: Store, keep: float, now: Callable[[], float]) -> None:
    """Prune until cancelled, in batches, pausing after each for as long as it took so that others can write."""
    monotonic = SYSTEM_CLOCK.monotonic
    while True:
        finished_before, began = now() - keep, monotonic()
        try:
            for prune in (store.prune, store.prune_runs):
                while await prune(finished_before, PRUNED_AT_ONCE):
                    await SYSTEM_CLOCK.asleep_until(2 * monotonic() - began)
                    began = monotonic()
            await store.prune_batches(finished_before, PRUNED_AT_ONCE)
        except StoreUnavailableError as error:
            log_outage(store.address, error)
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PRUNE_EVERY)

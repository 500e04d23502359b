"""Remove flows, and runs of flows that continued as new, that ended long ago."""

from collections.abc import Awaitable, Callable

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.stores.interface import Store
from redrive.worker.store_outages import log_outage

PRUNED_AT_ONCE = 500
PRUNE_EVERY = 60.0


async def prune_finished(store: Store, keep: float, now: Callable[[], float]) -> None:
    """Prune until cancelled."""
    while True:
        finished_before = now() - keep
        try:
            await prune_until_done(store, finished_before)
            await _prune_until_done(store.prune_runs, finished_before)
            await store.prune_batches(finished_before, PRUNED_AT_ONCE)
        except StoreUnavailableError as error:
            log_outage(store.address, error)
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PRUNE_EVERY)


async def prune_until_done(store: Store, finished_before: float) -> int:
    """Prune flows; return how many."""
    return await _prune_until_done(store.prune, finished_before)


async def _prune_until_done(prune: Callable[[float, int], Awaitable[int]], before: float) -> int:
    """Prune in batches, pausing after each for as long as it took so that others can write."""
    monotonic = SYSTEM_CLOCK.monotonic
    pruned, began = 0, monotonic()
    while removed := await prune(before, PRUNED_AT_ONCE):
        pruned += removed
        await SYSTEM_CLOCK.asleep_until(2 * monotonic() - began)
        began = monotonic()
    return pruned

"""What a worker does now and then, in real time: show that it lives, take over from those that do not, tidy up."""

import asyncio
import logging
from collections.abc import Callable

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.stores.interface import Store
from redrive.worker.held_lease import HeldLease
from redrive.worker.settings import WorkerSettings
from redrive.worker.store_outages import store_is_away, store_is_back

log = logging.getLogger("redrive")

LONGEST_PAUSE = 0.5
PRUNED_AT_ONCE = 500
PRUNE_EVERY = 60.0


async def keep_lease(store: Store, held: HeldLease) -> None:
    """Renew the lease. LeaseLostError when it is lost, or when nobody answers for as long as it lasts."""
    renew_every, ask_again_after = held.seconds / 3, min(LONGEST_PAUSE, held.seconds / 4)
    monotonic, pause, is_lost = SYSTEM_CLOCK.monotonic, renew_every, False
    while True:
        await SYSTEM_CLOCK.asleep_until(min(monotonic() + pause, held.ends))
        asked = monotonic()
        try:
            # Whoever is cut off hears nothing; others have taken over by then.
            async with asyncio.timeout(max(0.0, held.ends - asked)):
                is_lost = not await store.renew(held.lease, held.seconds)
        except StoreUnavailableError as error:
            store_is_away(store.address, error)
            held.not_renewed = error
            pause, is_lost = ask_again_after, monotonic() >= held.ends
        except TimeoutError:
            is_lost = True
        else:
            store_is_back(store.address)
            pause = renew_every
            held.renewed(asked)
        if is_lost:
            raise held.lost()


async def take_over(store: Store, settings: WorkerSettings, work_found: Callable[[], None]) -> None:
    """End the leases of workers that are gone. That may wait for locks of others, so nothing may wait for it."""
    reap_every = min(LONGEST_PAUSE, settings.lease / 4)
    while True:
        try:
            for gone in await store.reap():
                log.warning("worker %s is gone; %d of its flows are handed on", gone.worker, gone.flows)
                work_found()
        except StoreUnavailableError as error:
            store_is_away(store.address, error)
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + reap_every)


async def prune_finished(store: Store, keep: float, now: Callable[[], float]) -> None:
    """Remove flows that finished long ago, a few at a time; between them others may write for as long."""
    monotonic = SYSTEM_CLOCK.monotonic
    while True:
        finished_before, began = now() - keep, monotonic()
        try:
            while await store.prune(finished_before, PRUNED_AT_ONCE):
                await SYSTEM_CLOCK.asleep_until(2 * monotonic() - began)
                began = monotonic()
        except StoreUnavailableError as error:
            store_is_away(store.address, error)
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PRUNE_EVERY)

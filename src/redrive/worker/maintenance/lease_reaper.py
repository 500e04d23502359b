"""Release the flows of workers whose lease has expired."""

import logging
from collections.abc import Callable

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.formatting.text import format_count
from redrive.stores.interface import Store
from redrive.worker.store_outages import log_outage

log = logging.getLogger("redrive")

LONGEST_PAUSE = 0.5


async def reap_leases(
    store: Store, lease_seconds: float, on_flows_released: Callable[[], None], own_name: str = ""
) -> None:
    """Reap until cancelled. This may wait for locks of other workers, so nothing may wait for it.

    own_name: the name of this worker, which a worker of this process that lost its lease had too.
    """
    reap_every = min(LONGEST_PAUSE, lease_seconds / 4)
    while True:
        try:
            for gone in await store.reap_leases():
                released = format_count(gone.flows, "flow")
                if gone.worker == own_name:
                    log.warning("the lease that this worker, %s, had lost is over; released %s", own_name, released)
                else:
                    log.warning("worker %s is gone; released %s", gone.worker, released)
                on_flows_released()
        except StoreUnavailableError as error:
            log_outage(store.address, error)
        await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + reap_every)

"""Renew a worker's lease until it ends."""

import asyncio

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.stores.interface import LeaseRenewer
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.store_outages import log_outage, log_recovery

LONGEST_PAUSE = 0.5


async def keep_lease(renewer: LeaseRenewer, address: str, held: HeldLease) -> None:
    """Renew the lease until cancelled. LeaseLostError when it is lost, or when the store does not answer in time.

    address: of the store, for log messages.
    """
    renew_every, ask_again_after = held.seconds / 3, min(LONGEST_PAUSE, held.seconds / 4)
    monotonic, pause, is_lost = SYSTEM_CLOCK.monotonic, renew_every, False
    while True:
        await SYSTEM_CLOCK.asleep_until(min(monotonic() + pause, held.ends))
        asked = monotonic()
        try:
            # A partitioned worker gets no answer: stop when the lease ends, since others take over then.
            async with asyncio.timeout(max(0.0, held.ends - asked)):
                is_lost = not await renewer.extend_lease(held.lease, held.seconds)
        except StoreUnavailableError as error:
            log_outage(address, error)
            held.not_renewed = error
            pause, is_lost = ask_again_after, monotonic() >= held.ends
        except TimeoutError:
            is_lost = True
        else:
            log_recovery(address)
            pause = renew_every
            if not is_lost:
                held.renewed(asked)
        if is_lost or held.is_lost:
            raise held.lost()

"""Keep this worker's lease: renew it, and know for how long the worker may still act."""

import asyncio

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError, StoreUnavailableError
from redrive.failures.redaction import redact
from redrive.stores.interface import Store
from redrive.stores.records import Lease
from redrive.worker.store_outages import log_outage, log_recovery

LONGEST_PAUSE = 0.5


class HeldLease:
    """A lease as its holder sees it, on the holder's own clock."""

    __slots__ = ("ends", "lease", "not_renewed", "seconds")

    def __init__(self, lease: Lease, seconds: float) -> None:
        """seconds: how long the lease lasts unless it is renewed."""
        self.lease = lease
        self.seconds = seconds
        self.renewed(SYSTEM_CLOCK.monotonic())

    def renewed(self, asked: float) -> None:
        """The store has renewed the lease; it was asked at this time."""
        self.ends = asked + self.seconds
        """On the monotonic clock: after this, nothing may be written or called."""
        self.not_renewed: StoreUnavailableError | None = None
        """Why the store has not renewed it since then."""

    def lost(self) -> LeaseLostError:
        """The error for a lease that has expired: another worker may own the flows, though nobody has said so yet."""
        why = redact(str(self.not_renewed)) if self.not_renewed is not None else "frozen, overloaded or cut off"
        return LeaseLostError(
            f"worker {self.lease.worker} lost its lease: it was not renewed within {self.seconds:g} s ({why}); "
            "another worker may have taken over its flows"
        )


async def keep_lease(store: Store, held: HeldLease) -> None:
    """Renew the lease until cancelled. LeaseLostError when it is lost, or when the store does not answer in time."""
    renew_every, ask_again_after = held.seconds / 3, min(LONGEST_PAUSE, held.seconds / 4)
    monotonic, pause, is_lost = SYSTEM_CLOCK.monotonic, renew_every, False
    while True:
        await SYSTEM_CLOCK.asleep_until(min(monotonic() + pause, held.ends))
        asked = monotonic()
        try:
            # A partitioned worker gets no answer: stop when the lease ends, since others take over then.
            async with asyncio.timeout(max(0.0, held.ends - asked)):
                is_lost = not await store.extend_lease(held.lease, held.seconds)
        except StoreUnavailableError as error:
            log_outage(store.address, error)
            held.not_renewed = error
            pause, is_lost = ask_again_after, monotonic() >= held.ends
        except TimeoutError:
            is_lost = True
        else:
            log_recovery(store.address)
            pause = renew_every
            held.renewed(asked)
        if is_lost:
            raise held.lost()

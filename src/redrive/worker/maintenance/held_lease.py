"""A worker's own view of its lease: how long it may still write and call."""

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError, StoreUnavailableError
from redrive.failures.redaction import redact
from redrive.stores.leases import Lease
from redrive.stores.worker_reports import HeldLoop


class HeldLease:
    """Tells whether the worker may still act, by its own clock. Safe to ask from any thread."""

    __slots__ = ("ends", "held_by", "held_loop", "is_lost", "lease", "not_renewed", "seconds")

    def __init__(self, lease: Lease, seconds: float, asked: float) -> None:
        """seconds: how long the lease lasts unless it is renewed. asked: when the store was asked for it."""
        self.lease = lease
        self.seconds = seconds
        self.ends = asked + seconds
        """When the lease ends, on the monotonic clock: after that, nothing may be written or called."""
        self.is_lost = False
        """Whether nothing may be written or called any more, whatever the store answers."""
        self.not_renewed: StoreUnavailableError | None = None
        """Why the last renewal failed; None after one that succeeded."""
        self.held_by = ""
        """What blocked the event loop until the lease was given up; "" if nothing did."""
        self.held_loop: HeldLoop | None = None
        """What blocked the event loop last, whether or not that cost the lease."""

    def renewed(self, asked: float) -> None:
        """Note that the store has renewed the lease; it was asked at the time `asked`."""
        self.ends = asked + self.seconds
        self.not_renewed = None

    def may_call(self) -> bool:
        """Whether work may be called now. Once False, it stays False: work that was not called by then is dropped."""
        if SYSTEM_CLOCK.monotonic() < self.ends and not self.is_lost:
            return True
        self.is_lost = True
        return False

    def lost(self) -> LeaseLostError:
        """Return the error for a lost lease, with the reason: another worker may own the flows by now."""
        self.is_lost = True
        if self.held_by:
            why = self.held_by
        elif self.not_renewed is not None:
            why = redact(str(self.not_renewed))
        else:
            why = "frozen, overloaded or cut off"
        return LeaseLostError(
            f"worker {self.lease.worker} lost its lease: it was not renewed within {self.seconds:g} s ({why}); "
            "another worker may have taken over its flows"
        )

"""A lease as its holder sees it: for how long it may still act, by its own clock."""

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.stores.errors import LeaseLost
from redrive.stores.records import Lease


class HeldLease:
    __slots__ = ("ends", "lease", "seconds")

    def __init__(self, lease: Lease, seconds: float) -> None:
        self.lease = lease
        self.seconds = seconds
        """How long it lasts unless it is renewed."""
        self.renewed(SYSTEM_CLOCK.monotonic())

    def renewed(self, asked: float) -> None:
        """The store has said so, when it was asked at that time."""
        self.ends = asked + self.seconds

    def check(self) -> None:
        """LeaseLost when its time is over: others have taken over, though nobody could say so yet."""
        if SYSTEM_CLOCK.monotonic() >= self.ends:
            raise self.lost()

    def lost(self) -> LeaseLost:
        return LeaseLost(
            f"worker {self.lease.worker} lost its lease: it was not renewed within {self.seconds:g} s "
            "(frozen, overloaded or cut off); another worker may have taken over its flows"
        )

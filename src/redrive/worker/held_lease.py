"""A lease as its holder sees it: for how long it may still act, by its own clock."""

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.redaction import redact
from redrive.stores.errors import LeaseLost, StoreUnavailable
from redrive.stores.records import Lease


class HeldLease:
    __slots__ = ("ends", "lease", "not_renewed", "seconds")

    def __init__(self, lease: Lease, seconds: float) -> None:
        self.lease = lease
        self.seconds = seconds
        """How long it lasts unless it is renewed."""
        self.renewed(SYSTEM_CLOCK.monotonic())

    def renewed(self, asked: float) -> None:
        """The store has said so, when it was asked at that time."""
        self.ends = asked + self.seconds
        self.not_renewed: StoreUnavailable | None = None
        """What the store has said since then, if it refused."""

    def check(self) -> None:
        """LeaseLost when its time is over: others have taken over, though nobody could say so yet."""
        if SYSTEM_CLOCK.monotonic() >= self.ends:
            raise self.lost()

    def lost(self) -> LeaseLost:
        why = redact(str(self.not_renewed)) if self.not_renewed is not None else "frozen, overloaded or cut off"
        return LeaseLost(
            f"worker {self.lease.worker} lost its lease: it was not renewed within {self.seconds:g} s ({why}); "
            "another worker may have taken over its flows"
        )

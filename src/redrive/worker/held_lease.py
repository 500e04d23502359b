"""A lease as its holder sees it: for how long it may still act, by its own clock."""

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError, StoreUnavailableError
from redrive.failures.redaction import redact
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
        self.not_renewed: StoreUnavailableError | None = None
        """What the store has said since then, if it refused."""

    def check(self) -> None:
        """LeaseLostError when its time is over: others have taken over, though nobody could say so yet."""
        if SYSTEM_CLOCK.monotonic() >= self.ends:
            raise self.lost()

    def lost(self) -> LeaseLostError:
        why = redact(str(self.not_renewed)) if self.not_renewed is not None else "frozen, overloaded or cut off"
        return LeaseLostError(
            f"worker {self.lease.worker} lost its lease: it was not renewed within {self.seconds:g} s ({why}); "
            "another worker may have taken over its flows"
        )

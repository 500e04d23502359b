"""Evidence that a flow takes its workers down. A store keeps it with the flow, as text that only workers read.

A lost worker alone is no evidence against the flows that it ran. Two things are: the worker had recorded that it was
loading this flow and no other, or the flow blocked the event loop for a whole lease.
"""

import msgspec

from redrive.errors import CrashLoopError

SUSPECT = 2
"""A flow that lost this many owners in a row is loaded alone: its own code may be killing them."""
MOST = 3
"""With this much evidence against it, a flow is not run any more."""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    alone: int = 0
    """Owners in a row that were lost while they loaded this flow alone."""
    held: int = 0
    """How often the flow's own code held its worker's event loop for a whole lease. A redrive resets it."""
    item: int | None = None
    """The item whose attempt held the event loop when the last owner was lost."""
    where: str = ""
    """What held the event loop last, and where in the code."""
    by_code: bool = False
    """Whether it was the flow's own code that held the event loop when the last owner was lost."""

    @property
    def is_against_code(self) -> bool:
        """Whether there is evidence against the flow's own code, not only against an attempt."""
        return bool(self.alone or self.held)

    def lost_alone(self) -> "Evidence":
        """Return the evidence to record before loading this flow alone: it applies if the owner is lost meanwhile."""
        return msgspec.structs.replace(self, alone=self.alone + 1, item=None, by_code=False)

    def held_loop(self, item: int | None, where: str) -> "Evidence":
        """Return the evidence after this flow, or the attempt of this item, blocked the owner's event loop."""
        by_code = item is None
        return msgspec.structs.replace(self, held=self.held + by_code, item=item, where=where, by_code=by_code)

    def after_loading(self) -> "Evidence":
        """Return the evidence after the flow was loaded and its worker survived."""
        return msgspec.structs.replace(self, alone=0, item=None, by_code=False)

    def verdict(self) -> CrashLoopError | None:
        """Return why the flow's code must not run any more; None if it may."""
        if self.held >= MOST:
            return CrashLoopError(
                f"the flow's code blocked its worker's event loop for a whole lease {self.held} times, most recently "
                f"{self.where}; move slow or blocking code into an action that is a plain `def`"
            )
        if self.alone >= MOST:
            return CrashLoopError(
                f"{self.alone} workers in a row died, or froze, while they loaded this flow and no other: the flow's "
                "code kills its process, or blocks it for longer than a lease"
            )
        return None

    def write(self) -> str:
        """Return the evidence as a store keeps it; "" if there is none."""
        return "" if self == NONE else msgspec.json.encode(self).decode()


NONE = Evidence()


def read_evidence(blame: str | None) -> Evidence:
    return msgspec.json.decode(blame, type=Evidence) if blame else NONE

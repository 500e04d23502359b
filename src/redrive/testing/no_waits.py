"""The real clock, with every wait skipped and noted."""

from redrive.determinism import event_loops
from redrive.determinism.clock import SystemClock


class NoWaits(SystemClock):
    """Time runs as it does; only the waits between attempts take none of it."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        """The waits that were skipped, in seconds."""

    def sleep_until(self, when: float) -> None:
        self.waits.append(max(0.0, when - self.monotonic()))

    async def asleep_until(self, when: float) -> None:
        self.sleep_until(when)
        await event_loops.sleep_function()(0)

"""The real clock, with waits skipped and recorded."""

from redrive.determinism import event_loops
from redrive.determinism.clock import SystemClock


class NoWaits(SystemClock):
    """The system clock, except that waits between attempts take no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        """The waits that were skipped, in seconds."""

    def sleep_until(self, when: float) -> None:
        self.waits.append(max(0.0, when - self.monotonic()))

    async def asleep_until(self, when: float) -> None:
        self.sleep_until(when)
        await event_loops.sleep_function()(0)

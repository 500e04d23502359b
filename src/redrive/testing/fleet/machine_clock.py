"""The clock of one simulated machine."""

from redrive.determinism.clock import SystemClock
from redrive.testing.fleet.machine_loop import MachineLoop
from redrive.testing.fleet.world import World


class MachineClock(SystemClock):
    """Runs with the world's time. Its time of day may be wrong, and may be set."""

    def __init__(self, world: World, loop: MachineLoop) -> None:
        self.ahead = 0.0
        """Seconds by which its time of day is ahead."""
        self._world = world
        self._loop = loop
        self.monotonic = world.time  # time passes on all machines alike

    def wall(self) -> float:
        return self._world.wall() + self.ahead

    def sleep_until(self, when: float) -> None:
        """Hold the machine's only thread until then, as code does that blocks its event loop."""
        self._world.block(self._loop, when)

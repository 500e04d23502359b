"""Decides, by a seed, what befalls the machines of a fleet and when."""

from collections.abc import Callable, Sequence

import msgspec

from redrive.determinism.dice import Random
from redrive.testing.fleet.machine import Machine
from redrive.testing.fleet.world import World

MOST = 1000


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How much goes wrong in a simulated fleet. Numbers of events are means per history; 0 turns a fault off."""

    kills: float = 1.0
    """Workers killed: at any await, or right before or after a commit. Another process starts a little later."""
    freezes: float = 1.0
    """Workers that stand still for up to three leases and then go on, as after SIGSTOP."""
    stops: float = 0.4
    """Workers told to stop, which may let their attempts finish."""
    outages: float = 0.3
    """Times for which the store is away, for all."""
    partitions: float = 0.4
    """Times for which one worker gets no answers."""
    clock_jumps: float = 0.3
    """Workers whose time of day is set, by up to a minute either way."""
    slow_networks: float = 0.6
    """How likely requests and answers take time, in a history."""
    losses: float = 0.4
    """How likely single requests and answers are lost, in a history with a slow network."""
    lost_wakes: float = 0.3
    """How likely workers are not told that there is work, in a history, and find it by polling."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value: object = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
                raise ValueError(f"Faults({field}={value!r}): use a number from 0 to {MOST}")


PEACE = Faults(
    kills=0, freezes=0, stops=0, outages=0, partitions=0, clock_jumps=0, slow_networks=0, losses=0, lost_wakes=0
)

MOST_CALLBACKS = 80
MOST_COMMITS = 6
FEW = 4
CALM_BOOTS = 10
LATENCIES = (0.002, 0.02, 0.2, 0.6)
LOSSES = (0.02, 0.1)


class Fate:
    """Plans the faults of one history."""

    def __init__(self, world: World, machines: Sequence[Machine], faults: Faults, lease: float) -> None:
        self._world = world
        self._machines = machines
        self._workers = [machine for machine in machines if machine.has_worker]
        self._faults = faults
        self._lease = lease
        self._is_calm = False

    def plan(self, span: float) -> None:
        """Let things go wrong for this many seconds."""
        random, faults = self._world.random, self._faults
        self._plan_networks(random)
        kinds: list[tuple[float, Callable[[], None]]] = [
            (faults.kills, self._kill),
            (faults.freezes, self._freeze),
            (faults.stops, self._stop),
            (faults.outages, self._take_store_away),
            (faults.partitions, self._cut_off),
            (faults.clock_jumps, self._set_clock),
        ]
        for mean, happen in kinds:
            for _ in range(_count(random, mean)):
                self._world.at(span * random.random(), self._let, happen)
        self._world.at(span, self.calm)

    def calm(self) -> None:
        """Nothing goes wrong any more: all machines run, and the network works."""
        if self._is_calm:
            return
        self._is_calm = True
        self._world.story.tell("fate", "lets all go well")
        for machine in self._machines:
            link = machine.link
            link.latency, link.losses, link.lost_wakes = min(link.latency, LATENCIES[0]), 0.0, 0.0
            link.is_cut = link.is_refused = False
            link.crash_at = link.after_commit = None
            machine.loop.fuse = 0
            machine.thaw()
        self._boot_all(CALM_BOOTS)

    def _boot_all(self, again: int) -> None:
        """Start all machines that are down; some may still be on their way down."""
        for machine in self._machines:
            machine.boot()
        if again:
            self._world.after(1.0, self._boot_all, again - 1)

    def _let(self, happen: Callable[[], None]) -> None:
        if not self._is_calm:
            happen()

    def _plan_networks(self, random: Random) -> None:
        faults = self._faults
        slow = random.random() < faults.slow_networks
        lossy = slow and random.random() < faults.losses
        latency, losses = random.choice(LATENCIES), random.choice(LOSSES)
        lost_wakes = random.random() if random.random() < faults.lost_wakes else 0.0
        for machine in self._machines:
            link = machine.link
            link.latency = latency if slow else 0.0
            link.losses = losses if lossy else 0.0
            link.lost_wakes = lost_wakes

    def _worker(self) -> Machine:
        return self._world.random.choice(self._workers)

    def _kill(self) -> None:
        random, machine = self._world.random, self._worker()
        how = random.random()
        if how < 0.3:
            self._killed(machine)
        elif how < 0.7:
            self._light_fuse(machine, lambda: self._killed(machine), MOST_CALLBACKS)
        else:
            machine.link.crash_at = machine.link.commits + random.randint(1, MOST_COMMITS), random.random() < 0.5
            # It starts again whenever that was.
            self._world.after(2 * self._lease, self._let, machine.boot)

    def _killed(self, machine: Machine) -> None:
        machine.kill()
        self._world.after(self._world.random.random() * 2 * self._lease, self._let, machine.boot)

    def _freeze(self) -> None:
        random, machine = self._world.random, self._worker()
        seconds = 3 * self._lease * random.random()
        how = random.random()
        if how < 0.3:
            machine.freeze(seconds)
        elif how < 0.6:
            self._light_fuse(machine, lambda: machine.freeze(seconds), MOST_CALLBACKS)
        else:
            # Between a commit and what follows from it.
            commit = machine.link.commits + random.randint(1, MOST_COMMITS)
            machine.link.after_commit = commit, lambda: self._light_fuse(machine, lambda: machine.freeze(seconds), FEW)

    def _light_fuse(self, machine: Machine, happen: Callable[[], None], most: int) -> None:
        """Let it happen after a few callbacks of the machine."""
        machine.loop.on_fuse = happen
        machine.loop.fuse = self._world.random.randint(1, most)

    def _stop(self) -> None:
        machine = self._worker()
        machine.stop()
        self._world.after(self._lease * self._world.random.random(), self._let, machine.boot)

    def _take_store_away(self) -> None:
        self._world.story.tell("fate", "takes the store away")
        self._refuse(True)
        self._world.after(1.5 * self._lease * self._world.random.random(), self._refuse, False)

    def _refuse(self, refused: bool) -> None:
        for machine in self._machines:
            machine.link.is_refused = refused and not self._is_calm

    def _cut_off(self) -> None:
        machine = self._worker()
        self._world.story.tell("fate", f"cuts {machine.name} off")
        machine.link.is_cut = True
        self._world.after(1.5 * self._lease * self._world.random.random(), self._connect, machine)

    def _connect(self, machine: Machine) -> None:
        machine.link.is_cut = False

    def _set_clock(self) -> None:
        random, machine = self._world.random, self._worker()
        ahead = random.choice((-60.0, -3.0, -0.5, 0.5, 3.0, 60.0)) * random.random()
        self._world.story.tell("fate", f"sets the clock of {machine.name} {ahead:+.3f} s off")
        machine.set_clock(ahead)


def _count(random: Random, mean: float) -> int:
    """How many events: any number, with this mean."""
    count = 0
    while mean > 0 and random.random() < mean / (1.0 + mean):
        count += 1
    return count

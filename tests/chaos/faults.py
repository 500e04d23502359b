"""The faults of a storm, drawn from seeded dice: what happens to whom, when, and for how long."""

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.chaos.network import Fault, Network
from tests.chaos.processes import Fleet, ManagedProcess
from tests.chaos.worker import set_clock
from tests.postgres_server import PostgresServer

WEIGHTS = {
    "kill": 30,
    "freeze": 20,
    "stop": 8,
    "kill_other": 6,
    "kill_server": 2,
    "restart_server": 2,
    "partition": 12,
    "cut": 10,
    "delay": 5,
    "set_clock": 5,
    "fill_disk": 4,
}
"""How often each fault happens, relative to the others."""
PARTITIONS: tuple[Fault, ...] = ("drop", "drop_answers", "drop_requests")


class Storm:
    """Breaks things until cancelled. `calm` mends everything again."""

    def __init__(
        self,
        fleet: Fleet,
        dice: random.Random,
        *,
        lease: float,
        pause: float,
        server: PostgresServer | None,
        network: Network | None,
        disk: Path | None = None,
        without: tuple[str, ...] = (),
    ) -> None:
        """pause: seconds between two faults, on average. server, network: None for SQLite.

        disk: a small file system with nothing but the store on it, which is filled; None where there is none.
        """
        self._fleet = fleet
        self._dice = dice
        self._lease = lease
        self._pause = pause
        self._server = server
        self._network = network
        self._ballast = None if disk is None else disk / "ballast"
        self.done: Counter[str] = Counter()
        """How often each fault happened."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._server_busy = asyncio.Lock()
        self._busy: set[str] = set()
        faults: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "stop": self._stop,
            "set_clock": self._set_clock,
        }
        if fleet.others:
            faults["kill_other"] = self._kill_other
        if server is not None:
            faults |= {"kill_server": self._kill_server, "restart_server": self._restart_server}
        if network is not None:
            faults |= {"partition": self._partition, "cut": self._cut, "delay": self._delay}
        if self._ballast is not None:
            faults["fill_disk"] = self._fill_disk
        self._faults = {name: do for name, do in faults.items() if name not in without}

    async def rage(self) -> None:
        names = list(self._faults)
        weights = [WEIGHTS[name] for name in names]
        try:
            while True:
                await asyncio.sleep(self._dice.expovariate(1 / self._pause))
                self._start_again()
                name = self._dice.choices(names, weights)[0]
                self.done[name] += 1
                task = asyncio.create_task(self._run(self._faults[name]))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
        finally:
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _run(self, fault: Callable[[], Awaitable[None]]) -> None:
        await fault()

    async def calm(self) -> None:
        """Mend the network and the clocks, and have every process run."""
        if self._network is not None:
            self._network.heal()
        for clock in self._fleet.clocks:
            set_clock(clock, 0.0)
        if self._ballast is not None:
            self._ballast.unlink(missing_ok=True)
        if self._server is not None and not self._server.running:
            await asyncio.to_thread(self._server.start)
        for process in self._start_again():
            await asyncio.to_thread(process.wait_until_ready)

    # Processes

    def _start_again(self) -> list[ManagedProcess]:
        """Start what has ended by itself, as a supervisor would: a worker that finds no database gives up."""
        processes = (*self._fleet.workers, *self._fleet.others)
        ended = [process for process in processes if process.name not in self._busy and not process.is_running]
        for process in ended:
            process.reap()
            process.start()
        return ended

    def _pick(self, processes: list[ManagedProcess]) -> ManagedProcess | None:
        """A process to which nothing is happening."""
        free = [process for process in processes if process.name not in self._busy and process.is_running]
        return self._dice.choice(free) if free else None

    async def _kill(self) -> None:
        await self._replace(self._pick(self._fleet.workers), signal.SIGKILL)

    async def _stop(self) -> None:
        await self._replace(self._pick(self._fleet.workers), signal.SIGTERM)

    async def _kill_other(self) -> None:
        await self._replace(self._pick(self._fleet.others), signal.SIGKILL)

    async def _replace(self, process: ManagedProcess | None, how: signal.Signals) -> None:
        if process is None:
            return
        away = self._dice.uniform(0, 0.5)
        self._busy.add(process.name)
        try:
            process.signal(how)
            await asyncio.to_thread(process.reap)
            await asyncio.sleep(away)
            process.start()
        finally:
            self._busy.discard(process.name)

    async def _freeze(self) -> None:
        process = self._pick(self._fleet.workers)
        seconds = self._dice.choice((0.2, 0.9, 1.1, 1.5, 2.5)) * self._lease
        if process is None:
            return
        self._busy.add(process.name)
        try:
            process.freeze()
            await asyncio.sleep(seconds)
            process.thaw()
        finally:
            self._busy.discard(process.name)

    async def _set_clock(self) -> None:
        clock = self._dice.choice(self._fleet.clocks)
        # Machines that share a database keep their clocks in step, up to seconds: what a worker whose clock is an hour
        # ahead leaves behind is due an hour later for the others.
        jumps = (-5.0, 0.0, 5.0) if self._network is not None else (-3600.0, -5.0, 0.0, 5.0, 3600.0)
        set_clock(clock, self._dice.choice(jumps))

    # The database and the way to it

    async def _fill_disk(self) -> None:
        seconds = self._dice.uniform(0.1, 1.5 * self._lease)
        assert self._ballast is not None
        await asyncio.to_thread(fill, self._ballast)
        await asyncio.sleep(seconds)
        self._ballast.unlink(missing_ok=True)

    async def _kill_server(self) -> None:
        await self._server_away(lambda server: server.kill())

    async def _restart_server(self) -> None:
        await self._server_away(lambda server: server.stop())

    async def _server_away(self, end: Callable[[PostgresServer], None]) -> None:
        seconds = self._dice.uniform(0.1, 1.5 * self._lease)
        assert self._server is not None
        async with self._server_busy:
            await asyncio.to_thread(end, self._server)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self._server.start)

    async def _partition(self) -> None:
        await self._break_link(self._dice.choice(PARTITIONS), self._dice.uniform(0.1, 2.0) * self._lease)

    async def _delay(self) -> None:
        await self._break_link("delay", self._dice.uniform(0.5, 2.0) * self._lease, self._dice.uniform(0.01, 0.3))

    async def _cut(self) -> None:
        assert self._network is not None
        self._network.do(self._dice.randrange(len(self._fleet.workers)), "cut")

    async def _break_link(self, fault: Fault, seconds: float, delay: float = 0.0) -> None:
        assert self._network is not None
        link = self._dice.randrange(len(self._fleet.workers))
        self._network.do(link, fault, delay)
        await asyncio.sleep(seconds)
        self._network.do(link, "heal")


def fill(ballast: Path) -> None:
    """Write until there is no space left."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(2**20)) == 2**20:
            pass

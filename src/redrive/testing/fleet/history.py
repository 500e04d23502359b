"""One history of a simulated fleet, from its seed to what was found."""

import asyncio
import contextlib
import itertools
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator

from redrive.determinism.clock import replace_system_time
from redrive.determinism.dice import seeded_random
from redrive.determinism.ids import replace_tokens
from redrive.stores.records import FINISHED
from redrive.testing.fleet.checks import check_rest, check_settled
from redrive.testing.fleet.effects import Effects
from redrive.testing.fleet.fate import Fate, Faults
from redrive.testing.fleet.findings import Findings
from redrive.testing.fleet.fleet_runner import HandleHttp
from redrive.testing.fleet.machine import FleetApp, Machine
from redrive.testing.fleet.server import Server
from redrive.testing.fleet.world import Spinning, World
from redrive.worker.settings import WorkerSettings

SPAN = 8.0
"""Seconds for which things go wrong."""
PATIENCE = 180.0
"""Seconds after that in which every flow must have ended."""
ASIDE = 3.0
"""Seconds in which workers must have put everything aside once all flows have ended: one that did not get the answer
to its last commit asks again, up to a second later, and may notice a lost answer only then."""
LEASE = 2.0
LEAVING_ROUNDS = 20
Visit = Callable[[FleetApp], Awaitable[None]]


class History:
    """A world with machines, one store, clients that visit, and a fate that is drawn from the seed."""

    def __init__(
        self,
        seed: int | str,
        faults: Faults,
        *,
        workers: int = 3,
        settings: WorkerSettings | None = None,
        known: frozenset[str] = frozenset(),
        handle_http: HandleHttp | None = None,
    ) -> None:
        """known: kinds of findings that are known, and do not count."""
        self.seed = seed
        self.world = World(seed)
        self.findings = Findings(known)
        self.server = Server()
        self.story = self.world.story
        self.effects = Effects(self.server.ledger, self.findings, self.story)
        self._guests: dict[int, tuple[Machine, int]] = {}
        """Clients that are still there or yet to come: where, and in which life of the machine."""
        self._guest_numbers = itertools.count()
        settings = settings or WorkerSettings(lease=LEASE, poll=1.0, grace=0.5)
        names = [f"w{number}" for number in range(1, workers + 1)]
        self.machines = [
            Machine(
                name,
                self.world,
                self.server,
                settings,
                self.effects,
                self.findings,
                worker=has,
                handle_http=handle_http,
            )
            for name, has in [*((name, True) for name in names), ("client", False)]
        ]
        self.workers = self.machines[:-1]
        self.client = self.machines[-1]
        self._fate = Fate(self.world, self.machines, faults, settings.lease)

    def visit(self, at: float, machine: Machine, visit: Visit) -> None:
        """Have a client do something at this time, in the process of that machine; it dies with the machine."""
        number = next(self._guest_numbers)
        self._guests[number] = machine, 0
        self.world.at(at, self._arrive, number, machine, visit)

    def _arrive(self, number: int, machine: Machine, visit: Visit) -> None:
        if not machine.is_up:
            # The client waits outside until the machine runs.
            self.world.after(0.5, self._arrive, number, machine, visit)
            return
        self._guests[number] = machine, machine.lives

        async def stay(app: FleetApp) -> None:
            try:
                await visit(app)
            except Exception as error:  # noqa: BLE001 - a client that fails is a finding
                if not app.is_closing:
                    self.findings.add("a client failed", "".join(traceback.format_exception(error)))
            finally:
                self._guests.pop(number, None)

        machine.run(lambda app: asyncio.get_running_loop().create_task(stay(app)))

    def _has_guests(self) -> bool:
        return any(not life or (machine.is_up and machine.lives == life) for machine, life in self._guests.values())

    def run(self, span: float = SPAN, patience: float = PATIENCE) -> "History":
        """Live through the history, and check it."""
        world = self.world
        tokens = seeded_random(f"tokens {self.seed}")
        with (
            replace_system_time(world.time, world.wall),
            replace_tokens(lambda: f"{tokens.getrandbits(128):032x}"),
            self._listening(),
        ):
            for machine in self.machines:
                machine.boot()
            self._fate.plan(span)
            try:
                world.run(self._has_settled, span)
                self._fate.calm()
                self._settle(world.now + patience)
                check_settled(self.server, self.findings)
                if not self.findings.all:
                    check_rest(self.server, self.workers, self.findings)
            except Spinning as spinning:
                self.findings.add("spinning", str(spinning))
            except Exception as error:  # noqa: BLE001 - told with its seed
                self.findings.add("an error in the store or the checker", "".join(traceback.format_exception(error)))
            finally:
                self._leave()
        return self

    def _settle(self, until: float) -> None:
        """Wait until all flows have ended, and workers have put everything aside."""
        world = self.world
        while world.run(self._has_settled, until):
            world.run(lambda: bool(self.findings.all), world.now + ASIDE)
            # A request of someone who is dead may have come in since.
            if self._has_settled():
                if open_flows := self._open():
                    self.findings.add("stuck", f"flows that nothing wakes: {open_flows}")
                return
        self.findings.add("stuck", f"at {world.now:.0f} s flows have not ended: {self._open()}")

    def _has_settled(self) -> bool:
        if self.findings.all:
            return True
        data = self.server.data
        return not data.claimable and not any(data.owned.values()) and not self._has_guests()

    def _open(self) -> str:
        flows = self.server.data.flows.values()
        return ", ".join(f"{flow.id} is {flow.status}" for flow in flows if flow.status not in FINISHED)

    def _leave(self) -> None:
        """End everything that still runs."""
        world, length = self.world, len(self.story.lines)
        with contextlib.suppress(Spinning):
            for _ in range(LEAVING_ROUNDS):
                if sum(machine.leave() for machine in self.machines) == 0:
                    break
                world.run(lambda: False, world.now + 1.0)
        for machine in self.machines:
            machine.close()
        del self.story.lines[length:]

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Take the engine's log into the story; errors in it are findings."""
        log, handler = logging.getLogger("redrive"), _Listener(self)
        before = log.propagate, log.level, log.handlers[:]
        log.propagate, log.handlers = False, [handler]
        log.setLevel(logging.WARNING)
        try:
            yield
        finally:
            log.propagate, log.handlers = before[0], before[2]
            log.setLevel(before[1])


class _Listener(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._history.story.tell("log", text)
        if "the worker failed and starts again" in text or "a callback after" in text or "could not be" in text:
            self._history.findings.add("an error in the engine's log", text)

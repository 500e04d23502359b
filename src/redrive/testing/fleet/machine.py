"""One simulated machine: a process with an app, which can be killed, frozen, stopped and started again."""

import asyncio
import contextvars
import traceback
from collections.abc import Callable
from typing import cast

from redrive.calls.scope import CURRENT, UNOWNED
from redrive.client.app import App
from redrive.determinism.clock import put_clock
from redrive.determinism.dice import put_dice
from redrive.determinism.ids import ordered_id
from redrive.runners.attempt import Attempt
from redrive.runners.outcome_listener import OutcomeListener
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.testing.fleet.effects import Effects
from redrive.testing.fleet.findings import Findings
from redrive.testing.fleet.fleet_runner import FleetRunner, HandleHttp
from redrive.testing.fleet.machine_clock import MachineClock
from redrive.testing.fleet.machine_loop import MachineLoop
from redrive.testing.fleet.network import Link, NetworkStore
from redrive.testing.fleet.server import Server
from redrive.testing.fleet.world import World
from redrive.worker.make_runner import MakeRunner
from redrive.worker.settings import WorkerSettings
from redrive.worker.store_outages import forget_outage
from redrive.worker.worker import Worker


class FleetApp(App):
    """An app whose worker is watched."""

    def __init__(
        self,
        store: Store,
        worker: bool,
        settings: WorkerSettings,
        runner: MakeRunner,
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self.made_ids: list[str] = []
        """The ids of flows that were or should have been started here, in order."""
        super().__init__(store, worker, settings, self._make_id)
        self._runner = runner
        self._on_fault = on_fault

    def _new_worker(self) -> Worker:
        return Worker(
            self.store,
            self.settings,
            self._results.flow_ended,
            self._dependencies,
            runner=self._runner,
            on_fault=self._on_fault,
        )

    def _make_id(self, now: float) -> str:
        self.made_ids.append(ordered_id(now))
        return self.made_ids[-1]

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def current_worker(self) -> Worker | None:
        return self._worker


class Machine:
    """A process and what befalls it. Each life has an event loop and an app of its own."""

    def __init__(
        self,
        name: str,
        world: World,
        server: Server,
        settings: WorkerSettings,
        effects: Effects,
        findings: Findings,
        *,
        worker: bool = True,
        handle_http: HandleHttp | None = None,
    ) -> None:
        self.name = name
        self.link = Link()
        self.has_worker = worker
        self.ahead = 0.0
        """Seconds by which its time of day is ahead."""
        self.is_up = False
        self.app: FleetApp
        self.loop: MachineLoop
        self.clock: MachineClock
        self.lives = 0
        self._world = world
        self._server = server
        self._settings = settings
        self._effects = effects
        self._findings = findings
        self._handle_http = handle_http
        self._past: list[tuple[MachineLoop, NetworkStore]] = []
        """The loops of all its lives."""
        self._stopping: asyncio.Event
        self._context: contextvars.Context
        self._frozen = 0

    def boot(self) -> None:
        """Start a new process."""
        if self.is_up:
            return
        self.lives += 1
        self.is_up = True
        world = self._world
        loop = self.loop = MachineLoop(world.time, self._saw_error)
        clock = self.clock = MachineClock(world, loop)
        clock.ahead = self.ahead
        store = NetworkStore(world, self._server, self.link, loop, self.name)
        store.kill = self.kill
        self._past.append((loop, store))
        self._context = contextvars.Context()
        self._context.run(self._furnish, store)
        world.loops.append(loop)
        world.story.tell("fate", f"starts {self.name}")
        self._context.run(loop.create_task, self._live(self.app, self._stopping))

    def _furnish(self, store: NetworkStore) -> None:
        put_clock(self.clock)
        put_dice(self._world.random.random)
        CURRENT.set(UNOWNED)
        self._stopping = asyncio.Event()

        def runner(listener: OutcomeListener, settings: WorkerSettings, *may_call: Callable[[], bool]) -> Runner:
            return FleetRunner(listener, settings, self._saw_call, self._handle_http, *may_call)

        self.app = FleetApp(cast("Store", store), self.has_worker, self._settings, runner, self._saw_fault)

    async def _live(self, app: App, stopping: asyncio.Event) -> None:
        async with app:
            await stopping.wait()
        self._end("has stopped")

    def run(self, work: Callable[[FleetApp], "asyncio.Task[None] | None"]) -> None:
        """Do something on this machine, in its own loop and context."""
        self.loop.call_soon(work, self.app, context=self._context)

    # What befalls it

    def kill(self) -> None:
        """End the process as kill -9 does."""
        if self.is_up:
            self.loop.hold()
            # Code that blocks at this moment returns some day; nothing that it does counts.
            self._past[-1][1].is_gone = True
            self._end("is dead")

    def _end(self, how: str) -> None:
        self.is_up = False
        self._frozen = 0
        self._world.loops.remove(self.loop)
        self._world.story.tell("fate", f"{self.name} {how}")

    def stop(self) -> None:
        """Ask the process to end; it may let its attempts finish first."""
        if self.is_up:
            self._world.story.tell("fate", f"stops {self.name}")
            self.loop.call_soon(self._stopping.set, context=self._context)

    def freeze(self, seconds: float) -> None:
        """Let the process stand still, as SIGSTOP or a long pause of a virtual machine does."""
        if self.is_up and not self._frozen:
            self._frozen = life = self.lives
            self.loop.hold()
            self._world.story.tell("fate", f"freezes {self.name} for {seconds:.3f} s")
            self._world.after(seconds, self.thaw, life)

    def thaw(self, life: int | None = None) -> None:
        if self._frozen and life in (None, self._frozen):
            self._frozen = 0
            self.loop.let_go()
            self._world.story.tell("fate", f"{self.name} goes on")
            self.loop.queue_due(self._world.now)

    def set_clock(self, ahead: float) -> None:
        self.ahead = self.clock.ahead = ahead

    # What is seen of it

    def _saw_call(self, attempt: Attempt) -> int:
        return self._effects.began(self.name, attempt, self._world.now)

    def _saw_fault(self, flow_id: str, error: BaseException) -> None:
        told = "".join(traceback.format_exception(error))
        self._findings.add("the engine failed", f"on {self.name}, flow {flow_id}:\n{told}", flow_id)

    def _saw_error(self, message: str) -> None:
        self._findings.add("an error that nobody handles", f"on {self.name}: {message}")

    # The end of the simulation

    def leave(self) -> bool:
        """Cancel whatever still runs in any life of this machine; False when nothing does."""
        running = False
        for loop, store in self._past:
            store.is_gone = True
            loop.revive()
            loop._on_error = _ignore
            tasks = loop.tasks = [task for task in loop.tasks if not task.done()]
            for task in tasks:
                # Once: a second time would interrupt the clean-up.
                if not task.cancelling():
                    task.cancel()
            running = running or bool(tasks)
            if loop not in self._world.loops:
                self._world.loops.append(loop)
        return running

    def close(self) -> None:
        for loop, store in self._past:
            loop.close()
            forget_outage(store.address)


def _ignore(message: str) -> None:
    pass

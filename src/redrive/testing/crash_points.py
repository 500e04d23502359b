"""Crash points: a worker that can be killed right before or right after any commit, and a witness that checks it."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Never, cast

from redrive.errors import LeaseLostError
from redrive.flows.driver import Handler
from redrive.flows.events import (
    AnyEvent,
    AttemptFailed,
    AttemptStarted,
    ItemCompleted,
    ItemGaveUp,
    ItemStarted,
    Redriven,
    is_activation,
    read_turn,
)
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt
from redrive.runners.outcome_listener import OutcomeListener
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.records import Batch
from redrive.testing.virtual_clock import VirtualClock
from redrive.worker.settings import WorkerSettings
from redrive.worker.worker import Worker

Side = Literal["before", "after"]


class Execution(NamedTuple):
    """An attempt that was actually started, whether the log has it or not."""

    flow_id: str
    item: int
    step: str
    attempt: int
    delivery: str


class Witness:
    """Records what becomes durable and which attempts start, across all workers."""

    def __init__(self) -> None:
        self.commits = 0
        """The number of durable commits."""
        self.crash_at: tuple[int, Side] | None = None
        """The commit at which the worker is killed, and whether before or after it."""
        self.executed: list[Execution] = []
        self.faults: list[str] = []
        """Violations that were seen."""
        self._known: set[str] = set()
        """Delivery tokens that are in the logs."""
        self._begun: set[str] = set()
        """Delivery tokens of attempts that were started."""
        self._done: set[tuple[str, int]] = set()
        """Items that have ended according to the logs."""

    def crashes(self, side: Side) -> bool:
        number = self.commits + (side == "before")
        if self.crash_at != (number, side):
            return False
        self.crash_at = None
        return True

    def saw_durable(self, batch: Batch) -> None:
        self.commits += 1
        for flow_id, _, _, body in batch.events:
            for event in read_turn(body):
                self._saw_event(flow_id, event)

    def _saw_event(self, flow_id: str, event: AnyEvent) -> None:
        if isinstance(event, ItemStarted | AttemptStarted):
            self._known.add(event.delivery)
        elif isinstance(event, ItemCompleted | AttemptFailed | ItemGaveUp) and is_activation(event):
            self._done.add((flow_id, event.item))
        elif isinstance(event, Redriven) and event.item is not None:
            self._done.discard((flow_id, event.item))

    def saw_begin(self, attempt: Attempt) -> None:
        what = f"attempt {attempt.number} of {attempt.step} (item {attempt.item}, flow {attempt.flow_id})"
        if attempt.delivery_token not in self._known:
            self.faults.append(f"{what} started before it was in the log")
        if (attempt.flow_id, attempt.item) in self._done:
            self.faults.append(f"{what} started although the item had ended already")
        if attempt.delivery_token in self._begun:
            self.faults.append(f"{what} started twice with the same delivery token")
        self._begun.add(attempt.delivery_token)
        self.executed.append(
            Execution(attempt.flow_id, attempt.item, attempt.step, attempt.number, attempt.delivery_token)
        )


class CrashPoint:
    """The store of one worker; once the worker is dead, every call fails."""

    def __init__(self, store: Store, witness: Witness) -> None:
        self.kill: Callable[[], Any]
        """Kills the worker."""
        self.dead = False
        self.witness = witness
        self._store = store
        self._commit: asyncio.Task[None] | None = None

    def __getattr__(self, verb: str) -> Any:
        return self._refuse if self.dead else getattr(self._store, verb)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        if self.witness.crashes("before"):
            await self.die()
        # A commit that was sent reaches the database, whatever happens to the worker.
        self._commit = asyncio.get_running_loop().create_task(self._write(lease, batch))
        await asyncio.shield(self._commit)
        if self.witness.crashes("after"):
            await self.die()

    async def die(self) -> None:
        """Kill the worker here; never return."""
        self.dead = True
        self.kill()
        await asyncio.get_running_loop().create_future()

    async def last_words(self) -> None:
        """Wait for the commit that was in flight."""
        if self._commit is not None:
            await asyncio.wait([self._commit])

    async def _write(self, lease: Lease, batch: Batch) -> None:
        await self._store.commit(lease, batch)
        self.witness.saw_durable(batch)

    async def _refuse(self, *_: Any) -> Never:
        raise LeaseLostError("the worker is dead")


def watched_worker(
    point: CrashPoint, settings: WorkerSettings, on_ended: Callable[[str, AnyEvent], None], clock: VirtualClock
) -> Worker:
    """A worker whose attempts and faults the witness sees."""
    witness = point.witness

    def runner(listener: OutcomeListener, settings: WorkerSettings, may_call: Callable[[], bool]) -> Runner:
        return _WatchedRunner(listener, settings, may_call, witness, clock)

    def on_fault(flow_id: str, error: BaseException) -> None:
        told = "".join(traceback.format_exception(error))
        witness.faults.append(f"the engine failed on flow {flow_id}:\n{told}")

    return Worker(cast("Store", point), settings, on_ended, runner=runner, on_fault=on_fault)


class _WatchedRunner(Runner):
    """Runs attempts and reports them to a witness; virtual time waits for them."""

    def __init__(
        self,
        listener: OutcomeListener,
        settings: WorkerSettings,
        may_call: Callable[[], bool],
        witness: Witness,
        clock: VirtualClock,
    ) -> None:
        super().__init__(listener, settings.threads, settings.processes, settings.http, may_call)
        self._witness = witness
        self._virtual = clock

    def start(self, handler: Handler, attempt: Attempt, arguments: str | dict[str, Any]) -> None:
        self._witness.saw_begin(attempt)
        super().start(handler, attempt, arguments)
        elsewhere = isinstance(handler, HttpHandler) or handler.executor != "loop"
        self._virtual.wait_for_work(self._running[attempt], elsewhere=elsewhere)

"""A worker that can be killed at each commit, right before or right after it is durable, before a witness."""

import asyncio
import traceback
from collections.abc import Callable, Sequence
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
from redrive.runners.runner import Runner
from redrive.stores.interface import Store
from redrive.stores.records import Batch, Lease, Message
from redrive.testing.virtual_clock import VirtualClock
from redrive.worker.flow_run import FlowRun
from redrive.worker.settings import WorkerSettings
from redrive.worker.worker import Worker

Side = Literal["before", "after"]


class Execution(NamedTuple):
    """An attempt that was really begun: whether the log knows of it or not."""

    flow_id: str
    item: int
    step: str
    attempt: int
    delivery: str


class Witness:
    """Sees what becomes durable and what is carried out, whichever worker does it."""

    def __init__(self) -> None:
        self.commits = 0
        """Commits that are durable."""
        self.crash_at: tuple[int, Side] | None = None
        """The commit at which the worker dies, and on which side of it."""
        self.executed: list[Execution] = []
        self.faults: list[str] = []
        """What must never happen."""
        self._known: set[str] = set()
        """Delivery tokens in the logs."""
        self._done: set[tuple[str, int]] = set()
        """Items that have ended, by the logs."""

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
            self.faults.append(f"{what} began before the log said so")
        if (attempt.flow_id, attempt.item) in self._done:
            self.faults.append(f"{what} began though the item had ended already")
        if any(one.delivery == attempt.delivery_token for one in self.executed):
            self.faults.append(f"{what} began twice under one delivery token")
        self.executed.append(
            Execution(attempt.flow_id, attempt.item, attempt.step, attempt.number, attempt.delivery_token)
        )


class CrashPoint:
    """A store as one worker sees it, until the worker dies: from then on it can do nothing."""

    def __init__(self, store: Store, witness: Witness) -> None:
        self.kill: Callable[[], Any]
        """Drops the worker."""
        self.dead = False
        self.witness = witness
        self._store = store
        self._commit: asyncio.Task[None] | None = None

    def __getattr__(self, verb: str) -> Any:
        return self._refuse if self.dead else getattr(self._store, verb)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        if self.witness.crashes("before"):
            await self.die()
        # A commit on its way reaches the database, whatever becomes of the worker.
        self._commit = asyncio.get_running_loop().create_task(self._write(lease, batch))
        await asyncio.shield(self._commit)
        if self.witness.crashes("after"):
            await self.die()

    async def die(self) -> None:
        """Never return: the worker is dropped here."""
        self.dead = True
        self.kill()
        await asyncio.get_running_loop().create_future()

    async def last_words(self) -> None:
        """Wait for the commit that was on its way."""
        if self._commit is not None:
            await asyncio.wait([self._commit])

    async def _write(self, lease: Lease, batch: Batch) -> None:
        await self._store.commit(lease, batch)
        self.witness.saw_durable(batch)

    async def _refuse(self, *_: Any) -> Never:
        raise LeaseLostError("the worker is dead")


class WatchedWorker(Worker):
    """A worker before a witness."""

    def __init__(
        self,
        point: CrashPoint,
        settings: WorkerSettings,
        on_ended: Callable[[str, AnyEvent], None],
        clock: VirtualClock,
    ) -> None:
        super().__init__(cast("Store", point), settings, on_ended)
        self.runner = _WatchedRunner(self, point.witness, clock)
        self._witness = point.witness

    def set_aside(self, run: FlowRun, error: BaseException, mail: Sequence[Message] = ()) -> None:
        told = "".join(traceback.format_exception(error))
        self._witness.faults.append(f"the engine failed on flow {run.id}:\n{told}")
        super().set_aside(run, error, mail)


class _WatchedRunner(Runner):
    """Carries out attempts before a witness; virtual time waits for them."""

    def __init__(self, worker: Worker, witness: Witness, clock: VirtualClock) -> None:
        super().__init__(worker, worker.settings.threads, worker.settings.processes, worker.settings.http)
        self._witness = witness
        self._virtual = clock

    def start(self, handler: Handler, attempt: Attempt, arguments: str | dict[str, Any]) -> None:
        self._witness.saw_begin(attempt)
        super().start(handler, attempt, arguments)
        elsewhere = isinstance(handler, HttpHandler) or handler.place != "loop"
        self._virtual.wait_for_work(self._running[attempt], elsewhere=elsewhere)

"""The life of an app: it opens its store, runs its worker, replaces one that failed, and closes."""

import asyncio
import logging
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from redrive.client.dead_letters import DeadLetters
from redrive.client.flow_access import FlowAccess
from redrive.client.flow_starter import FlowStarter
from redrive.client.loop_affinity import LoopAffinity
from redrive.client.queue_control import QueueControl
from redrive.client.queue_counting import count_flows
from redrive.client.readable_payloads import refuse_unreadable
from redrive.client.results import Results
from redrive.client.schedule_control import ScheduleControl
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.ids import ordered_id
from redrive.errors import LeaseLostError, StoreUnusableError
from redrive.failures.traces import trace_of
from redrive.stores.interface import Store
from redrive.stores.refusals import not_open
from redrive.worker.dependency_guard import dependencies_of_steps, report_circuits_closed
from redrive.worker.settings import WorkerSettings
from redrive.worker.store_retries import retry_until_available
from redrive.worker.worker import Worker

log = logging.getLogger("redrive")

PAUSE_AFTER_FAILURE = 1.0


class RunningApp:
    """An open store and, by default, a worker in this process."""

    def __init__(
        self,
        store: Store,
        worker: bool = True,
        settings: WorkerSettings | None = None,
        new_id: Callable[[float], str] = ordered_id,
    ) -> None:
        """`new_id` makes the id of a flow that is started at the given time."""
        self.settings = settings or WorkerSettings()
        self._clock = current_clock()
        self._new_id = new_id
        self._with_worker = worker
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._closing = self._closed = False
        # Circuits belong to the process: they stay open when a new worker replaces one that failed.
        self._dependencies = dependencies_of_steps()
        self._affinity = LoopAffinity()
        self._lost_lease = False
        self._flows = FlowAccess(store, self._affinity, self._clock, new_id)
        self._queues = QueueControl(self._flows)
        self._schedules = ScheduleControl(self._flows, self._schedules_changed)
        self._dead_letters = DeadLetters(self._flows)
        self._results = Results(store, self._runs_here)
        self._starter = FlowStarter(store, lambda: self._worker)

    @property
    def store(self) -> Store:
        return self._flows.store

    def _check_open(self) -> None:
        self._affinity.check()
        if not self._affinity.is_bound:
            # A store in memory would accept the flow, and nothing would run it.
            raise not_open(self.store.address)

    # Opening, working, closing

    async def __aenter__(self) -> Self:
        # A script that opens its app without `if __name__ == "__main__"` would do so in its child processes too.
        if pool := sys.modules.get("redrive.runners.process_pool"):
            pool.ProcessPool.refuse_while_loading()
        if self._closed:
            raise RuntimeError("this app was closed; open another with redrive.open(...)")
        self._affinity.bind()
        try:
            await self.store.open()
        except BaseException:
            self._affinity.unbind()
            raise
        self._stop_counting = count_flows(self.store)
        if self._with_worker:
            self._working = asyncio.get_running_loop().create_task(self._work_in_background())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._closed = True
        try:
            if self._working is not None:
                # A caller that is cancelled here no longer waits for attempts: the worker is cancelled with them.
                await asyncio.gather(self._working, return_exceptions=True)
        finally:
            self._stop_counting()
            report_circuits_closed(self._dependencies)
            await self._results.close()
            await self.store.close()

    def stop(self) -> None:
        """Have the worker release its flows and end."""
        self._closing = True
        if self._worker is not None:
            self._worker.stop()

    @property
    def worker_trouble(self) -> str | None:
        """Why the worker of this app takes no work now, in one line; None when it does."""
        return "no worker runs here" if self._worker is None else self._worker.trouble

    async def work(self) -> None:
        """Run a worker until `stop()`. A worker that lost its lease, or failed, is replaced by a new one."""
        await retry_until_available(self.store, refuse_unreadable, self.store)
        while not self._closing:
            self._worker = self._new_worker()
            if self._closing:
                break
            try:
                await self._worker.run()
            except LeaseLostError as lost:
                self._lost_lease = True
                log.error("%s; this worker drops its flows and starts again", lost)
            except StoreUnusableError:
                raise
            except Exception as error:  # noqa: BLE001 - the next worker recovers from the store
                log.error("the worker failed and starts again\n%s", trace_of(error))
                await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PAUSE_AFTER_FAILURE)

    def _new_worker(self) -> Worker:
        ended, lost = self._results.flow_ended, self._lost_lease
        return Worker(self.store, self.settings, ended, self._dependencies, after_lost_lease=lost)

    async def _work_in_background(self) -> None:
        """Work, and pass the error that ends the worker to the callers that wait for results."""
        try:
            await self.work()
        except StoreUnusableError as error:
            log.error("the worker of this app has ended; the flows it starts wait for other workers: %s", error)
            self._results.fail(error)

    def _schedules_changed(self) -> None:
        if self._worker is not None:
            self._worker.ticker.wake()

    def _runs_here(self, flow_id: str) -> bool:
        return self._worker is not None and self._worker.has(flow_id)

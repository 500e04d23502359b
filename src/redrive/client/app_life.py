"""The life of an app: its store is opened, a worker works beside it or in its place, and all of it is closed again."""

import asyncio
import logging
import sys
from types import TracebackType
from typing import Self

from redrive.client.loop_affinity import OneLoop
from redrive.client.results import SWEEP, SWEEP_BESIDE_WORKER, Results
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.errors import LeaseLostError, StoreUnusableError
from redrive.failures.traces import trace_of
from redrive.stores.interface import Store
from redrive.worker.dependency_guard import dependencies_of_steps, tell_circuits_gone
from redrive.worker.settings import WorkerSettings
from redrive.worker.worker import Worker

log = logging.getLogger("redrive")

PAUSE_AFTER_FAILURE = 1.0


class AppLife(OneLoop):
    def __init__(self, store: Store, worker: bool, settings: WorkerSettings | None) -> None:
        super().__init__(store)
        self.settings = settings or WorkerSettings()
        self._with_worker = worker
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._results = Results(store, SWEEP_BESIDE_WORKER if worker else SWEEP, self._is_here)
        # What is away stays so when a worker begins anew: circuits belong to the process.
        self._dependencies = dependencies_of_steps()
        self._clock = current_clock()
        self._closing = self._closed = False

    async def __aenter__(self) -> Self:
        # A script that opens its app without `if __name__ == "__main__"` would do so in its children too.
        if pool := sys.modules.get("redrive.runners.process_pool"):
            pool.ProcessPool.refuse_while_loading()
        if self._closed:
            raise RuntimeError("this app was closed; open another with redrive.open(...)")
        self.enter_loop()
        try:
            await self.store.open()
        except BaseException:
            self.leave_loop()
            raise
        if self._with_worker:
            self._working = asyncio.get_running_loop().create_task(self._work_beside())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._closed = True
        try:
            if self._working is not None:
                # Whoever is cancelled here does not wait for attempts any more: the worker is cancelled with them.
                await asyncio.gather(self._working, return_exceptions=True)
        finally:
            tell_circuits_gone(self._dependencies)
            await self._results.close()
            await self.store.close()

    def stop(self) -> None:
        """Have the worker hand over and end."""
        self._closing = True
        if self._worker is not None:
            self._worker.stop()

    async def _work_beside(self) -> None:
        """Work in the background: nobody hears what ends that, but those who wait for results."""
        try:
            await self.work()
        except StoreUnusableError as error:
            log.error("the worker of this app has ended, and what it starts waits for others: %s", error)
            self._results.fail(error)

    async def work(self) -> None:
        """Be a worker until `stop()`. One that lost its lease begins anew."""
        while not self._closing:
            self._worker = Worker(self.store, self.settings, self._results.tell, self._dependencies)
            if self._closing:
                break
            try:
                await self._worker.run()
            except LeaseLostError as lost:
                log.error("%s; this worker drops what it had and begins anew", lost)
            except StoreUnusableError:
                raise
            except Exception as error:  # noqa: BLE001 - the next one goes on from what is stored
                log.error("the worker failed; it begins anew\n%s", trace_of(error))
                await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PAUSE_AFTER_FAILURE)

    def _is_here(self, flow_id: str) -> bool:
        return self._worker is not None and self._worker.has(flow_id)

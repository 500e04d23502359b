"""Renew the lease from a thread of its own, which also detects code that blocks the event loop.

Code that blocks the loop does not cost the worker its lease, unless it blocks for as long as a lease lasts. Then the
thread records which flow it was and gives the lease up, so that other workers take over the other flows.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError, StoreError
from redrive.stores.interface import LeaseRenewer, Store
from redrive.stores.worker_reports import HeldLoop
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.maintenance.lease_keeper import keep_lease
from redrive.worker.maintenance.loop_watchdog import TOO_LONG, Holder, LoopWatchdog

CHECK_EVERY = 1.0
LAST_CALL = 2.0
"""Seconds for telling the store which flow blocked the loop, and for the thread to end."""


class LeaseThread:
    def __init__(self, store: Store, held: HeldLease, blame_of: Callable[[Holder], str | None]) -> None:
        """blame_of: the evidence to record against the flow that blocks the loop; None if it does not run here."""
        self._store = store
        self._held = held
        self._blame_of = blame_of
        self._check_every = min(CHECK_EVERY, held.seconds / 10)

    async def run(self) -> None:
        """Keep the lease until cancelled. LeaseLostError when it is lost, or was given up."""
        loop, own = asyncio.get_running_loop(), asyncio.new_event_loop()
        ended: asyncio.Future[BaseException | None] = loop.create_future()
        stopped = asyncio.Event()
        watchdog = LoopWatchdog(min(TOO_LONG, self._held.seconds / 3))

        def work() -> None:
            error: BaseException | None
            try:
                error = own.run_until_complete(self._keep(stopped, watchdog))
            except BaseException as failed:  # noqa: BLE001 - it ends the worker
                error = failed
            own.close()
            # The worker's loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, ended, error)

        threading.Thread(target=work, name="redrive-lease", daemon=True).start()
        try:
            if (error := await asyncio.shield(ended)) is not None:
                raise error
        finally:
            with contextlib.suppress(RuntimeError):
                own.call_soon_threadsafe(stopped.set)
            await asyncio.wait([ended], timeout=LAST_CALL)

    async def _keep(self, stopped: asyncio.Event, watchdog: LoopWatchdog) -> LeaseLostError | None:
        held, renewer = self._held, self._store.lease_renewer()
        create = asyncio.get_running_loop().create_task
        renewing = create(keep_lease(renewer, self._store.address, held))
        tasks = [renewing, create(self._watch(watchdog)), create(stopped.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopped.is_set():
                return None
            # First of all: this process must not call anything more.
            held.is_lost = True
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if watchdog.check(self._check_every) >= held.seconds:
                with contextlib.suppress(StoreError, TimeoutError):
                    async with asyncio.timeout(LAST_CALL):
                        await self._give_up(renewer, watchdog.holder)
            if not renewing.cancelled() and not isinstance(error := renewing.exception(), LeaseLostError | None):
                raise error
            return held.lost()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await renewer.close()

    async def _watch(self, watchdog: LoopWatchdog) -> None:
        """Return once code has blocked the loop for a whole lease, or the worker has found its lease expired."""
        while not self._held.is_lost:
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + self._check_every)
            blocked = watchdog.check(self._check_every)
            if blocked:
                self._held.held_loop = _told(watchdog.holder, blocked)
            if blocked >= self._held.seconds:
                return

    async def _give_up(self, renewer: LeaseRenewer, holder: Holder | None) -> None:
        """Record which flow blocked the loop, and end the lease, so that the flows need not wait until it expires."""
        held = self._held
        blocked_by = holder or "by several flows in turn, or by code outside any flow"
        held.held_by = f"its event loop was blocked for a whole lease {blocked_by}"
        blame = None if holder is None else self._blame_of(holder)
        if holder is not None and blame is not None:
            await renewer.accuse(held.lease, holder.flow_id, blame)
        else:
            await renewer.accuse(held.lease, None)
        await renewer.extend_lease(held.lease, 0.0)


def _told(holder: Holder | None, seconds: float) -> HeldLoop:
    known = holder or Holder(None, None, "", "")
    at = SYSTEM_CLOCK.wall()
    return HeldLoop(seconds=round(seconds, 1), at=at, flow_id=known.flow_id, step=known.step, place=known.place)


def _resolve(ended: "asyncio.Future[BaseException | None]", error: BaseException | None) -> None:
    if not ended.done():
        ended.set_result(error)

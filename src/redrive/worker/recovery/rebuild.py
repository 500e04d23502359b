"""Rebuild a flow from its log while its attempts keep running, to redrive an item that has failed."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from redrive.determinism.clock import Clock
from redrive.failures.traces import trace_of
from redrive.stores.encoded_text import key_of
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.flow_factory import FlowFactory
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.heartbeats import Heartbeats
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.journal import Journal
from redrive.worker.recovery.chunked_replay import ChunkedReplay
from redrive.worker.recovery.replay import Replayer
from redrive.worker.slots import ExecutionSlots
from redrive.worker.store_retries import retry_until_available


class Rebuilder:
    """Replaces a flow in memory by one replayed from its rewound log."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        clock: Clock,
        journal: Journal,
        flows: FlowTable,
        factory: FlowFactory,
        slots: ExecutionSlots,
        heartbeats: Heartbeats,
        replayer: Replayer,
        chunked_replay: ChunkedReplay,
        faults: FaultHandler,
        held: dict[str, list[Callable[[], None]]],
    ) -> None:
        """held: takes reports of attempts, by flow id, that end during a rebuild."""
        self._store = store
        self._lease = lease
        self._clock = clock
        self._journal = journal
        self._flows = flows
        self._factory = factory
        self._slots = slots
        self._heartbeats = heartbeats
        self._replayer = replayer
        self._mid_replay = chunked_replay
        self._faults = faults
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held = held

    def begin(self, run: FlowRun) -> None:
        if run.id not in self._tasks:
            # Hold outcomes back: a flow that keeps logging might never have its whole log durable.
            self._held[run.id] = []
            task = self._tasks[run.id] = asyncio.get_running_loop().create_task(self._rebuild(run))
            task.add_done_callback(lambda task: self._ended(run, task))

    async def close(self) -> None:
        """Stop rebuilding; the next owner of each flow reads the same messages."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, run: FlowRun, task: "asyncio.Task[None]") -> None:
        del self._tasks[run.id]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_flow(logging.ERROR, run.id, "it could not be rebuilt\n%s", trace_of(error))
            current = self._flows.by_id.get(run.id)
            if current is not None:
                self._faults.engine_failed(current, error)
        self._release_held(run.id)

    def _release_held(self, flow_id: str) -> None:
        self._heartbeats.release(flow_id)
        for report in self._held.pop(flow_id, ()):
            report()

    async def _rebuild(self, run: FlowRun) -> None:
        store = self._store
        with self._clock.busy():
            while not run.log.released:
                await self._journal.written(run.id)
                seq = run.log.seq
                rows = (await retry_until_available(store, store.read_events, [run.id]))[run.id]
                beats = await retry_until_available(store, store.read_heartbeats, [run.id])
                unread = await retry_until_available(store, store.read_inbox, self._lease)
                running = self._slots.items_of(run.id)
                is_all_durable = bool(rows) and rows[-1].seq == run.log.seq == seq
                if is_all_durable and run.starter.running_items() <= running and not run.log.released:
                    taken = run.log.messages_taken
                    mine = [one for one in unread if one.flow_id == run.id and one.id not in taken]
                    messages = [one for one in mine if key_of(one.body) is None]
                    fresh = self._replace(run)
                    await self._replay(fresh, self._replayer.replay(fresh, rows, beats, messages, running))
                    return
                # Otherwise something came in meanwhile: a message, a timer, a slot.

    async def _replay(self, run: FlowRun, pieces: Iterator[None]) -> None:
        try:
            await self._mid_replay.finish(run, pieces)
        except asyncio.CancelledError:
            # The flow's attempts must find it complete, even when the worker stops.
            for _ in pieces if not run.log.released else ():
                pass
            raise

    def _replace(self, run: FlowRun) -> FlowRun:
        self._heartbeats.hold(run)
        self._flows.remove(run)
        run.log.released = True
        fresh = self._factory.create(run.log.record)
        fresh.log.messages_read, fresh.log.messages_taken = run.log.messages_read, run.log.messages_taken
        self._flows.add(fresh)
        return fresh

"""Build a flow anew from its log while its attempts run on: for what is said about an item that has failed."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from redrive.failures.traces import trace_of
from redrive.flows.drivers import driver_for
from redrive.worker.flow_run import FlowRun
from redrive.worker.heartbeats import beat
from redrive.worker.journal import patiently
from redrive.worker.recovery.replay import going_on

if TYPE_CHECKING:
    from redrive.worker.worker import Worker

log = logging.getLogger("redrive")


class Rebuilding:
    """What came of the failure is undone in the log; so the flow's code must be brought to where it now stands."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.held: dict[str, list[Callable[[], None]]] = {}
        """By flow, how its attempts ended meanwhile: while it logs on, there may be no moment when all is durable."""
        self._beats: dict[str, dict[tuple[int, str], str]] = {}
        """By flow that is replayed, what its attempts left last: not all of it is in the store."""

    def begin(self, run: FlowRun) -> None:
        if run.id not in self._tasks:
            self.held[run.id] = []
            task = self._tasks[run.id] = asyncio.get_running_loop().create_task(self._rebuild(run))
            task.add_done_callback(lambda task: self._ended(run, task))

    def beat(self, flow_id: str, item: int, delivery: str, details: str) -> None:
        """An attempt goes on, and leaves this for the one that may follow it."""
        left = self._beats.get(flow_id)
        if left is None:
            beat(self._worker.runs, flow_id, item, delivery, details)
        else:
            left[item, delivery] = details

    async def close(self) -> None:
        """Leave the flows as they are, or as they are to be; whoever has them next reads the same mail."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for flow_id in list(self.held):
            self._report_held(flow_id)

    def _ended(self, run: FlowRun, task: "asyncio.Task[None]") -> None:
        del self._tasks[run.id]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("flow %s could not be built anew\n%s", run.id, trace_of(error))
            current = self._worker.runs.get(run.id)
            if current is not None:
                self._worker.set_aside(current, error)
        self._report_held(run.id)

    def _report_held(self, flow_id: str) -> None:
        for (item, delivery), details in self._beats.pop(flow_id, {}).items():
            self.beat(flow_id, item, delivery, details)
        for report in self.held.pop(flow_id, ()):
            report()

    async def _rebuild(self, run: FlowRun) -> None:
        worker, store = self._worker, self._worker.store
        assert worker.lease is not None  # noqa: S101 - it owns the flow
        with worker.clock.busy():
            while not run.released:
                await worker.journal.written()
                seq = run.seq
                rows = (await patiently(store, store.read_events, [run.id]))[run.id]
                beats = await patiently(store, store.read_heartbeats, [run.id])
                unread = await patiently(store, store.read_mail, worker.lease)
                begun = worker.under_way.items_of(run.id)
                is_all_durable = bool(rows) and rows[-1].seq == run.seq == seq
                if is_all_durable and run.running_items() <= begun and not run.released:
                    mail = [one for one in unread if one.flow_id == run.id and one.id not in run.mail_taken]
                    fresh = self._replace(run)
                    await self._bring_up(fresh, going_on(fresh, rows, beats, mail, begun))
                    return
                # Something else came in: mail, a timer, a place that was waited for.

    async def _bring_up(self, run: FlowRun, pieces: Iterator[None]) -> None:
        """Its attempts must find it in the end, whether the worker is told to stop or not."""
        try:
            await self._worker.half_replayed.bring_up(run, pieces)
        except asyncio.CancelledError:
            for _ in pieces if not run.released else ():
                pass
            raise

    def _replace(self, run: FlowRun) -> FlowRun:
        worker, left = self._worker, run.heartbeats
        beating = [item for item in run.history.items.values() if item.number in left]
        self._beats[run.id] = {(item.number, item.delivery or ""): left[item.number] for item in beating}
        worker.forget(run)
        run.released = True
        fresh = FlowRun(worker, run.record, driver_for(run.record.definition, run.id, run.record.input))
        fresh.mail_read, fresh.mail_taken = run.mail_read, run.mail_taken
        worker.runs[run.id] = fresh
        return fresh

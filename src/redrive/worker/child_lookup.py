"""Look up in the store how children have ended, where no message tells their parent.

That is so for a result that is too large for a message, and for children that ended while their parent was closed.
"""

import asyncio
from collections.abc import Sequence

from redrive.errors import LeaseLostError
from redrive.flows.child_events import ChildCancelled, ChildCompleted, ChildEnd, ChildFailed
from redrive.flows.children import Child
from redrive.flows.events import ENDINGS, FlowCompleted, FlowFailed
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED
from redrive.worker.event_rows import lines_of
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.journal import Journal
from redrive.worker.store_retries import retry_until_available

AT_ONCE = 200
"""How many children are looked up together."""


class ChildLookup:
    def __init__(self, store: Store, journal: Journal, flows: FlowTable, faults: FaultHandler) -> None:
        self._store = store
        self._journal = journal
        self._flows = flows
        self._faults = faults
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, run: FlowRun) -> None:
        """Find out which of the flow's open children have ended. Until then it is not released for long."""
        run.lookups += 1
        task = asyncio.get_running_loop().create_task(self._look(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _look(self, run: FlowRun) -> None:
        # What the flow has sent, such as a redrive of a child, must have arrived.
        await self._journal.written(run.id)
        children = run.log.history.children.open
        try:
            for first in range(0, len(children), AT_ONCE):
                await self._settle(run, children[first : first + AT_ONCE])
        except LeaseLostError:
            # The flow's next owner looks for itself.
            return
        except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
            self._faults.engine_failed(run, error)
        run.lookups -= 1
        if self._is_here(run):
            run.wake()

    async def _settle(self, run: FlowRun, children: Sequence[Child]) -> None:
        store = self._store
        found = await retry_until_available(store, store.find_flows, [child.flow for child in children])
        for child in children:
            record = found.get(child.flow)
            if record is not None and record.status not in FINISHED:
                continue
            if record is None:
                end: ChildEnd = ChildFailed(child=child.number, error="", message="the store no longer has it")
            else:
                rows = (await retry_until_available(store, store.read_events, [child.flow]))[child.flow]
                last = next(
                    (line.event for line in reversed(lines_of(rows[-1:])) if isinstance(line.event, ENDINGS)), None
                )
                end = child_end(child.number, last)
            if self._is_here(run):
                self._flows.mark_busy(run.id)
                run.end_child(child, end)

    def _is_here(self, run: FlowRun) -> bool:
        return self._flows.by_id.get(run.id) is run and not run.log.released


def child_end(child: int, last: object) -> ChildEnd:
    """The parent's event for a child whose log ends with this event."""
    if isinstance(last, FlowCompleted):
        return ChildCompleted(child, last.result)
    if isinstance(last, FlowFailed):
        return ChildFailed(child=child, error=last.error.type.removeprefix("builtins."), message=last.error.message)
    return ChildCancelled(child, getattr(last, "why", ""))

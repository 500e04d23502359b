"""Flows that begin in the process that starts them: one transaction adds them and begins their first attempts.

Whoever else could carry them out is not asked, and nothing is claimed; so only a worker that has caught up with what
others started takes its own, and what must be asked for (a key, a queue with a limit) goes the way of all flows.
"""

import asyncio
import contextvars
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.errors import CommitUnknownError, StoreError, StoreUnusableError
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, NewFlow
from redrive.worker.journal import patiently
from redrive.worker.recovery.claimed_flows import begin_new

if TYPE_CHECKING:
    from redrive.worker.worker import Worker


class OwnStarts:
    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._waiting: dict[str, asyncio.Future[bool | None]] = {}
        self._refused: set[str] = set()
        """Queues that turned out to have a limit."""
        self._context = contextvars.copy_context()
        """The code of flows runs in that of the worker, whoever starts them."""

    async def add(self, flow: NewFlow) -> bool | None:
        """Whether the flow was added; None when the worker was gone before anyone knew."""
        worker = self._worker
        if not self._takes(flow):
            return False
        assert worker.lease is not None  # noqa: S101 - it has joined
        record = FlowRecord(
            id=flow.id,
            definition=flow.definition,
            input=flow.input,
            queue=flow.queue,
            priority=flow.priority,
            key=flow.key,
            status="running",
            created_at=flow.created_at,
            start_at=flow.start_at,
            wake_at=flow.start_at,
            owner=worker.lease.epoch,
            claims=1,
            mail=0,
            mail_read=0,
            finished_at=None,
        )
        batch = worker.journal.batch
        if not self._context.run(begin_new, worker, record):
            return False
        batch.born.append(flow)
        added: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._waiting[flow.id] = added
        worker.journal.then(self._answer, flow.id, True)
        return await added

    def _takes(self, flow: NewFlow) -> bool:
        worker, settings = self._worker, self._worker.settings
        born = worker.journal.batch.born
        return (
            flow.key is None
            and flow.start_at <= flow.created_at
            and worker.claims.caught_up
            and len(worker.runs) - len(worker.idle) < settings.concurrency
            # Where work stands in line, others may have a place for it.
            and not worker.places.someone_waits
            and (settings.queues is None or flow.queue in settings.queues)
            and flow.queue not in self._refused
            # Of one queue at a time: so it is known whose limit stands in the way.
            and (not born or born[0].queue == flow.queue)
        )

    def refuse(self, flows: Sequence[NewFlow]) -> None:
        """The store did not take them: forget them here, and have them added as others are."""
        for flow in flows:
            self._refused.add(flow.queue)
            run = self._worker.runs.get(flow.id)
            if run is not None:
                run.is_stored = False
                run.released = True
                self._worker.forget(run)
            self._answer(flow.id, False)

    def close(self) -> None:
        """The worker is gone, and writes nothing any more."""
        for flow_id in list(self._waiting):
            self._answer(flow_id, None)

    def _answer(self, flow_id: str, answer: bool | None) -> None:
        future = self._waiting.pop(flow_id, None)
        if future is not None and not future.done():
            future.set_result(answer)


async def was_added(store: Store, flow_id: str) -> bool:
    """Whether a flow was whose worker was gone before anyone knew; asked for as long as the store is open."""
    try:
        return await patiently(store, store.find_flow, flow_id) is not None
    except StoreUnusableError:
        raise
    except StoreError as error:
        told = f"{error}; flow {flow_id} was being started, and may or may not have been added"
        raise CommitUnknownError(told) from None

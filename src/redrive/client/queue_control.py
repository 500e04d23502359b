"""Lists, limits, pauses and resumes queues."""

from redrive.client.flow_access import FlowAccess
from redrive.flows.messages import check_by_and_why
from redrive.stores.queue_names import check_limit, check_queue
from redrive.stores.queues import QueuePause, QueueRecord


class QueueControl:
    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def records(self) -> list[QueueRecord]:
        return await self._flows.store.list_queues(self._flows.now())

    async def limit(self, queue: str, limit: int | None) -> None:
        check_limit(limit)
        check_queue(queue)
        await self._flows.store.set_queue_limit(queue, limit)

    async def pause(self, queue: str, by: str, why: str) -> bool:
        check_queue(queue)
        check_by_and_why(by, why)
        return await self._flows.store.set_queue_pause(queue, QueuePause(at=self._flows.now(), by=by, why=why))

    async def resume(self, queue: str) -> bool:
        check_queue(queue)
        return await self._flows.store.set_queue_pause(queue, None)

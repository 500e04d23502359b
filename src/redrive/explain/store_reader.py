"""Read from a store what an explanation needs. The only I/O in this package."""

import msgspec

from redrive.explain.explain_flow import explain_flow
from redrive.explain.explanation import Explanation
from redrive.explain.worker_eligibility import DOCTOR
from redrive.flows.events import Line
from redrive.stores.interface import Store
from redrive.stores.records import DeadQuery, FlowRecord, WorkerRecord


async def explain_from_store(store: Store, record: FlowRecord, lines: list[Line], now: float) -> Explanation:
    """Explain a flow, given its record and its log."""
    letters = await store.list_dead_letters(DeadQuery(flow_ids=(record.id,), state=None))
    alive = await live_workers(store)
    queues = await store.list_queues()
    if record.messages_sent > record.messages_read:
        # The owner may have read some messages since the record was written.
        read = record.messages_sent - await store.count_unread(record.id)
        record = msgspec.structs.replace(record, messages_read=read)
    return explain_flow(record, lines, letters[0] if letters else None, alive, queues, now)


async def all_workers(store: Store) -> list[WorkerRecord]:
    """List the workers that hold a lease, and those whose lease has expired."""
    return [worker for worker in await store.list_workers() if worker.name != DOCTOR]


async def live_workers(store: Store) -> list[WorkerRecord]:
    """List the workers whose lease is valid."""
    return [worker for worker in await all_workers(store) if worker.alive]

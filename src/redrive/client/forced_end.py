"""End a flow by force without its code, where no live worker would do so."""

import contextlib

from redrive.client.flow_access import FlowAccess
from redrive.errors import DeserializationError
from redrive.explain.store_reader import live_workers
from redrive.explain.worker_eligibility import ENDER
from redrive.flows.children import Child
from redrive.flows.events import CancelRequested, FlowCancelled, write_event, write_turn
from redrive.flows.history import fold
from redrive.flows.messages import Cancel
from redrive.stores.interface import Store
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import Batch, EventRow, FlowChange, FlowRecord, RetryQuery
from redrive.worker.event_rows import lines_of
from redrive.worker.flow.flow_children import end_messages

LEASE = 30.0
ROWS_AT_ONCE = 1000


async def end_if_nobody_would(flows: FlowAccess, flow_id: str, request: Cancel) -> bool:
    """End the flow here unless a worker knows it, or has it. The request is in the flow's inbox already."""
    store, record = flows.store, await flows.find(flow_id)
    if await _is_served(store, record, flows.now()):
        return False
    # A flow of a worker that died is nobody's only then.
    await store.reap_leases()
    lease = await store.acquire_lease(NewWorker(name=ENDER, definitions=()), LEASE)
    try:
        taken = await store.take_flow(lease, flow_id)
        if taken is not None:
            await _end(store, lease, taken, request, flows.now())
    finally:
        await store.release_lease(lease)
    return taken is not None


async def _is_served(store: Store, record: FlowRecord, now: float) -> bool:
    """Whether a live worker would claim the flow."""
    if any(queue.pause for queue in await store.list_queues(now, record.queue)):
        return False
    return any(
        record.definition in worker.definitions
        and record.version in (None, worker.version)
        and (worker.queues is None or record.queue in worker.queues)
        for worker in await live_workers(store)
    )


async def _end(store: Store, lease: Lease, record: FlowRecord, request: Cancel, now: float) -> None:
    number = 0
    while rows := await store.list_retries(RetryQuery(flow_id=record.id, limit=ROWS_AT_ONCE)):
        number += 1
        await store.commit(lease, Batch(number=number, retries_done=[(row.flow_id, row.item) for row in rows]))
    # An attempt that a dead worker had begun has a heartbeat, and no row.
    beats = [(beat.flow_id, beat.item) for beat in await store.read_heartbeats([record.id])]
    log = (await store.read_events([record.id]))[record.id]
    events = [CancelRequested(by=request.by, why=request.why, force=True), FlowCancelled()]
    last = (log[-1].seq if log else 0) + len(events)
    row = EventRow(record.id, last, now, write_turn([write_event(event) for event in events]))
    end = FlowChange(flow_id=record.id, status="cancelled", finished_at=now, messages_read=record.messages_sent)
    children: list[Child] = []
    with contextlib.suppress(DeserializationError):
        # A log that a newer version wrote: its children go on.
        children = fold(lines_of(log)).children.open
    sends = list(end_messages(record.id, record.parent, children, FlowCancelled(), now))
    await store.commit(lease, Batch(number=number + 1, events=[row], flows=[end], retries_done=beats, sends=sends))

"""Pin a flow to another version of the code, or unpin it. No worker need be alive that could go on with it."""

from redrive.client.flow_access import FlowAccess
from redrive.errors import FlowFinishedError, InvalidStateError
from redrive.explain.worker_eligibility import ENDER
from redrive.flows.events import write_event, write_turn
from redrive.flows.history import fold
from redrive.flows.messages import check_by_and_why
from redrive.flows.version_events import VersionChanged
from redrive.stores.interface import Store
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.queue_names import QUEUE_NAME, is_queue
from redrive.stores.records import FINISHED, Batch, EventRow, FlowChange, FlowRecord, FlowStatus
from redrive.worker.event_rows import lines_of

LEASE = 30.0


async def move_to_version(flows: FlowAccess, flow_id: str, version: str, by: str, why: str) -> None:
    """Record it in the flow's log; `version` is empty for any. InvalidStateError while a worker has the flow."""
    check_by_and_why(by, why)
    if version and not is_queue(version):
        raise ValueError(f"version: {version!r} is not allowed; {QUEUE_NAME}")
    store, record = flows.store, await flows.find(flow_id)
    if record.status in FINISHED:
        raise FlowFinishedError(flow_id, record.status)
    if (record.version or "") == version:
        to = f"pinned to version {version} already" if version else "not pinned to a version"
        raise InvalidStateError(f"flow {flow_id} is {to}")
    # A flow of a worker that died is nobody's only then.
    await store.reap_leases()
    lease = await store.acquire_lease(NewWorker(name=ENDER, definitions=()), LEASE)
    try:
        taken = await store.take_flow(lease, flow_id)
        if taken is None:
            raise InvalidStateError(f"a worker has flow {flow_id} at the moment; try again while the flow waits")
        await _move(store, lease, taken, VersionChanged(version=version, by=by, why=why), flows.now())
    finally:
        await store.release_lease(lease)


async def _move(store: Store, lease: Lease, record: FlowRecord, event: VersionChanged, now: float) -> None:
    rows = (await store.read_events([record.id]))[record.id]
    history = fold(lines_of(rows))
    # Whoever claims it next finds out when it is due.
    status: FlowStatus = "parked" if history.parked is not None else "paused" if history.paused else "ready"
    change = FlowChange(
        flow_id=record.id,
        status=status,
        wake_at=now if status == "ready" else None,
        messages_read=record.messages_read,
        lost_owners=record.lost_owners,
        version=event.version,
    )
    line = (rows[-1].seq if rows else 0) + 1
    row = EventRow(record.id, line, max(now, rows[-1].at if rows else now), write_turn([write_event(event)]))
    await store.commit(lease, Batch(number=1, events=[row], flows=[change]))

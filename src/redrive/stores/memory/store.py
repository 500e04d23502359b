"""The memory store: plain dicts, no threads. Its verbs never suspend, so each runs in one step of the event loop."""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.stores.any_loop_renewer import AnyLoopRenewer
from redrive.stores.claimed import Claimed
from redrive.stores.interface import EndListener, LeaseRenewer
from redrive.stores.leases import Lease, NewWorker, Reaped, WorkerRecord
from redrive.stores.memory.batches import MemoryBatches
from redrive.stores.memory.claims import claim
from redrive.stores.memory.data import MemoryData, Worker, new_record
from redrive.stores.memory.flow_control import MemoryFlowControl
from redrive.stores.memory.observations import MemoryObservations
from redrive.stores.memory.registry import MemoryRegistry
from redrive.stores.memory.runs import MemoryRuns
from redrive.stores.memory.schedules import MemorySchedules
from redrive.stores.memory.selection import matching_flows, matching_letters
from redrive.stores.queues import QueuePause, QueueRecord
from redrive.stores.records import (
    FINISHED,
    Batch,
    DeadLetter,
    DeadQuery,
    DeadState,
    EventRow,
    FlowQuery,
    FlowRecord,
    FlowStatus,
    HeartbeatRow,
    Message,
    NewFlow,
    RetryQuery,
    RetryRow,
)
from redrive.stores.refusals import flow_exists, flow_not_owned, lease_lost, queue_has_limit


class MemoryStore(MemoryBatches, MemoryFlowControl, MemoryObservations, MemoryRegistry, MemoryRuns, MemorySchedules):
    """Flows in memory; stores that are given the same `data` share them."""

    def __init__(self, data: MemoryData | None = None) -> None:
        self.address = "memory://"
        self._data = data or MemoryData()
        self._epochs: set[int] = set()

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        """Close the store; workers that hold a lease through it count as dead from now on."""
        for epoch in self._epochs & self._data.workers.keys():
            self._data.workers[epoch].dead = True
        self._epochs.clear()

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._data.listeners.add(wake)

    def on_ended(self, ended: EndListener) -> Callable[[], None]:
        return self._data.end_listeners.add(ended)

    # Leases

    async def acquire_lease(self, worker: NewWorker, ttl: float) -> Lease:
        data, now = self._data, SYSTEM_CLOCK.wall()
        data.last_epoch += 1
        lease = Lease(data.last_epoch, worker.name, worker.version)
        data.workers[lease.epoch] = Worker(lease, worker, now, now + ttl, SYSTEM_CLOCK.monotonic() + ttl)
        self._epochs.add(lease.epoch)
        return lease

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        worker = self._data.holder(lease)
        if worker is None:
            return False
        worker.expires_at, worker.expires_at_monotonic = SYSTEM_CLOCK.wall() + ttl, SYSTEM_CLOCK.monotonic() + ttl
        return True

    def lease_renewer(self) -> LeaseRenewer:
        return AnyLoopRenewer(self)

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        worker = self._data.workers.get(lease.epoch)
        if worker is not None:
            worker.suspect, worker.blame = flow_id, blame

    async def release_lease(self, lease: Lease) -> None:
        if self._data.end_lease(lease.epoch, lost=0):
            self._data.listeners.notify()

    async def reap_leases(self) -> list[Reaped]:
        data, now = self._data, SYSTEM_CLOCK.monotonic()
        expired = [one.lease for one in data.workers.values() if one.dead or one.expires_at_monotonic <= now]
        reaped = [Reaped(lease.worker, lease.epoch, data.end_lease(lease.epoch, lost=1)) for lease in expired]
        if any(one.flows for one in reaped):
            data.listeners.notify()
        return reaped

    async def list_workers(self) -> list[WorkerRecord]:
        now = SYSTEM_CLOCK.monotonic()
        return [
            WorkerRecord(
                epoch=epoch,
                name=one.worker.name,
                definitions=one.worker.definitions,
                queues=one.worker.queues,
                joined_at=one.joined_at,
                expires_at=one.expires_at,
                alive=one.expires_at_monotonic > now,
                flows=len(self._data.owned.get(epoch, ())),
                version=one.worker.version,
            )
            for epoch, one in self._data.workers.items()
            if not one.dead
        ]

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        return self._data.add_flows(flows)

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str] = (),
    ) -> Claimed:
        worker = self._data.valid_holder(lease)
        worker.worker = msgspec.structs.replace(worker.worker, definitions=tuple(definitions))
        return claim(self._data, lease, definitions, queues, limit, now, skipped)

    async def take_flow(self, lease: Lease, flow_id: str) -> FlowRecord | None:
        data = self._data
        data.valid_holder(lease)
        flow = data.flows.get(flow_id)
        if flow is None or flow.owner is not None or flow.status in FINISHED:
            return None
        data.put(msgspec.structs.replace(flow, status="running", owner=lease.epoch, claims=flow.claims + 1))
        return data.flows[flow_id]

    async def commit(self, lease: Lease, batch: Batch) -> None:
        data = self._data
        worker = data.valid_holder(lease)
        self._validate(lease, batch)
        for flow in batch.new_flows:
            data.put(msgspec.structs.replace(new_record(flow), status="running", owner=lease.epoch, claims=1))
        for event in batch.events:
            data.events.setdefault(event.flow_id, {})[event.seq] = event
        for change in batch.flows:
            data.change(change)
        data.retries.update({(row.flow_id, row.item): row for row in batch.retries})
        data.heartbeats.update({(row.flow_id, row.item): row for row in batch.heartbeats})
        data.dead.update({letter.flow_id: letter for letter in batch.dead})
        for done in batch.retries_done:
            data.retries.pop(done, None)
            data.heartbeats.pop(done, None)
        for message in batch.messages_read:
            data.messages.pop(message, None)
        for child in batch.children:
            self._add_child(*child)
        for sent in batch.sends:
            data.send(sent.flow_id, sent.body, sent.at, sent.reopens)
        worker.last_batch = batch.number
        if batch.flows or batch.children or batch.sends:
            data.listeners.notify()
            if data.end_listeners and (ended := batch.ended):
                data.end_listeners.notify(ended)

    def _add_child(self, flow: NewFlow, refusal: str) -> None:
        data = self._data
        if flow.key is not None and (flow.definition, flow.key) in data.keys:
            data.send(flow.parent or "", refusal, flow.created_at, reopens=False)
            return
        data.put(new_record(flow))
        if flow.key is not None:
            data.keys[flow.definition, flow.key] = flow.id

    def _validate(self, lease: Lease, batch: Batch) -> None:
        written: set[tuple[str, int]] = set()
        for flow_id, seq, _at, _body in batch.events:
            if (flow_id, seq) in written or seq in self._data.events.get(flow_id, ()):
                raise StoreError(f"event {seq} of flow {flow_id} already exists; nothing was written")
            written.add((flow_id, seq))
        for flow in (*batch.new_flows, *(flow for flow, _ in batch.children)):
            if flow.id in self._data.flows:
                raise flow_exists(flow.id)
        for flow in batch.new_flows:
            if flow.queue in self._data.queue_settings:
                raise queue_has_limit(flow.queue)
        owned = {*self._data.owned.get(lease.epoch, {}), *(flow.id for flow in batch.new_flows)}
        for change in batch.flows:
            if change.flow_id not in owned:
                raise flow_not_owned(lease, change.flow_id)

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        worker = self._data.workers.get(lease.epoch)
        if worker is None:
            raise lease_lost(lease)
        return worker.last_batch >= batch.number

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        data, logs = self._data, dict[str, list[EventRow]]()
        for one in flow_ids:
            flow = data.flows.get(one)
            after = 0 if flow is None else flow.run_from
            logs[one] = [event for seq, event in sorted(data.events.get(one, {}).items()) if seq > after]
        return logs

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        log = self._data.events.get(flow_id, {})
        return [log[one] for one in heapq.nsmallest(limit, (one for one in log if one > seq))]

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]:
        wanted = set(flow_ids)
        return [row for row in self._data.heartbeats.values() if row.flow_id in wanted]

    async def find_flow(self, flow_id: str) -> FlowRecord | None:
        return self._data.flows.get(flow_id)

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]:
        return {one: self._data.flows[one] for one in flow_ids if one in self._data.flows}

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]:
        return list(itertools.islice(matching_flows(self._data, query), query.limit))

    async def prune(self, finished_before: float, limit: int) -> int:
        data = self._data
        open_letters = {letter.flow_id for letter in data.dead.values() if letter.state == "dead"}
        old = (
            (flow.finished_at, flow.id)
            for flow in data.flows.values()
            if flow.finished_at is not None and flow.finished_at < finished_before and flow.status in FINISHED
        )
        pruned = [one for _, one in heapq.nsmallest(limit, (flow for flow in old if flow[1] not in open_letters))]
        data.remove(pruned)
        return len(pruned)

    # Inbox

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        status = self._data.send(flow_id, body, now, reopens)
        self._data.listeners.notify()
        return status

    async def read_inbox(self, lease: Lease) -> list[Message]:
        owned = self._data.owned.get(lease.epoch, {})
        return [message for message in self._data.messages.values() if message.flow_id in owned]

    async def count_unread(self, flow_id: str) -> int:
        return sum(message.flow_id == flow_id for message in self._data.messages.values())

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]:
        wanted = (
            row
            for row in self._data.retries.values()
            if query.flow_id in (None, row.flow_id)
            and (not query.flow_ids or row.flow_id in query.flow_ids)
            and query.queue in (None, row.queue)
        )
        return heapq.nsmallest(query.limit, wanted, key=lambda row: (row.scheduled_at, row.flow_id, row.item))

    async def list_dead_letters(self, query: DeadQuery) -> list[DeadLetter]:
        return list(itertools.islice(matching_letters(self._data, query), query.limit))

    async def close_dead_letters(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        data, closed = self._data, []
        for flow_id in flow_ids:
            letter = data.dead.get(flow_id)
            if letter is None or letter.state != "dead":
                continue
            data.dead[flow_id] = msgspec.structs.replace(letter, state=state, by=by, why=why, closed_at=now)
            if message is not None:
                data.send(flow_id, message, now, reopens=True)
            closed.append(flow_id)
        if message is not None:
            data.listeners.notify()
        return closed

    async def set_queue_pause(self, queue: str, pause: QueuePause | None) -> bool:
        changed = self._data.set_pause(queue, pause)
        self._data.listeners.notify()
        return changed

    async def list_queues(self, now: float, queue: str | None = None) -> list[QueueRecord]:
        return self._data.queues(now, queue)

    async def count_retries(self) -> dict[str, int]:
        return dict(Counter(row.queue for row in self._data.retries.values()))

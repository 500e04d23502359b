"""The data of a memory store. Several stores can share it, as processes share a database."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.stores.activity import ActivityRow
from redrive.stores.audit import LONGEST_AUDIT, AuditEntry
from redrive.stores.batches import BatchRow
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.queues import NO_SETTINGS, QueuePause, QueueRecord, QueueSettings
from redrive.stores.records import (
    FINISHED,
    NEVER_READS_AGAIN,
    DeadLetter,
    EventRow,
    FlowChange,
    FlowRecord,
    FlowStatus,
    HeartbeatRow,
    Message,
    NewFlow,
    RetryRow,
)
from redrive.stores.refusals import flow_exists, lease_lost
from redrive.stores.registry_rows import KeyRow, StepRow
from redrive.stores.runs import EndedRun
from redrive.stores.schedules import ScheduleRow
from redrive.stores.turns import LineName, Place, Served
from redrive.stores.wake_listeners import WakeListeners
from redrive.stores.worker_reports import DependencyOrder, WorkerReport


class Worker(msgspec.Struct):
    """A worker and its lease."""

    lease: Lease
    worker: NewWorker
    joined_at: float
    expires_at: float
    expires_at_monotonic: float
    """The expiry by the monotonic clock, which nobody can set. It decides."""
    last_batch: int = 0
    dead: bool = False
    """Whether the worker's store was closed."""
    suspect: str | None = None
    """The flow to blame if the worker is reaped."""
    blame: str = ""


class MemoryData:
    """The tables of a memory store."""

    def __init__(self) -> None:
        self.flows: dict[str, FlowRecord] = {}
        self.keys: dict[tuple[str, str], str] = {}
        """(definition, key) -> flow id."""
        self.claimable: dict[str, None] = {}
        """The ids of flows that are ready or waiting."""
        self.owned: dict[int, dict[str, None]] = {}
        """Epoch -> the ids of its flows."""
        self.events: dict[str, dict[int, EventRow]] = {}
        """Flow id -> seq -> events."""
        self.ended_runs: dict[str, list[EndedRun]] = {}
        """Flow id -> its earlier runs, oldest first."""
        self.retries: dict[tuple[str, int], RetryRow] = {}
        self.heartbeats: dict[tuple[str, int], HeartbeatRow] = {}
        self.dead: dict[str, DeadLetter] = {}
        self.messages: dict[int, Message] = {}
        """Unread messages."""
        self.workers: dict[int, Worker] = {}
        self.queue_settings: dict[str, QueueSettings] = {}
        self.rates: dict[Place, float] = {}
        """The levels of rates."""
        self.turns: dict[LineName, Served] = {}
        self.pauses: dict[str, QueuePause] = {}
        self.reports: dict[int, WorkerReport] = {}
        """By epoch."""
        self.activity: dict[tuple[float, str, str, str, str], ActivityRow] = {}
        """By minute, definition, step, dependency and outcome."""
        self.orders: dict[str, DependencyOrder] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        self.batches: dict[str, BatchRow] = {}
        self.steps: dict[str, StepRow] = {}
        self.access_keys: dict[str, KeyRow] = {}
        self.audit: dict[int, AuditEntry] = {}
        """By id, oldest first."""
        self._last_audit = 0
        self.listeners, self.end_listeners = WakeListeners(), WakeListeners()
        self.last_epoch = 0
        self.last_message = 0

    def put(self, flow: FlowRecord) -> None:
        """Store the flow, replacing its earlier version."""
        before = self.flows.get(flow.id)
        if before is not None and before.owner is not None:
            self.owned.get(before.owner, {}).pop(flow.id, None)
        if flow.owner is not None:
            self.owned.setdefault(flow.owner, {})[flow.id] = None
        if flow.status in ("ready", "waiting"):
            self.claimable[flow.id] = None
        else:
            self.claimable.pop(flow.id, None)
        self.flows[flow.id] = flow

    def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        new: dict[str, FlowRecord] = {}
        keys: dict[tuple[str, str], str] = {}
        answers: list[FlowRecord | None] = []
        for flow in flows:
            if flow.key is not None:
                holder = self.keys.get((flow.definition, flow.key)) or keys.get((flow.definition, flow.key))
                if holder is not None:
                    answers.append(self.flows.get(holder) or new[holder])
                    continue
                keys[flow.definition, flow.key] = flow.id
            if (known := self.flows.get(flow.id)) is not None and flow.was_added_as(known):
                answers.append(known)
                continue
            if known is not None or flow.id in new:
                raise flow_exists(flow.id)
            new[flow.id] = new_record(flow)
            answers.append(None)
        for record in new.values():
            self.put(record)
        self.keys.update(keys)
        if new:
            self.listeners.notify()
        return answers

    def change(self, change: FlowChange) -> None:
        flow = self.flows[change.flow_id]
        status, wake_at = change.status, change.wake_at
        finished_at = change.finished_at
        has_unread = flow.messages_sent > change.messages_read
        if has_unread and change.yields_to_unread:
            status, wake_at, finished_at = "ready", None, None
        elif has_unread and status in NEVER_READS_AGAIN:
            self.messages = {key: row for key, row in self.messages.items() if row.flow_id != flow.id}
        if change.run_from is not None:
            ended = EndedRun(
                run_from=flow.run_from, run_to=change.run_from, ended_at=change.wake_at or 0.0, input=flow.input
            )
            self.ended_runs.setdefault(flow.id, []).append(ended)
        owner = flow.owner if status == "running" else None
        self.put(
            msgspec.structs.replace(
                flow,
                status=status,
                wake_at=wake_at,
                owner=owner,
                messages_read=change.messages_read,
                finished_at=finished_at,
                lost_owners=change.lost_owners,
                blame=flow.blame if change.blame is None else change.blame or None,
                input=flow.input if change.input is None else change.input,
                run_from=flow.run_from if change.run_from is None else change.run_from,
                version=flow.version if change.version is None else change.version or None,
            )
        )

    def send(self, flow_id: str, body: str, now: float, reopens: bool) -> FlowStatus | None:
        flow = self.flows.get(flow_id)
        if flow is None:
            return None
        if flow.status in FINISHED and not (reopens and flow.status == "failed"):
            return flow.status
        self.last_message += 1
        self.messages[self.last_message] = Message(self.last_message, flow_id, now, body)
        if flow.status == "running":
            self.put(msgspec.structs.replace(flow, messages_sent=flow.messages_sent + 1))
        else:
            wake_at = flow.wake_at if flow.status == "ready" else now
            self.put(
                msgspec.structs.replace(
                    flow, messages_sent=flow.messages_sent + 1, status="ready", wake_at=wake_at, finished_at=None
                )
            )
        return flow.status

    def owned_in(self, queue: str) -> int:
        """Return how many flows of the queue are owned, by any worker."""
        return sum(self.flows[one].queue == queue for flows in self.owned.values() for one in flows)

    def held_in(self, queue: str) -> Counter[str]:
        """Return how many flows of the queue are owned, by concurrency key."""
        owned = (self.flows[one] for flows in self.owned.values() for one in flows)
        return Counter(flow.concurrency_key for flow in owned if flow.queue == queue and flow.concurrency_key)

    def holder(self, lease: Lease) -> Worker | None:
        """Return the worker that holds the lease, or None when the lease is not valid."""
        worker = self.workers.get(lease.epoch)
        return worker if worker is not None and worker.expires_at_monotonic > SYSTEM_CLOCK.monotonic() else None

    def valid_holder(self, lease: Lease) -> Worker:
        """Return the worker that holds the lease; LeaseLostError when the lease is not valid."""
        worker = self.holder(lease)
        if worker is None:
            raise lease_lost(lease)
        return worker

    def end_lease(self, epoch: int, *, lost: int) -> int:
        """End a lease and make its flows ready; return how many.

        `lost` is added to their count of lost owners, or to that of the flow which is to blame.
        """
        worker = self.workers.pop(epoch, None)
        self.reports.pop(epoch, None)
        suspect = worker.suspect if worker is not None else None
        flows = self.owned.pop(epoch, {})
        for flow_id in flows:
            flow = self.flows[flow_id]
            counted = flow.lost_owners + (lost if suspect in (None, flow_id) else 0)
            blame = worker.blame if worker is not None and lost and suspect == flow_id else flow.blame
            self.put(msgspec.structs.replace(flow, status="ready", owner=None, lost_owners=counted, blame=blame))
        return len(flows)

    def remove(self, flow_ids: Collection[str]) -> None:
        """Remove these flows and all their rows."""
        for flow_id in flow_ids:
            flow = self.flows.pop(flow_id)
            if flow.key is not None:
                del self.keys[flow.definition, flow.key]
            self.events.pop(flow_id, None)
            self.dead.pop(flow_id, None)
            self.ended_runs.pop(flow_id, None)
        gone = set(flow_ids)
        self.retries = {key: row for key, row in self.retries.items() if row.flow_id not in gone}
        self.heartbeats = {key: row for key, row in self.heartbeats.items() if row.flow_id not in gone}
        self.messages = {key: row for key, row in self.messages.items() if row.flow_id not in gone}

    def add_audit_entry(self, entry: AuditEntry, keep: int) -> None:
        self._last_audit += 1
        self.audit[self._last_audit] = msgspec.structs.replace(entry, id=self._last_audit)
        while (oldest := next(iter(self.audit.values()))).id <= self._last_audit - keep or (
            oldest.at < entry.at - LONGEST_AUDIT
        ):
            del self.audit[oldest.id]

    def configure_queue(self, queue: str, changes: Mapping[str, Any]) -> None:
        before = self.queue_settings.get(queue, NO_SETTINGS)
        after = msgspec.structs.replace(before, **changes)
        if after == NO_SETTINGS:
            self.queue_settings.pop(queue, None)
        else:
            self.queue_settings[queue] = after
        for place in [place for place in self.rates if place[0] == queue]:
            if before.rate != after.rate if place[1] == "" else before.key_rate != after.key_rate:
                del self.rates[place]

    def set_pause(self, queue: str, pause: QueuePause | None) -> bool:
        """Pause or resume the queue; return whether that changed anything."""
        was_paused = queue in self.pauses
        if pause is None:
            self.pauses.pop(queue, None)
        else:
            self.pauses.setdefault(queue, pause)
        return was_paused == (pause is None)

    def queues(self, now: float, only: str | None) -> list[QueueRecord]:
        """Return the queues that have settings, a pause or flows, with how many of their flows are in each state."""
        counts: dict[str, Counter[str]] = {queue: Counter() for queue in (*self.queue_settings, *self.pauses)}
        for flow in self.flows.values():
            if flow.status not in FINISHED:
                of_queue = counts.setdefault(flow.queue, Counter())
                of_queue[flow.status] += 1
                of_queue["due"] += flow.status == "waiting" and flow.wake_at is not None and flow.wake_at <= now
        return [
            QueueRecord(
                name=queue,
                pause=self.pauses.get(queue),
                ready=of_queue["ready"],
                waiting=of_queue["waiting"],
                due=of_queue["due"],
                running=of_queue["running"],
                paused=of_queue["paused"],
                parked=of_queue["parked"],
                **msgspec.structs.asdict(self.queue_settings.get(queue, NO_SETTINGS)),
            )
            for queue, of_queue in sorted(counts.items())
            if only in (None, queue)
        ]


def new_record(flow: NewFlow) -> FlowRecord:
    return FlowRecord(
        **msgspec.structs.asdict(flow),
        status=flow.initial_status,
        wake_at=flow.start_at,
        owner=None,
        claims=0,
        messages_sent=0,
        messages_read=0,
        finished_at=None,
    )

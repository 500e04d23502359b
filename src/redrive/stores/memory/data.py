"""What a memory store keeps. Several stores may share it, as processes share a database."""

from collections.abc import Callable, Collection

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError
from redrive.stores.records import (
    FINISHED,
    DeadLetter,
    EventRow,
    FlowChange,
    FlowRecord,
    FlowStatus,
    HeartbeatRow,
    KeyRow,
    Lease,
    Message,
    NewWorker,
    RetryRow,
    StepRow,
)


class Worker(msgspec.Struct):
    lease: Lease
    worker: NewWorker
    joined_at: float
    expires_at: float
    lapses_at: float
    """When that is by the machine's monotonic clock, which nobody sets: it counts."""
    batch: int = 0
    gone: bool = False
    """Its store was closed."""


class MemoryData:
    def __init__(self) -> None:
        self.flows: dict[str, FlowRecord] = {}
        self.keys: dict[tuple[str, str], str] = {}
        """(definition, key) -> flow."""
        self.claimable: dict[str, None] = {}
        """The flows that are ready or waiting."""
        self.owned: dict[int, dict[str, None]] = {}
        """Epoch -> flows."""
        self.events: dict[str, dict[int, EventRow]] = {}
        """Flow -> seq -> event."""
        self.retries: dict[tuple[str, int], RetryRow] = {}
        self.heartbeats: dict[tuple[str, int], HeartbeatRow] = {}
        self.dead: dict[str, DeadLetter] = {}
        self.messages: dict[int, Message] = {}
        """Those that are unread."""
        self.workers: dict[int, Worker] = {}
        self.limits: dict[str, int] = {}
        self.steps: dict[str, StepRow] = {}
        self.access_keys: dict[str, KeyRow] = {}
        self.listeners: dict[object, Callable[[], None]] = {}
        self.last_epoch = 0
        self.last_message = 0

    def put(self, flow: FlowRecord) -> None:
        """Keep the flow as it is now, in place of what it was."""
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

    def change(self, change: FlowChange) -> None:
        flow = self.flows[change.flow_id]
        status, wake_at = change.status, change.wake_at
        finished_at = change.finished_at
        # A failed one may be taken up again by what it has not read.
        if status not in ("running", "completed", "cancelled") and flow.mail > change.mail_read:
            status, wake_at, finished_at = "ready", None, None
        elif status != "running" and flow.mail > change.mail_read:
            self.messages = {key: row for key, row in self.messages.items() if row.flow_id != flow.id}
        owner = flow.owner if status == "running" else None
        self.put(
            msgspec.structs.replace(
                flow,
                status=status,
                wake_at=wake_at,
                owner=owner,
                mail_read=change.mail_read,
                finished_at=finished_at,
                lost=change.lost,
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
            self.put(msgspec.structs.replace(flow, mail=flow.mail + 1))
        else:
            wake_at = flow.wake_at if flow.status == "ready" else now
            self.put(
                msgspec.structs.replace(flow, mail=flow.mail + 1, status="ready", wake_at=wake_at, finished_at=None)
            )
        return flow.status

    def owned_in(self, queue: str) -> int:
        """How many flows of the queue are owned, by whomever."""
        return sum(self.flows[one].queue == queue for flows in self.owned.values() for one in flows)

    def valid(self, lease: Lease) -> Worker | None:
        worker = self.workers.get(lease.epoch)
        return worker if worker is not None and worker.lapses_at > SYSTEM_CLOCK.monotonic() else None

    def checked(self, lease: Lease) -> Worker:
        worker = self.valid(lease)
        if worker is None:
            raise LeaseLostError(f"the lease of {lease.worker} (epoch {lease.epoch}) ran out or was taken away")
        return worker

    def end(self, epoch: int, *, lost: int) -> int:
        """End a lease: its flows become ready. How many they were. `lost`: 1 where their owner was."""
        self.workers.pop(epoch, None)
        flows = self.owned.pop(epoch, {})
        for flow_id in flows:
            flow = self.flows[flow_id]
            self.put(msgspec.structs.replace(flow, status="ready", owner=None, lost=flow.lost + lost))
        return len(flows)

    def remove(self, flow_ids: Collection[str]) -> None:
        """Remove these flows and all that belongs to them."""
        for flow_id in flow_ids:
            flow = self.flows.pop(flow_id)
            if flow.key is not None:
                del self.keys[flow.definition, flow.key]
            self.events.pop(flow_id, None)
            self.dead.pop(flow_id, None)
        gone = set(flow_ids)
        self.retries = {key: row for key, row in self.retries.items() if row.flow_id not in gone}
        self.heartbeats = {key: row for key, row in self.heartbeats.items() if row.flow_id not in gone}
        self.messages = {key: row for key, row in self.messages.items() if row.flow_id not in gone}

    def wake(self) -> None:
        for wake in list(self.listeners.values()):
            wake()

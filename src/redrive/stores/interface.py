"""The verbs that the engine asks of a store. Each is one transaction, and one conformance suite tests every store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from redrive.stores.audit import MOST_AUDIT_ENTRIES, AuditEntry, AuditQuery
from redrive.stores.batches import Batches
from redrive.stores.claimed import Claimed
from redrive.stores.flow_control import FlowControl
from redrive.stores.leases import Lease, NewWorker, Reaped, WorkerRecord
from redrive.stores.observations import Observations
from redrive.stores.queues import QueuePause, QueueRecord
from redrive.stores.records import (
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
from redrive.stores.registry_rows import KeyRow, StepRow
from redrive.stores.runs import Runs
from redrive.stores.schedules import Schedules

EndListener = Callable[[Sequence[str] | None], None]


class Registry(Protocol):
    """What is kept beside flows: the catalogue of steps, the access keys of the HTTP API, and the audit log."""

    async def put_step(self, step: StepRow) -> bool:
        """Add the step, or replace the one of the same name; return True when it was added."""
        ...

    async def drop_step(self, name: str) -> bool:
        """Remove the step; return False when there is none."""
        ...

    async def list_steps(self) -> list[StepRow]:
        """Return all steps, sorted by name."""
        ...

    async def add_key(self, key: KeyRow) -> None:
        """Add the key; StoreError when its id is taken."""
        ...

    async def drop_key(self, id: str) -> bool:  # noqa: A002 - named as the field is
        """Remove the key; return False when there is none."""
        ...

    async def list_keys(self) -> list[KeyRow]:
        """Return all keys, oldest first."""
        ...

    async def expire_key(self, id: str, at: float) -> bool:  # noqa: A002 - named as the field is
        """Let the key expire at that time, unless it does so earlier; return False when there is none."""
        ...

    async def mark_keys_used(self, used: Mapping[str, float]) -> None:
        """Keep when these keys, by id, were last used; earlier times change nothing."""
        ...

    async def add_audit_entries(self, entries: Sequence[AuditEntry], keep: int = MOST_AUDIT_ENTRIES) -> None:
        """Add all entries or none; remove all but the newest `keep` and those that are too old (LONGEST_AUDIT)."""
        ...

    async def list_audit_entries(self, query: AuditQuery) -> list[AuditEntry]: ...


class LeaseRenewer(Protocol):
    """Keeps a lease from an event loop of its own, in another thread, while the store's loop may be blocked."""

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        """As `Store.extend_lease`."""
        ...

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        """As `Store.accuse`."""
        ...

    async def close(self) -> None: ...


class Store(Registry, Observations, Schedules, Batches, FlowControl, Runs, Protocol):
    """Durable storage of flows. The store's own clock decides about leases; all other times are arguments."""

    address: str
    """The store's address to show, without the password."""

    async def open(self) -> None:
        """Connect and migrate the schema; StoreUnusableError when a newer redrive has migrated it."""
        ...

    async def close(self) -> None: ...

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` in this event loop when there may be flows to claim or messages to read.

        Returns a function that ends it. Calls may be missed, so listeners poll as well.
        """
        ...

    def on_ended(self, ended: EndListener) -> Callable[[], None]:
        """Call `ended` in this event loop with the ids of flows that ended, or with None when any may have ended.

        Returns a function that ends it. Calls may be missed, so listeners poll as well.
        """
        ...

    # Leases

    async def acquire_lease(self, worker: NewWorker, ttl: float) -> Lease:
        """Return a new lease for `ttl` seconds; StoreUnusableError when a newer redrive has migrated the store."""
        ...

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        """Make the lease expire `ttl` seconds from now; return False when it is no longer valid."""
        ...

    def lease_renewer(self) -> LeaseRenewer:
        """Return `extend_lease` and `accuse` for use in another thread; the caller closes it."""
        ...

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        """Note which flow is to blame if the lease is not released but reaped; None for no flow.

        Reaping the lease then sets the flow's `blame` and counts a lost owner for that flow alone. An expired lease
        that was not reaped yet can still accuse; after that nothing happens.
        """
        ...

    async def release_lease(self, lease: Lease) -> None:
        """End the lease; the flows that it still owns become ready."""
        ...

    async def reap_leases(self) -> list[Reaped]:
        """End all leases that have expired or whose worker is known to be dead; their flows become ready."""
        ...

    async def list_workers(self) -> list[WorkerRecord]:
        """Return the workers whose lease was neither released nor reaped, except those known to be dead."""
        ...

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        """Add flows. For each, return None when it was added, or the flow that already has its definition and key.

        A flow that was added before, by a call whose answer was lost, is returned too: after CommitUnknownError, call
        again. StoreError, and nothing is added, when another flow has the id.
        """
        ...

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str] = (),
    ) -> Claimed:
        """Take ownership of up to `limit` flows that are ready, or waiting and due; LeaseLostError without a lease.

        skipped: those of the definitions whose flows are left to others this time.

        Higher priority goes first, then the earlier wake-up; between the flows of a queue that have a concurrency key,
        the keys take turns. No two claims get the same flow, and no claim takes more of a queue or a key than its
        limits and rates allow (`redrive.stores.turns`). Flows of a paused queue are not claimed, nor do they count for
        `next_wake`. The worker is listed with these definitions from then on.
        """
        ...

    async def take_flow(self, lease: Lease, flow_id: str) -> FlowRecord | None:
        """Take ownership of a flow that has not finished and that nobody owns, whatever it waits for.

        None when there is no such flow; LeaseLostError without a lease.
        """
        ...

    async def commit(self, lease: Lease, batch: Batch) -> None:
        """Write the batch if the lease is valid in the same transaction, else raise LeaseLostError. Extends no lease.

        Removes the unread messages of flows that end as completed or cancelled. StoreError, and nothing is written,
        when a new flow is in a queue with a limit: such flows must be claimed. CommitUnknownError when the outcome is
        unknown; ask `committed` then.
        """
        ...

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        """Return whether the last batch sent under the lease was committed; after False it never will be.

        LeaseLostError when the lease is gone.
        """
        ...

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        """Return the logs of these flows' current runs, in order; a flow without events has an empty list.

        The first row may begin with events of the run before.
        """
        ...

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        """Return up to `limit` rows of a flow's log after `seq`, in order."""
        ...

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]: ...

    async def find_flow(self, flow_id: str) -> FlowRecord | None: ...

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]: ...

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]: ...

    async def prune(self, finished_before: float, limit: int) -> int:
        """Remove up to `limit` flows that finished before then, with all their rows; return how many.

        Removes fewer where long logs would hold up other writers; returns 0 when none are left. A flow whose dead
        letter is still open stays.
        """
        ...

    # Inbox

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        """Put a message into a flow's inbox; return the status the flow had, or None when there is no such flow.

        A flow without an owner becomes ready. A finished flow gets no messages, except that `reopens` makes a failed
        flow ready.
        """
        ...

    async def read_inbox(self, lease: Lease) -> list[Message]:
        """Return the unread messages of all flows that the lease owns, oldest first."""
        ...

    async def count_unread(self, flow_id: str) -> int:
        """Return how many messages of a flow are unread now; its record counts those read at its last release."""
        ...

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]: ...

    async def list_dead_letters(self, query: DeadQuery) -> list[DeadLetter]: ...

    async def close_dead_letters(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        """Close the letters that are still "dead", and return their flows.

        With a `message`, send it to these flows and reopen them.
        """
        ...

    async def set_queue_pause(self, queue: str, pause: QueuePause | None) -> bool:
        """Pause the queue, or resume it with None; return whether that changed anything.

        A queue that is paused already keeps its pause.
        """
        ...

    async def list_queues(self, now: float, queue: str | None = None) -> list[QueueRecord]:
        """Return the queues that have flows, settings or a pause, sorted by name; or this one, if it has any."""
        ...

    async def count_retries(self) -> dict[str, int]:
        """Return how many work items of each queue wait for another attempt or are in it."""
        ...


Connect = Callable[[str], Store]
"""Makes the store for an address, without opening it."""

Connection = Any
"""The caller's own database connection, of any supported library."""

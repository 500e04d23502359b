"""What the engine asks of a store. Every verb is one transaction; every store passes one conformance suite."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redrive.stores.records import (
    Batch,
    Claimed,
    DeadLetter,
    DeadQuery,
    DeadState,
    EventRow,
    FlowQuery,
    FlowRecord,
    FlowStatus,
    HeartbeatRow,
    KeyRow,
    Lease,
    Message,
    NewFlow,
    NewWorker,
    QueueRecord,
    Reaped,
    RetryQuery,
    RetryRow,
    StepRow,
    WorkerRecord,
)


class Store(Protocol):
    """Leases are judged by the store's own clock; every other time comes in as an argument."""

    address: str
    """Where it is, for people: without password."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date; a schema newer than this code is refused (StoreUnusableError)."""
        ...

    async def close(self) -> None: ...

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called (in this event loop) when there may be flows to claim or mail to read.

        What is returned ends that. Calls may be missed: whoever listens polls now and then too.
        """
        ...

    # Workers

    async def join(self, worker: NewWorker, ttl: float) -> Lease:
        """A new lease for `ttl` seconds. StoreUnusableError when a newer redrive has changed the store meanwhile."""
        ...

    async def renew(self, lease: Lease, ttl: float) -> bool:
        """Hold it for `ttl` seconds from now; False when it has run out or was taken away."""
        ...

    async def leave(self, lease: Lease) -> None:
        """End the lease; flows still owned become ready."""
        ...

    async def reap(self) -> list[Reaped]:
        """End all leases that ran out, or whose holder is known to be gone; their flows become ready."""
        ...

    async def list_workers(self) -> list[WorkerRecord]:
        """All that have a lease, or had one that ran out and was not reaped yet; not those known to be gone."""
        ...

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        """For each: None when it was added; the flow that has its definition and key already when there is one."""
        ...

    async def claim(
        self, lease: Lease, definitions: Sequence[str], queues: Sequence[str] | None, limit: int, now: float
    ) -> Claimed:
        """Own up to `limit` flows that are ready, or waiting and due: highest priority first, then oldest wake-up.

        No two claims get the same flow. Where a queue has a limit, no more of its flows are owned at once in all.
        The worker is listed with these definitions from then on: it may have come to know more since it joined.
        LeaseLostError when the lease is not valid.
        """
        ...

    async def commit(self, lease: Lease, batch: Batch) -> None:
        """Write the batch, if the lease is valid in the same transaction (else LeaseLostError). Renews nothing.

        What a flow has not read when it ends as completed or cancelled is removed: nobody will.
        StoreError, and nothing is written, when a flow is to be born in a queue that has a limit: those are claimed.
        CommitUnknownError when the outcome cannot be known; `committed` then tells.
        """
        ...

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        """Whether the last batch that was to be committed under the lease was. If not, it never will be by itself.

        LeaseLostError when the lease is gone.
        """
        ...

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        """The logs of these flows, each in order; flows without events have an empty list."""
        ...

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        """The next events of a flow's log after `seq`, in order, up to `limit` of them."""
        ...

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]: ...

    async def find_flow(self, flow_id: str) -> FlowRecord | None: ...

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]: ...

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]: ...

    async def prune(self, finished_before: float, limit: int) -> int:
        """Remove up to `limit` flows that finished before, with all that belongs to them. How many were removed.

        Fewer, where their logs are so long that others would have to wait; 0 when there are none left.
        A flow whose dead letter is unsettled stays, and so does the letter.
        """
        ...

    # Mail

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        """Leave a message for a flow's owner; a flow that has none becomes ready. Answers the status it had.

        None: there is no such flow. A finished flow gets no mail, except that `reopens` makes a failed one ready.
        """
        ...

    async def read_mail(self, lease: Lease) -> list[Message]:
        """The unread messages of all flows that the lease owns, oldest first."""
        ...

    async def count_mail(self, flow_id: str) -> int:
        """How many messages of a flow are unread, now; its record tells how many were when it was last released."""
        ...

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]: ...

    async def list_dead(self, query: DeadQuery) -> list[DeadLetter]: ...

    async def settle_dead(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        """Mark dead letters (those still "dead") and, with a `message`, send it to their flows, reopening them.

        Answers the flows that were settled.
        """
        ...

    async def set_queue_limit(self, queue: str, limit: int | None) -> None: ...

    async def list_queues(self) -> list[QueueRecord]: ...

    # The catalogue of steps, and the keys that let people in

    async def put_step(self, step: StepRow) -> bool:
        """Put it in place of the one with its name; True when there was none."""
        ...

    async def drop_step(self, name: str) -> bool:
        """False when there is none."""
        ...

    async def list_steps(self) -> list[StepRow]:
        """All, by name."""
        ...

    async def add_key(self, key: KeyRow) -> None:
        """StoreError when there is a key with its id."""
        ...

    async def drop_key(self, id: str) -> bool:  # noqa: A002 - named as the field is
        """False when there is none."""
        ...

    async def list_keys(self) -> list[KeyRow]:
        """All, oldest first."""
        ...


Connect = Callable[[str], Store]
"""Makes the store for an address; nothing is opened yet."""

Connection = Any
"""A caller's own database connection, of whichever library."""

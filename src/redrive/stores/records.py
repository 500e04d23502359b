"""What stores keep: flows, their events, retries, dead letters, messages, workers, steps, keys; times in epoch seconds.

Bodies are JSON texts; a store does not look into them.
"""

from collections.abc import Container
from typing import Any, Literal, NamedTuple

import msgspec

FlowStatus = Literal[
    "ready",  # a worker may claim it
    "waiting",  # a worker may claim it once `wake_at` has come
    "running",  # a worker owns it
    "paused",  # nobody claims it until it is resumed
    "parked",  # it cannot go on, as when its code no longer fits its log; nobody claims it until someone says so
    "completed",
    "failed",
    "cancelled",
]
FINISHED: tuple[FlowStatus, ...] = ("completed", "failed", "cancelled")

DeadState = Literal["dead", "redriven", "discarded"]
RetryStatus = Literal["waiting", "dispatched"]


class _Discreet(msgspec.Struct, frozen=True, gc=False):
    """Shows all but what a flow was started with, and the tokens of attempts: apps hand such rows out."""

    def __repr__(self) -> str:
        shown = (f"{name}={'...' if value is ... else repr(value)}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, ... if name in _NOT_SHOWN else getattr(self, name)) for name in self.__struct_fields__]


_NOT_SHOWN = ("input", "delivery_token")


class NewFlow(_Discreet, frozen=True, kw_only=True, gc=False):
    """A flow to be added. With a `start_at` after `created_at` it is added as waiting, otherwise as ready."""

    id: str
    definition: str
    """What it runs: "workflow:Billing", "action:charge"."""
    input: str
    created_at: float
    start_at: float
    queue: str = "default"
    priority: int = 0
    """Higher goes first."""
    key: str | None = None
    """At most one flow of a definition has it."""


class FlowRecord(_Discreet, frozen=True, gc=False):
    id: str
    definition: str
    input: str
    queue: str
    priority: int
    key: str | None
    status: FlowStatus
    created_at: float
    start_at: float
    wake_at: float | None
    """When a waiting flow may be claimed."""
    owner: int | None
    """The epoch of the worker that owns it."""
    claims: int
    """How often it was claimed; 1 in the answer to the first claim, when it has no events yet."""
    messages_sent: int
    """Messages ever sent to it."""
    messages_read: int
    """How many of them had been read when it was last released."""
    finished_at: float | None
    lost_owners: int = 0
    """How many owners in a row were reaped while they had it, since a commit last said otherwise."""


class EventRow(NamedTuple):
    """Lines of a flow's log that were written together. (flow_id, seq) is unique."""

    flow_id: str
    seq: int
    """The number of the last of them; lines are counted from 1."""
    at: float
    body: str
    """A JSON array of events."""


class FlowChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a commit changes a flow's row. Any status but "running" takes the flow from its owner.

    When the flow is released while it has unread messages, it becomes ready at once instead, unless it is
    completed or cancelled: a failed one may be taken up again by what it has not read.
    """

    flow_id: str
    status: FlowStatus
    wake_at: float | None = None
    messages_read: int = 0
    finished_at: float | None = None
    lost_owners: int = 0


class RetryRow(_Discreet, frozen=True, kw_only=True, gc=False):
    """A work item that waits for its next attempt, or is in it: what waits, and until when."""

    flow_id: str
    item: int
    step: str
    queue: str
    status: RetryStatus
    attempt_number: int
    """From 0: 1 is the first retry. That of the attempt which waits, or is under way: so many were made before it."""
    max_retries: int | None
    """None: no limit."""
    timeout_seconds: float | None
    timeout_retry_limit: int | None
    """Retries left for attempts that time out; None: no limit of their own."""
    backoff_kind: str
    backoff_base_delay_ms: float
    retry_kind: str
    """What triggered the retry: "exception", "timeout", "lost", "snooze", "result", "redrive"."""
    scheduled_at: float
    """When the attempt may begin."""
    timeout_at: float | None = None
    """When the attempt under way will have taken too long."""
    delivery_token: str | None = None
    """The token of the attempt under way."""
    retryable: bool = True
    """Whether it may be tried again after the first attempt."""
    dependencies_satisfied: bool = True
    """Whether what it needs of other steps is there."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that failed for good."""

    flow_id: str
    definition: str
    queue: str
    at: float
    kind: str
    """Why: a kind of giving up, "poison", or "workflow" where the flow's own code failed."""
    step: str
    """The step that failed; empty where the flow's own code did."""
    attempts: int
    error_type: str
    message: str
    payload: str
    """A summary of what it was started with, bounded and without secrets."""
    state: DeadState = "dead"
    by: str | None = None
    """Who redrove or discarded it,"""
    why: str | None = None
    """why,"""
    closed_at: float | None = None
    """and when."""

    @property
    def cursor(self) -> tuple[float, str]:
        """Where it stands in a list, oldest first."""
        return self.at, self.flow_id


class HeartbeatRow(NamedTuple):
    """The latest details that a running attempt left for the one that may follow it."""

    flow_id: str
    item: int
    at: float
    details: str


class Batch(msgspec.Struct):
    """Everything that one transaction of a worker writes; all of it or nothing.

    Rows are put in place in their order, so that the last one for an item or a flow stays; removals come after them.
    """

    number: int
    """Counts the batches of a lease, from 1."""
    new_flows: list[NewFlow] = []
    """Flows to be added that the worker owns from the first; none has a key, and none is to begin later."""
    events: list[EventRow] = []
    flows: list[FlowChange] = []
    retries: list[RetryRow] = []
    """Put in place of the row with the same flow and item."""
    retries_done: list[tuple[str, int]] = []
    """(flow, item) of rows to remove, along with the item's heartbeat."""
    messages_read: dict[int, str] = {}
    """Message id -> the flow that read it. These messages are removed."""
    dead: list[DeadLetter] = []
    """Put in place of the row of the same flow."""
    heartbeats: list[HeartbeatRow] = []

    @property
    def has_only_events(self) -> bool:
        """Then they tell whether it was committed: only the owner of a flow writes its log, and each line once."""
        return bool(self.events) and not (
            self.new_flows
            or self.flows
            or self.retries
            or self.retries_done
            or self.messages_read
            or self.dead
            or self.heartbeats
        )

    def drop_new_flows(self) -> list[NewFlow]:
        """Take out the flows to be added, with all that is written of them."""
        born, self.new_flows = self.new_flows, []
        self.drop_flows({flow.id for flow in born})
        return born

    def drop_flows(self, ids: Container[str]) -> None:
        """Take out all that is written of these flows."""
        self.events = [row for row in self.events if row.flow_id not in ids]
        self.flows = [change for change in self.flows if change.flow_id not in ids]
        self.retries = [row for row in self.retries if row.flow_id not in ids]
        self.retries_done = [done for done in self.retries_done if done[0] not in ids]
        self.messages_read = {message: flow for message, flow in self.messages_read.items() if flow not in ids}
        self.dead = [letter for letter in self.dead if letter.flow_id not in ids]
        self.heartbeats = [row for row in self.heartbeats if row.flow_id not in ids]


class Lease(msgspec.Struct, frozen=True):
    """A worker's right to own flows: a row in the store, valid until it expires or someone takes it away."""

    epoch: int
    """Never given twice."""
    worker: str


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Host and process, for people."""
    definitions: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    """None: all."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    epoch: int
    name: str
    definitions: tuple[str, ...]
    queues: tuple[str, ...] | None
    joined_at: float
    expires_at: float
    alive: bool
    """Whether its lease lasts, by the clock that leases are judged by: the store's, not that of whoever asks."""
    flows: int
    """How many it owns."""


class Reaped(msgspec.Struct, frozen=True):
    """A worker that was gone, and how many of its flows were handed on."""

    worker: str
    epoch: int
    flows: int


class Claimed(msgspec.Struct, frozen=True):
    flows: list[FlowRecord]
    next_wake: float | None
    """When the next waiting flow (of those that could be asked for) may be claimed; always after `now`."""
    more: bool = False
    """True when as many were claimed as were asked for, so that there may be more."""
    limited: bool = False
    """True when a queue has a limit, so that there may be more once a flow has ended."""


class Message(msgspec.Struct, frozen=True):
    id: int
    flow_id: str
    at: float
    body: str


class FlowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which flows to list, newest first."""

    status: tuple[FlowStatus, ...] = ()
    """Empty: any."""
    definition: str | None = None
    queue: str | None = None
    key: str | None = None
    before: str | None = None
    """The id of the last flow of the previous page; that flow may be gone."""
    limit: int = 100


class RetryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which retries to list, the next one first."""

    flow_id: str | None = None
    queue: str | None = None
    limit: int = 100


class DeadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters to list, oldest first."""

    flow_ids: tuple[str, ...] = ()
    """Empty: any."""
    state: DeadState | None = "dead"
    definition: str | None = None
    step: str | None = None
    kind: str | None = None
    error_type: str | None = None
    queue: str | None = None
    after: tuple[float, str] | None = None
    """The `cursor` of the last letter of the previous page. The letter itself may be gone, or have died again."""
    limit: int = 100


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    limit: int | None
    """How many of its flows may be owned at once, in the whole fleet; None: any."""
    ready: int
    waiting: int
    running: int


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the catalogue: what flows that are planned by their goals are made of."""

    name: str
    body: str
    """The step as it was registered."""
    updated_at: float


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key that lets someone in. The key itself is kept nowhere."""

    id: str
    name: str
    """Whose it is, for people."""
    role: str
    digest: str
    created_at: float

"""The records that stores keep. Times are epoch seconds; bodies are JSON texts that a store does not read."""

from collections.abc import Container
from typing import Any, Literal, NamedTuple

import msgspec

from redrive.flows.tags import check_tags
from redrive.flows.waits import WaitsFor
from redrive.stores.sent import Sent

FlowStatus = Literal[
    "ready",  # can be claimed
    "waiting",  # can be claimed from `wake_at` on
    "running",  # owned by a worker
    "paused",  # cannot be claimed until it is resumed
    "parked",  # cannot go on, for example because its code no longer fits its log; someone has to act
    "completed",
    "failed",
    "cancelled",
]
FINISHED: tuple[FlowStatus, ...] = ("completed", "failed", "cancelled")

DeadState = Literal["dead", "redriven", "discarded"]
RetryStatus = Literal["waiting", "dispatched"]


class _Redacted(msgspec.Struct, frozen=True, gc=False):
    """Hides inputs and delivery tokens in its repr, because apps hand these records to user code."""

    def __repr__(self) -> str:
        shown = (f"{name}={'...' if value is ... else repr(value)}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        hidden = ("input", "delivery_token")
        return [(name, ... if name in hidden else getattr(self, name)) for name in self.__struct_fields__]


class NewFlow(_Redacted, frozen=True, kw_only=True, gc=False):
    """A flow to add."""

    id: str
    definition: str
    """What the flow runs, such as "workflow:Billing" or "action:charge"."""
    input: str
    created_at: float
    start_at: float
    queue: str = "default"
    priority: int = 0
    """Higher goes first."""
    key: str | None = None
    """Unique among the flows of a definition."""
    traceparent: str | None = None
    """The W3C trace context of whoever started the flow; None: the flow is a trace of its own."""
    parent: str | None = None
    """The id of the flow that started it as a child."""
    batch: str | None = None
    """The name of the batch that it is a part of."""
    tags: str | None = None
    """Names and texts that operators find flows by, as a JSON object."""
    concurrency_key: str | None = None
    """The flows of a queue that have the same one share its limits per key."""
    version: str | None = None
    """The version of the code that the flow is pinned to; None: any."""
    depth: int = 0
    """How many parents it has above it: 0 unless it is a child."""

    @property
    def initial_status(self) -> FlowStatus:
        return "waiting" if self.start_at > self.created_at else "ready"

    def was_added_as(self, record: "FlowRecord") -> bool:
        """Whether the record is this flow, added before by a start whose answer was lost."""
        return (
            (self.id, self.definition, self.input, self.queue, self.priority, self.key)
            == (record.id, record.definition, record.input, record.queue, record.priority, record.key)
            and abs(self.created_at - record.created_at) < 1e-5  # stores keep microseconds
        )


class FlowRecord(_Redacted, frozen=True, gc=False):
    """A flow as it is stored."""

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
    """When a waiting flow can be claimed."""
    owner: int | None
    """The epoch of the worker that owns the flow."""
    claims: int
    """How often the flow was claimed; 1 in the answer to the first claim, when the flow has no events yet."""
    messages_sent: int
    """How many messages were ever sent to the flow."""
    messages_read: int
    """How many of them had been read when the flow was last released."""
    finished_at: float | None
    lost_owners: int = 0
    """How many owners in a row were reaped while they owned the flow; a commit sets it."""
    blame: str | None = None
    """What is known against the flow, as JSON that a store does not read; see `accuse`."""
    traceparent: str | None = None
    parent: str | None = None
    batch: str | None = None
    tags: str | None = None
    concurrency_key: str | None = None
    version: str | None = None
    run_from: int = 0
    """The number of the event before the log of the current run; more than 0 after `continue_as_new`."""
    depth: int = 0


class EventRow(NamedTuple):
    """Events of a flow's log that were committed together. (flow_id, seq) is unique."""

    flow_id: str
    seq: int
    """The number of the last of these events; events are numbered from 1."""
    at: float
    body: str
    """A JSON array of events."""


class FlowChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a commit changes a flow's row. Any status but "running" releases the flow."""

    flow_id: str
    status: FlowStatus
    wake_at: float | None = None
    messages_read: int = 0
    finished_at: float | None = None
    lost_owners: int = 0
    blame: str | None = None
    """What is known against the flow from now on: "" for nothing; None leaves it as it is."""
    input: str | None = None
    """The input of another run of the flow, which begins with this commit."""
    run_from: int | None = None
    """The number of the event before the log of that run."""
    version: str | None = None
    """The version that the flow is pinned to from now on: "" for none; None leaves it as it is."""

    @property
    def yields_to_unread(self) -> bool:
        """Whether the flow becomes ready instead when it has unread messages.

        A failed flow does, since an unread message may reopen it; a completed or cancelled one never reads again.
        """
        return self.status in _YIELDING


NEVER_READS_AGAIN: tuple[FlowStatus, ...] = ("completed", "cancelled")
"""The statuses in which a flow's unread messages are removed."""
_YIELDING: tuple[FlowStatus, ...] = ("ready", "waiting", "paused", "parked", "failed")


class RetryRow(_Redacted, frozen=True, kw_only=True, gc=False):
    """A row of the retry queue: a work item that waits for its next attempt or is in it."""

    flow_id: str
    item: int
    step: str
    queue: str
    status: RetryStatus
    attempt_number: int
    """The number of the attempt that waits or runs, from 0: 1 is the first retry."""
    max_retries: int | None
    """None: no limit."""
    timeout_seconds: float | None
    timeout_retry_limit: int | None
    """Retries left for attempts that time out; None: no limit of their own."""
    backoff_kind: str
    backoff_base_delay_ms: float
    retry_kind: str
    """What triggered it: "exception", "timeout", "lost", "snooze", "result", "redrive"; "deferred": see `waits_for`."""
    scheduled_at: float
    """When the attempt may begin."""
    timeout_at: float | None = None
    """When the running attempt times out."""
    delivery_token: str | None = None
    """The token of the running attempt."""
    retryable: bool = True
    """Whether the work may be attempted again after the first attempt."""
    dependencies_satisfied: bool = True
    """Whether the steps that this one depends on have delivered what it needs."""
    definition: str = ""
    dependency: str = ""
    """What the step talks to, without passwords; empty for nothing that has a name."""
    waits_for: WaitsFor = ""
    reason: str = ""
    """Why it waits, in words; empty where the other fields say it."""
    error_type: str = ""
    """Of the last failure; empty before the first."""
    since: float | None = None
    """When it began to wait, or when its attempt began."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that failed for good."""

    flow_id: str
    definition: str
    queue: str
    at: float
    kind: str
    """Why the flow failed: the kind of a GiveUp, "poison", or "workflow" where the flow's own code failed."""
    step: str
    """The step that failed; empty where the flow's own code failed."""
    attempts: int
    error_type: str
    message: str
    payload: str
    """A bounded summary of the flow's input, without secrets."""
    state: DeadState = "dead"
    by: str | None = None
    """Who redrove or discarded the letter."""
    why: str | None = None
    """The reason they gave."""
    closed_at: float | None = None
    """When they did."""
    dependency: str = ""
    """What the step talks to, without passwords; empty for nothing that has a name."""

    @property
    def cursor(self) -> tuple[float, str]:
        """The letter's position in a list, oldest first; the next page starts after it."""
        return self.at, self.flow_id


class HeartbeatRow(NamedTuple):
    """The latest heartbeat details of a running attempt, for the attempt that may follow it."""

    flow_id: str
    item: int
    at: float
    details: str


class Batch(msgspec.Struct):
    """Everything that one transaction of a worker writes: all of it or nothing.

    Rows are written in order, so the last one for an item or a flow wins; removals come after them.
    """

    number: int
    """Counts the batches of a lease, from 1."""
    new_flows: list[NewFlow] = []
    """Flows to add that the worker owns from the start. None has a key, and none starts later."""
    events: list[EventRow] = []
    flows: list[FlowChange] = []
    retries: list[RetryRow] = []
    """Each replaces the row with the same flow and item."""
    retries_done: list[tuple[str, int]] = []
    """(flow, item) of rows to remove, along with the item's heartbeat."""
    messages_read: dict[int, str] = {}
    """Message id -> the flow that read it. These messages are removed."""
    dead: list[DeadLetter] = []
    """Each replaces the letter of the same flow."""
    heartbeats: list[HeartbeatRow] = []
    children: list[tuple[NewFlow, str]] = []
    """Child flows to add, which any worker may claim, each with the message for its parent when its key is taken."""
    sends: list[Sent] = []
    """They arrive after everything else is written, the children included."""

    @property
    def has_only_events(self) -> bool:
        """Whether the batch holds nothing but events.

        The log itself then tells whether the batch was committed, since only a flow's owner writes it.
        """
        return bool(self.events) and not (
            self.new_flows
            or self.flows
            or self.retries
            or self.retries_done
            or self.messages_read
            or self.dead
            or self.heartbeats
            or self.children
            or self.sends
        )

    @property
    def ended(self) -> list[str]:
        """The ids of the flows that end with it."""
        return [change.flow_id for change in self.flows if change.status in FINISHED]

    def drop_new_flows(self) -> list[NewFlow]:
        """Remove the flows to add and all their rows; return the flows."""
        new, self.new_flows = self.new_flows, []
        self.drop_flows({flow.id for flow in new})
        return new

    def drop_flows(self, ids: Container[str | None]) -> None:
        """Remove all rows of these flows."""
        self.events = [row for row in self.events if row.flow_id not in ids]
        self.flows = [change for change in self.flows if change.flow_id not in ids]
        self.retries = [row for row in self.retries if row.flow_id not in ids]
        self.retries_done = [done for done in self.retries_done if done[0] not in ids]
        self.messages_read = {message: flow for message, flow in self.messages_read.items() if flow not in ids}
        self.dead = [letter for letter in self.dead if letter.flow_id not in ids]
        self.heartbeats = [row for row in self.heartbeats if row.flow_id not in ids]
        self.children = [child for child in self.children if child[0].parent not in ids]
        self.sends = [sent for sent in self.sends if sent.by not in ids]


class Message(msgspec.Struct, frozen=True):
    """An unread message in a flow's inbox."""

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
    batch: str | None = None
    parent: str | None = None
    tags: dict[str, str] = {}
    """Only flows that have all of these."""
    prefix: str | None = None
    """How their ids begin."""
    before: str | None = None
    """The id of the last flow of the previous page; that flow may be gone."""
    retrying: bool = False
    """Only flows with work in the retry queue: it waits for another attempt, or is in it."""
    waits_for: WaitsFor | None = None
    """Only flows with work in the retry queue that waits for this."""
    dependency: str | None = None
    """Only flows with work in the retry queue, or an open dead letter, that has to do with it."""
    error_type: str | None = None
    """Only flows with work in the retry queue whose last failure it was, or an open dead letter."""
    text: str | None = None
    """How their ids begin, or a part of their key, definition or open dead letter's message, in any case."""
    in_messages: bool = True
    """Whether the text is looked for in messages, which may hold what not everybody may see."""
    created_after: float | None = None
    """Only flows created at this time or later."""
    created_before: float | None = None
    """Only flows created earlier than this."""
    limit: int = 100

    def __post_init__(self) -> None:
        check_tags(self.tags)


class RetryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which retries to list, the next one first."""

    flow_id: str | None = None
    flow_ids: tuple[str, ...] = ()
    """Empty: any."""
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
    dependency: str | None = None
    after: tuple[float, str] | None = None
    """The `cursor` of the last letter of the previous page; that letter may be gone."""
    limit: int = 100

"""The log of a flow that this worker owns."""

from collections.abc import Callable, Container

from redrive.determinism.clock import whole_microseconds
from redrive.flows.events import AnyEvent, FlowParked, write_event
from redrive.flows.history import FlowHistory
from redrive.stores.activity import ActivityOutcome
from redrive.stores.records import FlowChange, FlowRecord, FlowStatus
from redrive.worker.flow.flow_telemetry import report_flow_parked
from redrive.worker.journal import Journal


class FlowLog:
    """Append events to a flow's log, and release the flow.

    An event is folded into the history at once, and becomes durable with the journal's next transaction.
    """

    __slots__ = (
        "_now",
        "_on_released",
        "_paused_queues",
        "_pin",
        "began_at",
        "blame",
        "flow_id",
        "history",
        "is_stored",
        "journal",
        "last_at",
        "messages_read",
        "messages_taken",
        "record",
        "released",
        "seq",
        "version",
    )

    def __init__(
        self,
        record: FlowRecord,
        journal: Journal,
        now: Callable[[], float],
        on_released: Callable[["FlowLog", float | None], None],
        paused_queues: Container[str] = (),
        pin: str = "",
    ) -> None:
        """on_released: called once the release is durable, with the time at which the flow wakes by itself.

        paused_queues: the names of the queues that are paused at the moment.
        pin: the version that the flow is pinned to when it begins here.
        """
        self.record = record
        self.flow_id = record.id
        self.journal = journal
        self.history = FlowHistory()
        self.seq = 0
        self.last_at = record.created_at
        self.began_at: float | None = None
        """When the flow's code ran for the first time."""
        self.messages_read = record.messages_read
        self.messages_taken: dict[int, None] = {}
        """Messages that were delivered: until that is durable, the store still returns them."""
        self.blame: str | None = None
        """What is known against the flow from now on, to be stored with it; None when that has not changed."""
        self.version: str | None = None
        """The version that the flow is pinned to from now on, to be stored with it; None when that has not changed."""
        self._pin = pin
        self.is_stored = True
        """False when the store refused to add the flow."""
        self.released = False
        """True once the flow is given back, or about to be: whatever comes in is for its next owner."""
        self._now = now
        self._on_released = on_released
        self._paused_queues = paused_queues

    def now(self) -> float:
        """The flow's time: never before its last event, whatever the clocks of its owners say."""
        # Stores keep microseconds, and a replay must see the same times.
        now = whole_microseconds(self._now())
        return now if now > self.last_at else self.last_at

    def append(self, at: float, event: AnyEvent) -> None:
        """Apply an event to the history and log it."""
        if at < self.last_at:
            # Within one turn, a slot that was freed may have let another item begin a moment later.
            at = self.last_at
        self.history.apply(at, event)
        # The same as `append_applied`: this is called for every event of every flow.
        written = write_event(event)
        self.seq += 1
        self.last_at = at
        self.journal.append(self.flow_id, self.seq, at, written)

    def append_applied(self, at: float, event: AnyEvent) -> None:
        """Log an event that the history contains already."""
        # Encoded first: an event that cannot be encoded must leave no gap in the log.
        written = write_event(event)
        self.seq += 1
        self.last_at = at
        self.journal.append(self.flow_id, self.seq, at, written)

    def count(
        self, at: float, outcome: ActivityOutcome, step: str = "", dependency: str = "", seconds: float = 0.0
    ) -> None:
        """Count what happened, to be shown."""
        self.journal.activity.add(at, self.record.definition, outcome, step, dependency, seconds)

    @property
    def is_held(self) -> bool:
        """Whether no attempt may begin, because the flow or its queue is paused."""
        return self.history.paused or self.record.queue in self._paused_queues

    @property
    def known_blame(self) -> str | None:
        """What is known against the flow."""
        return self.record.blame if self.blame is None else self.blame

    def change_blame(self, blame: str) -> None:
        self.blame = blame if blame != (self.record.blame or "") else None

    def pin(self) -> None:
        """Pin a flow that begins, in the same commit as its first line."""
        if self._pin and self.record.version is None:
            self.version = self._pin
            self.journal.batch.flows.append(
                FlowChange(
                    flow_id=self.flow_id,
                    status="running",
                    wake_at=self.record.wake_at,
                    messages_read=self.messages_read,
                    lost_owners=self.record.lost_owners,
                    blame=self.blame,
                    version=self.version,
                )
            )

    def withdraw(self) -> None:
        """Drop what the flow has logged and read since the last transaction began."""
        lines, unread = self.journal.withdraw(self.flow_id)
        self.seq -= lines
        self.messages_read -= len(unread)
        for message in unread:
            self.messages_taken.pop(message, None)

    def release(
        self,
        status: FlowStatus,
        wake_at: float | None,
        finished_at: float | None = None,
        input: str | None = None,  # noqa: A002 - as the record calls it
        run_from: int | None = None,
    ) -> None:
        """Give the flow back; its next owner continues from its log.

        input, run_from: of another run, which its next owner begins.
        """
        self.released = True
        change = FlowChange(
            flow_id=self.flow_id,
            status=status,
            wake_at=wake_at,
            messages_read=self.messages_read,
            finished_at=finished_at,
            blame=self.blame,
            input=input,
            run_from=run_from,
            version=self.version,
        )
        self.journal.batch.flows.append(change)
        self.journal.when_durable(self.flow_id, self._on_released, self, wake_at if status == "waiting" else None)

    def park(self, problem: str) -> None:
        """Release a flow that cannot go on until someone fixes the problem."""
        if self.history.parked != problem:
            self.append(self.now(), FlowParked(problem=problem))
            self.journal.when_durable(self.flow_id, report_flow_parked, self.record, problem)
        self.release("parked", None)

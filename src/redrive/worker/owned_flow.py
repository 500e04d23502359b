"""A flow that this worker owns: its log may be appended to, and it may be given back."""

from redrive.determinism.clock import whole_microseconds
from redrive.flows.driver import Driver
from redrive.flows.events import AnyEvent, FlowParked, write_event
from redrive.flows.history import FlowHistory
from redrive.stores.records import FlowChange, FlowRecord, FlowStatus
from redrive.worker.flow_host import Desk
from redrive.worker.telemetry import tell_flow_parked
from redrive.worker.timer_queue import Alarm


class OwnedFlow:
    __slots__ = (
        "alarm",
        "desk",
        "driver",
        "history",
        "id",
        "is_stored",
        "last_at",
        "mail_read",
        "mail_taken",
        "record",
        "released",
        "seq",
    )

    def __init__(self, desk: Desk, record: FlowRecord, driver: Driver) -> None:
        self.desk = desk
        self.record = record
        self.id = record.id
        self.driver = driver
        self.history = FlowHistory()
        self.seq = 0
        self.last_at = record.created_at
        self.mail_read = record.messages_read
        self.mail_taken: dict[int, None] = {}
        """Messages that were delivered: until that is durable they are still in the store."""
        self.alarm: Alarm | None = None
        """When it is to be woken."""
        self.is_stored = True
        """False where the store refused to add it."""
        self.released = False
        """Given back, or about to be: whatever comes in is for the next owner."""

    def time(self) -> float:
        # Within one log time never goes back, whatever the clocks of its owners say. And its code must see the same
        # when it is replayed, while not every store keeps more than microseconds.
        now = whole_microseconds(self.desk.now())
        return now if now > self.last_at else self.last_at

    def log(self, at: float, event: AnyEvent) -> None:
        """Append a line, and let the history know."""
        self.history.apply(at, event)
        # As `write`, which would be one call more for every line.
        written = write_event(event)
        self.seq += 1
        self.last_at = at
        self.desk.journal.log(self.id, self.seq, at, written)

    def write(self, at: float, event: AnyEvent) -> None:
        """Append a line that the history knows already."""
        # First: a line that cannot be written leaves no gap.
        written = write_event(event)
        self.seq += 1
        self.last_at = at
        self.desk.journal.log(self.id, self.seq, at, written)

    def take_back(self) -> None:
        """Forget what it has logged and read since the last transaction began."""
        lines, unread = self.desk.journal.take_back(self.id)
        self.seq -= lines
        self.mail_read -= len(unread)
        for message in unread:
            self.mail_taken.pop(message, None)

    def release(self, status: FlowStatus, wake_at: float | None, finished_at: float | None = None) -> None:
        """Give the flow back; whoever claims it next goes on from its log."""
        self.released = True
        change = FlowChange(
            flow_id=self.id, status=status, wake_at=wake_at, messages_read=self.mail_read, finished_at=finished_at
        )
        journal = self.desk.journal
        journal.batch.flows.append(change)
        journal.then(self.desk.forget, self)
        if status == "waiting" and wake_at is not None:
            journal.then(self.desk.look_for_flows_at, wake_at)

    def park(self, problem: str) -> None:
        """It cannot go on: leave it alone until someone mends it."""
        if self.history.parked != problem:
            self.log(self.time(), FlowParked(problem=problem))
            self.desk.journal.then(tell_flow_parked, self.record, problem)
        self.release("parked", None)

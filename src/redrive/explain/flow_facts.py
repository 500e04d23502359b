"""Everything that is known about a flow at one moment."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from redrive.explain.parts import Entry, ItemEntry, Moment, Note
from redrive.explain.worker_eligibility import WorkerEligibility
from redrive.flows.history import FlowHistory
from redrive.flows.registry import GRAPH, SCRIPT
from redrive.formatting.text import summarize
from redrive.formatting.times import format_duration, utc_datetime
from redrive.stores.flow_control import QueueUse
from redrive.stores.leases import WorkerRecord
from redrive.stores.queues import QueueRecord
from redrive.stores.records import DeadLetter, FlowRecord


@dataclass(frozen=True)
class FlowFacts:
    record: FlowRecord
    history: FlowHistory
    timeline: list[Entry]
    dead: DeadLetter | None
    live_workers: Sequence[WorkerRecord]
    queues: Sequence[QueueRecord]
    use: QueueUse
    """How much of its limits and rates the flow's queue uses."""
    uncompensated: Sequence[str]
    """The steps whose compensation failed."""
    failure_handling: Sequence[str]
    """The steps that ran only because of the failure that ended the flow."""
    now: float
    events: int
    """How many events its log has."""
    current_run: int | None
    """The number of the flow's current run, if this is an earlier one."""
    began: float
    """The time from which moments are counted."""

    @functools.cached_property
    def eligibility(self) -> WorkerEligibility:
        return WorkerEligibility(self.record, self.live_workers)

    @property
    def queue(self) -> QueueRecord | None:
        """The flow's queue."""
        return next((queue for queue in self.queues if queue.name == self.record.queue), None)

    @property
    def items(self) -> list[ItemEntry]:
        """The work items that still count."""
        return [entry for entry in self.timeline if isinstance(entry, ItemEntry) and not entry.rewound]

    @property
    def is_script(self) -> bool:
        return self.record.definition.startswith(SCRIPT)

    @property
    def is_graph(self) -> bool:
        return self.record.definition.startswith(GRAPH)

    @property
    def is_discarded(self) -> bool:
        return self.dead is not None and self.dead.state == "discarded"

    @property
    def unread_messages(self) -> int:
        return max(0, self.record.messages_sent - self.record.messages_read)

    def moment(self, at: float) -> Moment:
        return Moment(utc_datetime(at), round(at - self.began, 6))

    def format_due(self, at: float) -> str:
        """Format a time to come: at 2030-01-01 02:00:00 UTC, in 2h."""
        return f"at {utc_datetime(at):%Y-%m-%d %H:%M:%S} UTC, in {format_duration(at - self.now)}"

    def signature(self, what: str) -> str:
        """Say by whom and why the last event of this kind was requested."""
        notes = [note for note in self.timeline if isinstance(note, Note) and note.what == what]
        return format_signature(notes[-1].by, notes[-1].why) if notes else ""


def format_signature(by: str | None, why: str | None) -> str:
    """Format who acted and why: " by ann (the bank is back)"."""
    who = f" by {summarize(by, 100)}" if by else ""
    return f"{who} ({summarize(why)})" if why else who

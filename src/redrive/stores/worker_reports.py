"""What workers tell of themselves, and what operators tell all of them."""

from typing import Literal

import msgspec

from redrive.resilience.circuit import Phase

Order = Literal[
    "open",  # hold the circuit open until it is closed by hand
    "close",  # close the circuit now; from then on it opens and closes by itself
]
ReportedPhase = Phase | Literal["recovering"]
MOST_RUNNING = 50
"""Attempts that a report names."""
MOST_DEPENDENCIES = 100
"""Dependencies that a report names, those in trouble first."""


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The latest report of a worker."""

    epoch: int
    """The worker's lease."""
    at: float
    body: str
    """A ReportBody as JSON, which a store does not read."""


class SlotUse(msgspec.Struct, frozen=True):
    """How full an executor is."""

    size: int
    busy: int
    waiting: int = 0
    """Attempts that wait for a slot of it."""


class RunningAttempt(msgspec.Struct, frozen=True, kw_only=True):
    flow_id: str
    item: int
    step: str
    attempt: int
    began_at: float


class HeldLoop(msgspec.Struct, frozen=True, kw_only=True):
    """Code that kept the event loop from everything else."""

    seconds: float
    at: float
    """When it was seen last."""
    flow_id: str | None = None
    """None where it was no flow's code, or that of several in turn."""
    step: str = ""
    place: str = ""
    """The line of the user's code, where it is known."""


class DependencyState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker knows about a dependency."""

    name: str
    phase: ReportedPhase = "closed"
    since: float | None = None
    """When the circuit opened; None while it is closed."""
    failures: int = 0
    """Consecutive failures while closed."""
    probe_at: float | None = None
    """When an open circuit lets a probe through; None while it is held open by hand."""
    rate: float | None = None
    """Calls per second that a recovering dependency gets."""
    budget_left: int | None = None
    """Retries that the budget allows now."""
    in_line: int = 0
    """Attempts that wait in line for it."""
    by_hand: str = ""
    """Who opened the circuit by hand, and why."""


class ReportBody(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    pid: int
    host: str
    began_at: float
    slots: dict[str, SlotUse]
    running: list[RunningAttempt]
    held_loop: HeldLoop | None = None
    """The last code that blocked the event loop; None if none has."""
    dependencies: list[DependencyState]
    """Those in use: the ones in trouble first."""


def read_report(report: WorkerReport) -> ReportBody | None:
    """Return what the report says; None when it is from a version whose reports this one cannot read."""
    try:
        return msgspec.json.decode(report.body, type=ReportBody)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None


class DependencyOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What someone ordered about a dependency's circuit, for all workers."""

    name: str
    order: Order
    by: str
    why: str
    at: float

    @property
    def in_words(self) -> str:
        """Who gave the order, and why."""
        how = "opened" if self.order == "open" else "closed"
        return f"{how} by hand by {self.by}: {self.why}" if self.by else f"{how} by hand: {self.why}"

"""A work item's current state, and what its next retry decision needs."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from redrive.flows.events import AttemptFailed
from redrive.flows.waits import WaitsFor
from redrive.policies.decision import GiveUp, RetryAt
from redrive.policies.history import History, is_suspect
from redrive.policies.policy import Policy
from redrive.telemetry.work import Wait

ItemState = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]


class FailedAttempt(NamedTuple):
    """A failed attempt of an item: when it started and ended, and its event."""

    began: float
    ended: float
    event: AttemptFailed


class Item(msgspec.Struct, eq=False, gc=False):
    """The current state of a work item, and what its next retry decision needs."""

    number: int
    step: str
    index: int
    compensates: str
    args: msgspec.Raw
    policy: Policy
    attempt_began: float
    state: ItemState = "queued"
    attempt: int = 0
    """The number of the running attempt, or of the last one. A redrive does not reset it."""
    delivery: str | None = None
    timeout_at: float | None = None
    dependency: str = ""
    """What this call talks to; empty: what the action or the step says."""
    alone: bool = False
    """Whether no other attempt that may take its worker down runs beside the running one."""
    accepted: bool = False
    """Whether the running attempt no longer depends on its worker: its outcome will be reported."""
    closed: bool = False
    """Whether the running attempt has ended, and outcomes that were reported before that are read first."""
    retry_at: float | None = None
    """When the next attempt may start, while the item is waiting."""
    retry_kind: str = ""
    deferred: str = ""
    """Why its dependency holds it back, while it does."""
    held_by: WaitsFor = ""
    """Which part of the dependency's protection does, if `deferred` is set; empty in older logs."""
    retries: History | None = None
    """The retries that `decide()` has granted; None before the first."""
    decided_from: History | None = None
    """What the last decision about a failed attempt was made from: another policy may decide again."""
    started_at: float | None = None
    """When the first attempt since the start or the last redrive began; the deadline counts from here."""
    failures: Sequence[FailedAttempt] = ()
    details: msgspec.Raw | None = None
    gave_up: GiveUp | None = None
    refused: bool = False
    """Whether the log says already that an outcome was refused: one line tells of it, however many are sent."""
    added_at: float = 0.0
    """When it was scheduled, or redriven last."""
    round: int = 0
    """How often it was redriven."""
    earlier: str | None = None
    """The delivery token of the attempt before the current one."""
    waits: Sequence[Wait] = ()
    """The waits between its attempts, since it was scheduled or redriven last."""

    @property
    def retry_history(self) -> History | None:
        """The history that `decide()` needs; None before the first attempt."""
        return self.retries or (None if self.started_at is None else History(self.started_at))

    @property
    def is_retry(self) -> bool:
        """Whether the next attempt is a retry of a failed one; false after a redrive."""
        return self.retries is not None

    @property
    def is_open(self) -> bool:
        return self.state in ("queued", "running", "waiting")

    def is_past_deadline(self, at: float) -> bool:
        deadline = self.policy.deadline
        return deadline is not None and self.started_at is not None and at >= self.started_at + deadline

    @property
    def is_suspect(self) -> bool:
        """Whether so many attempts lost their workers that the item itself may be taking them down."""
        return self.retries is not None and is_suspect(self.retries)

    def begin(self, at: float, attempt: int, delivery: str, timeout_at: float | None, alone: bool) -> None:
        self.state = "running"
        self.attempt = attempt
        self.attempt_began = at
        self.delivery = delivery
        self.timeout_at = timeout_at
        self.alone = alone
        self.accepted = self.closed = False
        self.retry_at = None
        self.deferred = ""
        if self.started_at is None:
            self.started_at = at

    def wait(self, at: float, until: float, kind: str, deferred: str = "", reason: str = "") -> None:
        if self.delivery is not None:
            self.earlier = self.delivery
        self.waits = with_wait(self.waits, Wait(at, kind, until, deferred or reason))
        self.state = "waiting"
        self.retry_at = until
        self.retry_kind = kind
        self.deferred = deferred
        self.delivery = None
        self.timeout_at = None
        self.accepted = self.closed = False

    def follow(self, at: float, policy: Policy, decision: RetryAt | None) -> None:
        """Go on under another policy. With a decision, it grants the retry that the item waits for, and says when."""
        self.policy = policy
        if decision is not None and self.decided_from is not None:
            before = msgspec.structs.replace(self.decided_from, started_at=self.started_at or at)
            self.retries = before.after(decision)
            self.wait(at, decision.when, self.retry_kind, reason="its policy was changed")


MOST_WAITS = 100


def with_wait(waits: Sequence[Wait], wait: Wait) -> Sequence[Wait]:
    kept = [*waits, wait]
    if len(kept) > MOST_WAITS:
        # As with failures: the first and the latest are the most telling.
        del kept[MOST_WAITS // 2]
    return kept

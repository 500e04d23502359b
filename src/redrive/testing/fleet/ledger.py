"""What is durable, as the store has it: kept beside the store, to compare with what is called."""

from typing import Literal

from redrive.flows.events import (
    AnyEvent,
    AttemptFailed,
    AttemptReturned,
    AttemptStarted,
    ItemCancelled,
    ItemCompleted,
    ItemDeferred,
    ItemGaveUp,
    ItemStarted,
    Redriven,
    is_activation,
    read_turn,
)
from redrive.stores.records import Batch, EventRow

ItemState = Literal["open", "running", "done", "cancelled"]


class DurableItem:
    """A work item as the store has it."""

    __slots__ = ("attempt", "delivery", "state", "used")

    def __init__(self) -> None:
        self.state: ItemState = "open"
        self.attempt = 0
        self.delivery: str | None = None
        """The token of the running attempt."""
        self.used: set[int] = set()
        """The numbers of attempts that were made and not returned."""


class Ledger:
    """Follows the logs of all flows as they are committed, and notes what a log must not say."""

    def __init__(self) -> None:
        self._items: dict[str, dict[int, DurableItem]] = {}
        """Flow id -> item number -> item."""
        self.problems: list[tuple[str, str]] = []
        """(flow id, what is wrong with its log)."""
        self._ends: dict[str, tuple[int, float]] = {}
        """Flow id -> the number and the time of its last event."""

    def saw_commit(self, batch: Batch) -> None:
        for row in batch.events:
            self._saw_row(row)

    def _saw_row(self, row: EventRow) -> None:
        flow_id, events = row.flow_id, read_turn(row.body)
        seq, at = self._ends.get(flow_id, (0, 0.0))
        if row.seq != seq + len(events):
            self.problems.append((flow_id, f"the log goes from event {seq} to {row.seq} with {len(events)} events"))
        if row.at < at:
            self.problems.append((flow_id, f"event {row.seq} happened {at - row.at:.3f} s before the one before it"))
        self._ends[flow_id] = row.seq, row.at
        for event in events:
            self._saw_event(flow_id, event)

    def _saw_event(self, flow_id: str, event: AnyEvent) -> None:
        number = getattr(event, "item", None)
        if isinstance(event, Redriven) and not event.midway:
            self._reopen(flow_id)
        if number is None:
            return
        item = self.item(flow_id, number)
        if item is None:
            item = self._items.setdefault(flow_id, {})[number] = DurableItem()
        if isinstance(event, ItemStarted):
            self._start(flow_id, number, item, 1, event.delivery)
        elif isinstance(event, AttemptStarted):
            self._start(flow_id, number, item, event.attempt, event.delivery)
        elif isinstance(event, AttemptFailed | AttemptReturned | ItemGaveUp | ItemCompleted | ItemCancelled):
            if isinstance(event, AttemptReturned):
                item.used.discard(event.attempt)
            item.delivery = None
            item.state = "cancelled" if isinstance(event, ItemCancelled) else "done" if is_activation(event) else "open"
        elif isinstance(event, Redriven | ItemDeferred):
            item.state, item.delivery = "open", None

    def _reopen(self, flow_id: str) -> None:
        """A redrive brings back what the flow's failure has stopped."""
        for item in self._items.get(flow_id, {}).values():
            if item.state in ("cancelled", "running"):
                item.state, item.delivery = "open", None

    def item(self, flow_id: str, number: int) -> DurableItem | None:
        return self._items.get(flow_id, {}).get(number)

    def _start(self, flow_id: str, number: int, item: DurableItem, attempt: int, delivery: str) -> None:
        if attempt in item.used:
            self.problems.append((flow_id, f"item {number} has two attempts with the number {attempt}"))
        if item.state in ("done", "cancelled"):
            self.problems.append((flow_id, f"attempt {attempt} of item {number} begins after the item has ended"))
        item.used.add(attempt)
        item.attempt, item.state, item.delivery = attempt, "running", delivery

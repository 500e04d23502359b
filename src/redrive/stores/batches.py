"""Batches: flows that were started together, counted by state, with something to start when all have ended."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from redrive.flows.tags import read_tags


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it is stored; its flows have its name in `batch`."""

    name: str
    created_at: float
    total: int | None = None
    """How many flows it has; None while they are being added."""
    digest: str | None = None
    """Of the calls, once all were added."""
    tags: str | None = None
    """As those of a flow."""
    on_done: str | None = None
    """What to start when all its flows have ended, as JSON that a store does not read."""
    done_at: float | None = None
    """When all had ended, and `on_done` was started. It stays, whatever is redriven later."""


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many flows of a batch are in each state."""

    ready: int = 0
    waiting: int = 0
    running: int = 0
    paused: int = 0
    parked: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    pruned: int = 0
    """Flows that ended so long ago that they are no longer kept."""

    @property
    def unfinished(self) -> int:
        return self.ready + self.waiting + self.running + self.paused + self.parked

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled + self.pruned


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A batch and how far it is."""

    name: str
    created_at: float
    total: int | None
    """How many flows it has; None while they are being added."""
    counts: BatchCounts
    tags: dict[str, str]
    on_done: str | None
    """The id of the flow that is started when all have ended; None: nothing is."""
    done_at: float | None
    """When all had ended for the first time."""

    @property
    def is_done(self) -> bool:
        """Whether all flows were added and have ended; what was redriven has not."""
        return self.total is not None and not self.counts.unfinished


class OnDone(msgspec.Struct, frozen=True, kw_only=True):
    """The flow that a batch starts when all its flows have ended, as it is stored."""

    id: str
    definition: str
    input: str
    queue: str = "default"
    priority: int = 0
    tags: str | None = None
    traceparent: str | None = None
    takes_counts: bool = False
    """Whether its parameter `counts` is to be filled in."""


_READ_ON_DONE = msgspec.json.Decoder(OnDone)


def read_on_done(row: BatchRow) -> OnDone | None:
    return None if row.on_done is None else _READ_ON_DONE.decode(row.on_done)


def batch_status(row: BatchRow, counts: BatchCounts | None) -> BatchStatus:
    counts, on_done = counts or BatchCounts(), read_on_done(row)
    if row.total is not None:
        kept = counts.unfinished + counts.ended
        counts = msgspec.structs.replace(counts, pruned=max(0, row.total - kept))
    return BatchStatus(
        name=row.name,
        created_at=row.created_at,
        total=row.total,
        counts=counts,
        tags=read_tags(row.tags),
        on_done=None if on_done is None else on_done.id,
        done_at=row.done_at,
    )


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which batches to list, newest first."""

    done: bool | None = None
    """Whether all their flows have ended once; None: any."""
    before: tuple[float, str] | None = None
    """(created_at, name) of the last batch of the previous page."""
    limit: int = 100


class Batches(Protocol):
    async def add_batch(self, row: BatchRow) -> BatchRow | None:
        """Add the batch. Return None when it was added, or the batch that already has its name."""
        ...

    async def complete_batch(self, name: str, total: int, digest: str) -> None:
        """All flows of the batch were added. Nothing happens when that is known already."""
        ...

    async def find_batch(self, name: str) -> BatchRow | None: ...

    async def list_batches(self, query: BatchQuery) -> list[BatchRow]: ...

    async def count_batches(self, names: Sequence[str]) -> dict[str, BatchCounts]:
        """Count the flows of these batches by state; a batch without flows may be missing."""
        ...

    async def list_ended_batches(self, limit: int) -> list[BatchRow]:
        """Return batches that are complete and not yet done, although all their flows have ended; oldest first."""
        ...

    async def end_batch(self, name: str, now: float) -> None:
        """The batch is done: all its flows have ended, and what follows was started."""
        ...

    async def prune_batches(self, done_before: float, limit: int) -> int:
        """Remove up to `limit` batches that were done before then and have no flows any more; return how many."""
        ...

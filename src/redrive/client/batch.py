"""`Batch`: flows that were started together, seen from outside."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from redrive.client.batches import Batches
from redrive.client.handle import seconds_of
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows.retry_policy import Timeout
from redrive.stores.batches import BatchCounts, BatchStatus
from redrive.stores.records import FlowQuery

if TYPE_CHECKING:
    from redrive.client.bulk_actions import BulkActions, BulkOutcome

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
REST = 4.0
"""How many times as long as it took to count the flows the next count waits."""


class Batch:
    """Waits for the flows of a batch, counts and controls them. `app.find_batch(name)` makes another one."""

    def __init__(self, name: str, is_new: bool, batches: Batches, bulk: "BulkActions") -> None:
        self.name = name
        self.is_new = is_new
        """True when the call that returned this batch was the first to add it."""
        self._batches = batches
        self._bulk = bulk

    async def status(self) -> BatchStatus:
        """How many flows it has, and in which states."""
        return await self._batches.status(self.name)

    async def counts(self) -> BatchCounts:
        return (await self.status()).counts

    async def progress(self) -> AsyncIterator[BatchStatus]:
        """Yield the status whenever it has changed, until all flows have ended: `async for status in ...`."""
        seen, pause = None, FIRST_PAUSE
        while True:
            began = SYSTEM_CLOCK.monotonic()
            status = await self._batches.end(self.name)
            took = SYSTEM_CLOCK.monotonic() - began
            if status != seen:
                seen, pause = status, FIRST_PAUSE
                yield status
            if status.is_done:
                return
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + max(pause, REST * took))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def wait(self, timeout: Timeout | None = None) -> BatchCounts:
        """Wait until all flows have ended, and return how many in which way; by then `on_done` is started.

        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "30s".
        """
        seconds = seconds_of(timeout)
        counts: BatchCounts | None = None
        try:
            async with asyncio.timeout(seconds):
                async for status in self.progress():
                    counts = status.counts
        except TimeoutError:
            ended = "" if counts is None else f": {counts.unfinished:,} flows have not ended"
            raise TimeoutError(f"batch {self.name!r} is not done after {seconds:g} s{ended}") from None
        assert counts is not None  # noqa: S101 - progress yields at least once
        return counts

    async def cancel(
        self, *, by: str, why: str, progress: "Callable[[BulkOutcome], None] | None" = None
    ) -> "BulkOutcome":
        """Ask all flows that have not ended to stop."""
        return await self._bulk.run("cancel", FlowQuery(batch=self.name), by, why, progress=progress)

    async def redrive(
        self, *, by: str, why: str, progress: "Callable[[BulkOutcome], None] | None" = None
    ) -> "BulkOutcome":
        """Put the flows that failed back to work, each at the step that failed. `on_done` is not started again."""
        return await self._bulk.run("redrive", FlowQuery(batch=self.name), by, why, progress=progress)

    def __repr__(self) -> str:
        return f"<batch {self.name!r}>"

"""`SyncBatch`: a batch, seen from a program without an event loop."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from redrive.client.app import App
from redrive.client.batch import Batch
from redrive.client.sync_handle import Run
from redrive.flows.retry_policy import Timeout
from redrive.stores.batches import BatchCounts, BatchStatus

if TYPE_CHECKING:
    from redrive.client.bulk_actions import BulkOutcome


class SyncBatch:
    """Waits for the flows of a batch, counts and controls them. Its methods are those of `Batch`, without `await`."""

    def __init__(self, name: str, is_new: bool, run: Run) -> None:
        self.name = name
        self.is_new = is_new
        """True when the call that returned this batch was the first to add it."""
        self._run = run

    def status(self) -> BatchStatus:
        """How many flows it has, and in which states."""
        return self._run(lambda app: self._in(app).status())

    def counts(self) -> BatchCounts:
        return self._run(lambda app: self._in(app).counts())

    def progress(self) -> Iterator[BatchStatus]:
        """Yield the status whenever it has changed, until all flows have ended: `for status in batch.progress()`."""

        async def begin(app: App) -> AsyncIterator[BatchStatus]:
            return aiter(self._in(app).progress())

        changes = self._run(begin)

        async def following(app: App) -> BatchStatus | None:
            return await anext(changes, None)

        while (status := self._run(following)) is not None:
            yield status

    def wait(self, timeout: Timeout | None = None) -> BatchCounts:
        """Wait until all flows have ended, and return how many in which way; by then `on_done` is started.

        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "30s".
        """
        return self._run(lambda app: self._in(app).wait(timeout))

    def cancel(self, *, by: str, why: str, progress: "Callable[[BulkOutcome], None] | None" = None) -> "BulkOutcome":
        """Ask all flows that have not ended to stop."""
        return self._run(lambda app: self._in(app).cancel(by=by, why=why, progress=progress))

    def redrive(self, *, by: str, why: str, progress: "Callable[[BulkOutcome], None] | None" = None) -> "BulkOutcome":
        """Put the flows that failed back to work, each at the step that failed. `on_done` is not started again."""
        return self._run(lambda app: self._in(app).redrive(by=by, why=why, progress=progress))

    def _in(self, app: App) -> Batch:
        return app._batch(self.name, self.is_new)

    def __repr__(self) -> str:
        return f"<batch {self.name!r}>"

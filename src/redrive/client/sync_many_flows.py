"""The same verbs for programs without an event loop."""

from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from redrive.client.app import App
from redrive.client.flow_settings import SharedSettings
from redrive.client.sync_batch import SyncBatch
from redrive.client.sync_handle import SyncHandle
from redrive.stores.batches import BatchQuery, BatchStatus
from redrive.stores.records import FlowQuery

if TYPE_CHECKING:
    from redrive.client.archive import Archived
    from redrive.client.bulk_actions import BulkOutcome
    from redrive.client.many_starts import CallToStart

T = TypeVar("T")


class SyncManyFlows:
    def _run(self, call: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        raise NotImplementedError

    def start_many(
        self,
        calls: "Iterable[CallToStart]",
        *,
        keys: Iterable[str] | None = None,
        progress: Callable[[int], None] | None = None,
        **settings: Unpack[SharedSettings],
    ) -> list[SyncHandle[Any]]:
        """Start many flows, a few thousand in each transaction: `app.start_many(resize(one) for one in images)`.

        calls: as `start` takes them; one that has settings of its own is a pair: `(charge(order), {"priority": 5})`.
        keys: a key for each call. With keys, an interrupted `start_many` can be repeated: what was started is returned.
        progress: called after each transaction with the number of flows started by then.
        settings: those of all the flows, as for `start`.

        A call that is refused raises its error; the flows of earlier transactions are started.
        """
        # Made in this thread: a generator may use the app itself.
        given = list(calls)
        handles = self._run(lambda app: app.start_many(given, keys=keys, progress=progress, **settings))
        return [SyncHandle(handle, self._run) for handle in handles]

    def batch(
        self,
        name: str,
        calls: "Iterable[CallToStart]",
        *,
        keys: Iterable[str] | None = None,
        on_done: "CallToStart | None" = None,
        progress: Callable[[int], None] | None = None,
        **settings: Unpack[SharedSettings],
    ) -> "SyncBatch":
        """Start flows that are counted and awaited together: `app.batch("night 2026-11-19", calls)`.

        calls, keys, progress, settings: as for `start_many`. Without keys the position of a call is its key, so adding
        a batch again with the same calls adds what was not added before; other calls are a BatchTakenError.
        on_done: started once, when all the flows have ended for the first time, be it as failed. A parameter `counts`
        that it does not give is filled in with the BatchCounts.
        """
        given = list(calls)
        found = self._run(lambda app: app.batch(name, given, keys=keys, on_done=on_done, progress=progress, **settings))
        return SyncBatch(found.name, found.is_new, self._run)

    def find_batch(self, name: str) -> "SyncBatch":
        """The batch of this name; BatchNotFoundError where there is none."""
        return SyncBatch(self._run(lambda app: app.find_batch(name)).name, False, self._run)

    def batches(self, query: BatchQuery | None = None) -> list[BatchStatus]:
        """The batches, newest first, with the counts of their flows."""
        return self._run(lambda app: app.batches(query))

    def cancel_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Ask all flows that match to stop, as `handle.cancel` does.

        query: which flows; its limit does not count. At least one field is needed.
        dry_run: only count them.
        progress: called after each thousand flows.
        """
        return self._run(lambda app: app.cancel_many(query, by=by, why=why, dry_run=dry_run, progress=progress))

    def pause_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Pause all flows that match."""
        return self._run(lambda app: app.pause_many(query, by=by, why=why, dry_run=dry_run, progress=progress))

    def resume_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Resume all flows that match, paused or parked."""
        return self._run(lambda app: app.resume_many(query, by=by, why=why, dry_run=dry_run, progress=progress))

    def retry_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Begin the next attempts of all flows that match now, as `handle.retry_now` does."""
        return self._run(lambda app: app.retry_many(query, by=by, why=why, dry_run=dry_run, progress=progress))

    def redrive_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Put all failed flows that match back to work, each at the step that failed."""
        return self._run(lambda app: app.redrive_many(query, by=by, why=why, dry_run=dry_run, progress=progress))

    def archive(
        self,
        target: str | Path,
        *,
        before: float | timedelta | str = "30d",
        definition: str | None = None,
        then_prune: bool = False,
    ) -> "Archived":
        """Add the flows that finished longer ago than `before` to a file of compressed JSON lines, with their logs.

        target: the file, or a folder in which it is named for the day.
        then_prune: remove them from the store afterwards, except those whose dead letter is open.
        """
        return self._run(lambda app: app.archive(target, before=before, definition=definition, then_prune=then_prune))

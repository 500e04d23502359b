"""The verbs of an app about many flows: start them, add them as a batch, act on what a query selects, archive them."""

import functools
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from redrive.client.flow_settings import SharedSettings
from redrive.client.handle import Handle
from redrive.client.running_app import RunningApp
from redrive.stores.batches import BatchQuery, BatchStatus
from redrive.stores.records import FlowQuery

if TYPE_CHECKING:
    from redrive.client.archive import Archived
    from redrive.client.batch import Batch
    from redrive.client.batches import Batches
    from redrive.client.bulk_actions import BulkActions, BulkOutcome
    from redrive.client.many_starts import CallToStart, ManyStarts


class ManyFlows(RunningApp):
    # The modules are imported when first used.

    @functools.cached_property
    def _many_starts(self) -> "ManyStarts":
        from redrive.client.many_starts import ManyStarts

        return ManyStarts(self.store, self._flows.now, self._new_id)

    @functools.cached_property
    def _batches(self) -> "Batches":
        from redrive.client.batches import Batches

        return Batches(self._flows, self._many_starts, self._new_id)

    @functools.cached_property
    def _bulk(self) -> "BulkActions":
        from redrive.client.bulk_actions import BulkActions

        return BulkActions(self._flows, self._dead_letters, lambda one: Handle(one, self._flows, self._results))

    def _batch(self, name: str, is_new: bool = False) -> "Batch":
        from redrive.client.batch import Batch

        return Batch(name, is_new, self._batches, self._bulk)

    async def start_many(
        self,
        calls: "Iterable[CallToStart]",
        *,
        keys: Iterable[str] | None = None,
        progress: Callable[[int], None] | None = None,
        **settings: Unpack[SharedSettings],
    ) -> list[Handle[Any]]:
        """Start many flows, a few thousand in each transaction: `await app.start_many(resize(one) for one in images)`.

        calls: as `start` takes them; one that has settings of its own is a pair: `(charge(order), {"priority": 5})`.
        keys: a key for each call. With keys, an interrupted `start_many` can be repeated: what was started is returned.
        progress: called after each transaction with the number of flows started by then.
        settings: those of all the flows, as for `start`.

        A call that is refused raises its error; the flows of earlier transactions are started.
        """
        self._check_open()
        started = await self._many_starts.start(calls, keys, progress, settings)
        return [Handle(one.id, self._flows, self._results, one.given.read_result, one.is_new) for one in started]

    async def batch(
        self,
        name: str,
        calls: "Iterable[CallToStart]",
        *,
        keys: Iterable[str] | None = None,
        on_done: "CallToStart | None" = None,
        progress: Callable[[int], None] | None = None,
        **settings: Unpack[SharedSettings],
    ) -> "Batch":
        """Start flows that are counted and awaited together: `await app.batch("night 2026-11-19", calls)`.

        calls, keys, progress, settings: as for `start_many`. Without keys the position of a call is its key, so adding
        a batch again with the same calls adds what was not added before; other calls are a BatchTakenError.
        on_done: started once, when all the flows have ended for the first time, be it as failed. A parameter `counts`
        that it does not give is filled in with the BatchCounts.
        """
        self._check_open()
        return self._batch(name, await self._batches.start(name, calls, keys, on_done, progress, settings))

    async def find_batch(self, name: str) -> "Batch":
        """The batch of this name; BatchNotFoundError where there is none."""
        return self._batch((await self._batches.row(name)).name)

    async def batches(self, query: BatchQuery | None = None) -> list[BatchStatus]:
        """The batches, newest first, with the counts of their flows."""
        return await self._batches.list(query or BatchQuery())

    async def cancel_many(
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
        return await self._bulk.run("cancel", query, by, why, dry_run=dry_run, progress=progress)

    async def pause_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Pause all flows that match."""
        return await self._bulk.run("pause", query, by, why, dry_run=dry_run, progress=progress)

    async def resume_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Resume all flows that match, paused or parked."""
        return await self._bulk.run("resume", query, by, why, dry_run=dry_run, progress=progress)

    async def retry_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Begin the next attempts of all flows that match now, as `handle.retry_now` does."""
        return await self._bulk.run("retry", query, by, why, dry_run=dry_run, progress=progress)

    async def redrive_many(
        self,
        query: FlowQuery,
        *,
        by: str,
        why: str,
        dry_run: bool = False,
        progress: "Callable[[BulkOutcome], None] | None" = None,
    ) -> "BulkOutcome":
        """Put all failed flows that match back to work, each at the step that failed."""
        return await self._bulk.run("redrive", query, by, why, dry_run=dry_run, progress=progress)

    async def archive(
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
        from redrive.client.archive import age_to_archive, archive_flows

        age = age_to_archive(before, definition, then_prune)
        return await archive_flows(self.store, target, self._flows.now() - age, definition, then_prune)

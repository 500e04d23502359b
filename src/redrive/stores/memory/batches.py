"""The verbs of the memory store about batches."""

import heapq
from collections import Counter
from collections.abc import Sequence

import msgspec

from redrive.stores.batches import BatchCounts, BatchQuery, BatchRow
from redrive.stores.memory.data import MemoryData
from redrive.stores.records import FINISHED


class MemoryBatches:
    _data: MemoryData

    async def add_batch(self, row: BatchRow) -> BatchRow | None:
        known = self._data.batches.setdefault(row.name, row)
        return None if known is row else known

    async def complete_batch(self, name: str, total: int, digest: str) -> None:
        row = self._data.batches.get(name)
        if row is not None and row.total is None:
            self._data.batches[name] = msgspec.structs.replace(row, total=total, digest=digest)

    async def find_batch(self, name: str) -> BatchRow | None:
        return self._data.batches.get(name)

    async def list_batches(self, query: BatchQuery) -> list[BatchRow]:
        wanted = (
            row
            for row in self._data.batches.values()
            if query.done in (None, row.done_at is not None)
            and (query.before is None or (row.created_at, row.name) < query.before)
        )
        return heapq.nlargest(query.limit, wanted, key=lambda row: (row.created_at, row.name))

    async def count_batches(self, names: Sequence[str]) -> dict[str, BatchCounts]:
        counts: dict[str, Counter[str]] = {}
        for flow in self._data.flows.values():
            if flow.batch is not None and flow.batch in names:
                counts.setdefault(flow.batch, Counter())[flow.status] += 1
        return {name: BatchCounts(**counted) for name, counted in counts.items()}

    async def list_ended_batches(self, limit: int) -> list[BatchRow]:
        rows = [row for row in self._data.batches.values() if row.total is not None and row.done_at is None]
        if not rows:
            return []
        unfinished = {flow.batch for flow in self._data.flows.values() if flow.status not in FINISHED}
        ended = (row for row in rows if row.name not in unfinished)
        return heapq.nsmallest(limit, ended, key=lambda row: row.created_at)

    async def end_batch(self, name: str, now: float) -> None:
        row = self._data.batches.get(name)
        if row is not None and row.done_at is None:
            self._data.batches[name] = msgspec.structs.replace(row, done_at=now)

    async def prune_batches(self, done_before: float, limit: int) -> int:
        kept = {flow.batch for flow in self._data.flows.values()}
        old = [
            row.name
            for row in self._data.batches.values()
            if row.done_at is not None and row.done_at < done_before and row.name not in kept
        ][:limit]
        for name in old:
            del self._data.batches[name]
        return len(old)

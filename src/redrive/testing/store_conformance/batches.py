# ruff: noqa: S101 - tests use assert
"""Batches: they are added once, counted by state, end once, and are pruned after their flows."""

import asyncio

from redrive.stores.batches import BatchCounts, BatchQuery, BatchRow
from redrive.stores.records import FlowQuery
from redrive.testing.store_conformance.scenario import (
    NOW,
    Stores,
    acquire,
    add,
    claim,
    finish,
    new_flow,
    scenario,
)


def batch(name: str, created_at: float = NOW, on_done: str | None = None, tags: str | None = None) -> BatchRow:
    return BatchRow(name=name, created_at=created_at, on_done=on_done, tags=tags)


class BatchConformance:
    @scenario
    async def test_a_batch_is_added_once_and_found_as_it_was_added(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        row = batch("night", on_done='{"id": "ü"}', tags='{"a":"b"}')
        assert await store.add_batch(row) is None
        assert await other.add_batch(batch("night", NOW + 5)) == row
        assert await other.find_batch("night") == row
        assert await store.find_batch("day") is None

    @scenario
    async def test_of_concurrent_adds_one_counts(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        for round_ in range(5):
            rows = [batch(f"b{round_}", NOW + number) for number in range(3)]
            found = await asyncio.gather(*(store.add_batch(row) for store, row in zip(several, rows, strict=True)))
            assert found.count(None) == 1
            assert {one for one in found if one is not None} == {await several[0].find_batch(f"b{round_}")}

    @scenario
    async def test_the_first_completion_of_a_batch_counts(self, stores: Stores) -> None:
        store = await stores.open()
        await store.add_batch(batch("night"))
        await store.complete_batch("night", 3, "first")
        await store.complete_batch("night", 4, "second")
        await store.complete_batch("unknown", 4, "second")
        found = await store.find_batch("night")
        assert found is not None
        assert (found.total, found.digest, found.done_at) == (3, "first", None)
        assert await store.find_batch("unknown") is None

    @scenario
    async def test_batches_are_listed_newest_first_page_by_page(self, stores: Stores) -> None:
        store = await stores.open()
        for name, at in (("a", NOW), ("b", NOW + 1), ("c", NOW + 1), ("d", NOW - 1)):
            await store.add_batch(batch(name, at))
        await store.end_batch("b", NOW + 2)
        assert [one.name for one in await store.list_batches(BatchQuery())] == ["c", "b", "a", "d"]
        assert [one.name for one in await store.list_batches(BatchQuery(limit=2))] == ["c", "b"]
        after = BatchQuery(before=(NOW + 1, "b"))
        assert [one.name for one in await store.list_batches(after)] == ["a", "d"]
        assert [one.name for one in await store.list_batches(BatchQuery(done=True))] == ["b"]
        assert [one.name for one in await store.list_batches(BatchQuery(done=False))] == ["c", "a", "d"]

    @scenario
    async def test_flows_are_counted_by_batch_and_state(self, stores: Stores) -> None:
        store = await stores.open()
        await add(
            store,
            new_flow("a", batch="night"),
            new_flow("b", batch="night", start_at=NOW + 5),
            new_flow("c", batch="night"),
            new_flow("d", batch="day"),
            new_flow("e"),
        )
        assert await store.count_batches(["night", "day", "none"]) == {
            "night": BatchCounts(ready=2, waiting=1),
            "day": BatchCounts(ready=1),
        }
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "a", "failed")
        await finish(store, lease, 2, "c", "completed")
        assert await store.count_batches(["night"]) == {"night": BatchCounts(waiting=1, failed=1, completed=1)}
        assert await store.count_batches([]) == {}
        assert {flow.id for flow in await store.list_flows(FlowQuery(batch="night", status=("failed",)))} == {"a"}

    @scenario
    async def test_a_batch_ends_once_it_is_complete_and_its_flows_have_ended(self, stores: Stores) -> None:
        store = await stores.open()
        for name in ("night", "empty", "open"):
            await store.add_batch(batch(name, NOW + len(name)))
        await add(store, new_flow("a", batch="night"), new_flow("b", batch="night"), new_flow("c", batch="open"))

        async def ended() -> list[str]:
            return [one.name for one in await store.list_ended_batches(10)]

        assert await ended() == []
        await store.complete_batch("night", 2, "")
        await store.complete_batch("empty", 0, "")
        assert await ended() == ["empty"]
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "a", "failed")
        await finish(store, lease, 2, "c", "completed")
        assert await ended() == ["empty"]
        await finish(store, lease, 3, "b", "cancelled")
        # "open" is not complete: more flows may come.
        assert await ended() == ["night", "empty"]
        assert len(await store.list_ended_batches(1)) == 1
        await store.end_batch("night", NOW + 7)
        await store.end_batch("night", NOW + 9)
        found = await store.find_batch("night")
        assert found is not None
        assert found.done_at == NOW + 7
        assert await ended() == ["empty"]

    @scenario
    async def test_a_batch_is_pruned_after_its_flows(self, stores: Stores) -> None:
        store = await stores.open()
        for name in ("night", "empty", "open"):
            await store.add_batch(batch(name))
        await add(store, new_flow("a", batch="night"))
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "a", "completed")
        for name in ("night", "empty"):
            await store.end_batch(name, NOW + 1)
        assert await store.prune_batches(NOW + 1, 10) == 0
        assert await store.prune_batches(NOW + 2, 10) == 1
        assert await store.find_batch("empty") is None
        while await store.prune(NOW + 1000, 10):
            pass
        assert await store.prune_batches(NOW + 2, 10) == 1
        assert [one.name for one in await store.list_batches(BatchQuery())] == ["open"]

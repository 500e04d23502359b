# ruff: noqa: S101 - tests use assert
"""Schedules: written by whoever saw their latest version, in one transaction with the flows that begin."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from redrive.errors import StoreError
from redrive.flows.messages import Cancel, write_message
from redrive.stores.interface import Store
from redrive.stores.schedules import ScheduleRow
from redrive.testing.store_conformance.scenario import (
    NOW,
    Stores,
    acquire,
    add,
    claim,
    finish,
    found,
    new_flow,
    scenario,
)
from redrive.testing.store_conformance.wakes import wakes

NIGHTLY = ScheduleRow("nightly", '{"it\'s": "a \\"body\\""}', NOW + 0.123456, None, 0)


async def stored(store: Store, name: str = "nightly") -> ScheduleRow:
    row = await store.find_schedule(name)
    assert row is not None
    return row


async def write(store: Store, name: str, **fields: Any) -> ScheduleRow:
    """Add a schedule and return it as stored."""
    assert await store.write_schedule(replace(NIGHTLY, **{"name": name, "next_at": None, **fields})) == []
    return await stored(store, name)


class ScheduleConformance:
    @scenario
    async def test_a_schedule_is_kept_as_written_and_each_write_is_a_new_version(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        assert await store.write_schedule(NIGHTLY) == []
        first = await stored(other)
        assert first == replace(NIGHTLY, version=1)
        assert await other.write_schedule(replace(first, body="{}", next_at=None, waits_for="f")) == []
        assert await stored(store) == ScheduleRow("nightly", "{}", None, "f", 2)
        assert await store.find_schedule("nightl") is None

    @pytest.mark.promise("E6")
    @scenario
    async def test_who_has_not_seen_the_latest_version_writes_nothing(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        seen = await write(store, "nightly")
        assert await other.write_schedule(replace(seen, body='{"n": 2}')) == []
        for stale in (seen, replace(seen, version=0), replace(seen, version=3), replace(seen, name="unknown")):
            assert await store.write_schedule(stale, [new_flow("f")]) is None
        assert (await stored(store)).body == '{"n": 2}'
        assert await store.find_flow("f") is None

    @pytest.mark.promise("E6")
    @scenario
    async def test_of_many_that_write_at_once_one_succeeds(self, stores: Stores) -> None:
        all_stores = [await stores.open() for _ in range(4)]
        seen = await write(all_stores[0], "nightly")

        async def fire(number: int) -> Any:
            return await all_stores[number % 4].write_schedule(seen, [new_flow(f"f{number}", key="tick")])

        answers = await asyncio.gather(*map(fire, range(12)))
        assert sorted(answers, key=str) == [*[None] * 11, [None]]
        assert (await stored(all_stores[1])).version == 2

    @pytest.mark.promise("E6")
    @scenario
    async def test_the_flows_of_a_tick_are_added_with_the_schedule_or_not_at_all(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        seen = await write(store, "nightly")
        await add(store, new_flow("old", key="tick 1"), "taken")
        flows = [new_flow("again", key="tick 1"), new_flow("new", key="tick 2", queue="q", tags='{"a":"b"}')]
        (existing, added) = await other.write_schedule(seen, flows) or (None, None)
        assert existing is not None
        assert (existing.id, added) == ("old", None)
        assert (await found(store, "new")).tags == '{"a":"b"}'
        # One of these flows cannot be added: its id is another's.
        with pytest.raises(StoreError):
            await store.write_schedule(await stored(store), [new_flow("x"), new_flow("taken", input='{"n": 1}')])
        assert await other.find_flow("x") is None
        assert (await stored(other)).version == 2

    @scenario
    async def test_messages_are_sent_with_the_schedule(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        seen = await write(store, "nightly")
        await add(store, "running", "done")
        await claim(store, lease)
        await finish(store, lease, 1, "done", "completed")
        body = write_message(Cancel(by="schedule nightly", why="its next tick has come"))
        messages = [("running", body), ("done", body), ("gone", body)]
        assert await store.write_schedule(seen, [new_flow("new")], messages, NOW + 1) == [None]
        assert [(one.flow_id, one.at) for one in await store.read_inbox(lease)] == [("running", NOW + 1)]
        assert await store.write_schedule(seen, [], messages, NOW + 1) is None
        assert len(await store.read_inbox(lease)) == 1

    @scenario
    async def test_schedules_are_due_by_time_the_earliest_first(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        for name, at in {"c": 3.0, "a": 5.0, "b": 1.5, "late": 9.25, "never": None}.items():
            await write(store, name, next_at=None if at is None else NOW + at)
        due = await other.due_schedules(NOW + 5)
        assert [row.name for row in due.rows] == ["b", "c", "a"]
        assert due.rows[0] == await stored(store, "b")
        assert (due.next_at, due.waits_for) == (NOW + 9.25, frozenset())
        assert [row.name for row in (await store.due_schedules(NOW + 5, limit=2)).rows] == ["b", "c"]
        assert await store.due_schedules(NOW + 1) == ([], NOW + 1.5, frozenset())
        assert (await store.due_schedules(NOW + 10)).next_at is None

    @scenario
    async def test_a_schedule_that_waits_for_a_flow_is_due_once_that_has_ended_or_is_gone(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(store)
        await add(store, "runs", "ends", "parks")
        await claim(store, lease)
        for flow in ("runs", "ends", "parks", "gone"):
            await write(store, f"after {flow}", waits_for=flow, next_at=NOW + 50)
        await finish(store, lease, 1, "ends", "failed")
        await finish(store, lease, 2, "parks", "parked")
        due = await other.due_schedules(NOW)
        assert [row.name for row in due.rows] == ["after ends", "after gone"]
        assert (due.next_at, due.waits_for) == (NOW + 50, frozenset({"runs", "parks"}))
        assert due.rows[0] == await stored(store, "after ends")
        # One that is due twice over is returned once.
        assert len((await other.due_schedules(NOW + 50)).rows) == 4

    @scenario
    async def test_schedules_are_listed_by_name_in_pages(self, stores: Stores) -> None:
        store = await stores.open()
        names = ["B", "a", "b", 'it\'s "c"', "z", "ä"]
        for name in reversed(names):
            await write(store, name)
        assert [row.name for row in await store.list_schedules("", 100)] == names
        assert [row.name for row in await store.list_schedules("a", 2)] == names[2:4]
        assert await store.list_schedules("ä", 2) == []

    @scenario
    async def test_a_schedule_that_was_dropped_is_gone_and_can_be_added_anew(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        seen = await write(store, "nightly", next_at=NOW)
        assert await other.drop_schedule("nightly")
        assert not await store.drop_schedule("nightly")
        assert await store.write_schedule(seen) is None
        assert (await store.due_schedules(NOW)).rows == []
        await write(other, "nightly")

    @scenario
    async def test_a_tick_wakes_the_workers(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        seen = await write(store, "nightly")
        await wakes([store, other], lambda: store.write_schedule(seen, [new_flow("f")]))

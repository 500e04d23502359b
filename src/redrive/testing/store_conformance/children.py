# ruff: noqa: S101 - tests use assert
"""Commits that reach other flows: they add children that any worker may claim, and send messages."""

import pytest

from redrive.errors import LeaseLostError, StoreError
from redrive.stores.records import Batch, FlowChange, NewFlow
from redrive.stores.sent import Sent
from redrive.testing.store_conformance.scenario import (
    NOW,
    SHORT,
    Stores,
    acquire,
    add,
    claim,
    event,
    expired,
    found,
    new_flow,
    scenario,
    status_of,
)


def child(name: str, **fields: object) -> tuple[NewFlow, str]:
    return new_flow(name, parent="parent", depth=1, **fields), f'{{"refused": "{name}"}}'


class ChildConformance:
    @scenario
    async def test_a_commit_adds_children_that_any_worker_may_claim(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await add(store, "parent")
        await claim(store, lease)
        children = [child("a", queue="q", priority=3), child("b", start_at=NOW + 5), child("c", key="k")]
        await store.commit(lease, Batch(number=1, events=[event("parent", 1)], children=children))
        a, b, c = [await found(other, one) for one in "abc"]
        assert [(one.parent, one.depth, one.owner) for one in (a, b, c)] == [("parent", 1, None)] * 3
        assert (a.status, a.queue, a.priority, b.status, b.wake_at, c.key) == ("ready", "q", 3, "waiting", NOW + 5, "k")
        assert await claim(other, others) == ["a", "c"]
        assert await claim(other, others, now=NOW + 5) == ["b"]

    @scenario
    async def test_a_child_whose_key_is_taken_is_not_added_and_its_parent_is_told(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "parent", new_flow("holder", key="k"))
        await claim(store, lease, limit=10)
        children = [child("a", key="k"), child("b", key="k2"), child("c", key="k2")]
        await store.commit(lease, Batch(number=1, events=[event("parent", 1)], children=children))
        assert sorted(await store.find_flows(["a", "b", "c"])) == ["b"]
        assert [one.body for one in await store.read_inbox(lease)] == ['{"refused": "a"}', '{"refused": "c"}']
        assert (await found(store, "parent")).messages_sent == 2

    @scenario
    async def test_a_commit_sends_messages_in_order_and_wakes_their_flows(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await add(store, "sender", "waits", "runs", "done", "failed", "reopened")
        await claim(store, lease)
        changes = [
            FlowChange(flow_id="waits", status="waiting", wake_at=NOW + 100),
            FlowChange(flow_id="done", status="completed", finished_at=NOW),
            FlowChange(flow_id="failed", status="failed", finished_at=NOW),
            FlowChange(flow_id="reopened", status="failed", finished_at=NOW),
        ]
        await store.commit(lease, Batch(number=1, flows=changes))
        told = ("waits", "runs", "waits", "done", "failed", "gone")
        sends = [Sent("sender", one, NOW + 1, f'{{"n": {number}}}') for number, one in enumerate(told)]
        reopening = Sent("sender", "reopened", NOW + 1, '{"n": 6}', reopens=True)
        await store.commit(lease, Batch(number=2, events=[event("sender", 1)], sends=[*sends, reopening]))
        assert [await status_of(store, one) for one in ("waits", "runs", "done", "failed", "reopened")] == [
            *("ready", "running", "completed", "failed", "ready")
        ]
        assert [(one.flow_id, one.at, one.body) for one in await store.read_inbox(lease)] == [
            ("runs", NOW + 1, '{"n": 1}')
        ]
        assert sorted(await claim(other, others, now=NOW + 1)) == ["reopened", "waits"]
        assert [(one.flow_id, one.body) for one in await other.read_inbox(others)] == [
            *(("waits", '{"n": 0}'), ("waits", '{"n": 2}'), ("reopened", '{"n": 6}'))
        ]
        assert (await found(store, "waits")).messages_sent == 2
        assert (await found(store, "reopened")).finished_at is None

    @scenario
    async def test_a_message_reaches_a_flow_that_the_same_commit_changes_or_adds(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "parent", "ends")
        await claim(store, lease)
        batch = Batch(
            number=1,
            events=[event("parent", 1)],
            flows=[
                FlowChange(flow_id="parent", status="waiting", wake_at=NOW + 100),
                FlowChange(flow_id="ends", status="completed", finished_at=NOW),
            ],
            children=[child("a")],
            sends=[Sent("ends", "parent", NOW, '{"n": 1}'), Sent("parent", "a", NOW, '{"n": 2}')],
        )
        await store.commit(lease, batch)
        assert await store.committed(lease, batch)
        assert sorted(await claim(store, lease)) == ["a", "parent"]
        assert [(one.flow_id, one.body) for one in await store.read_inbox(lease)] == [
            ("parent", '{"n": 1}'),
            ("a", '{"n": 2}'),
        ]

    @scenario
    async def test_children_and_messages_are_written_with_the_whole_batch_or_not_at_all(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, short = await acquire(store), await acquire(other, SHORT)
        await add(store, "parent", "b")
        await claim(store, lease)
        sends = [Sent("parent", "b", NOW, "{}")]
        await store.commit(lease, Batch(number=1, events=[event("parent", 1)]))
        with pytest.raises(StoreError):
            await store.commit(lease, Batch(number=2, events=[event("parent", 1)], children=[child("a")], sends=sends))
        with pytest.raises(StoreError):
            # An id that is taken.
            await store.commit(lease, Batch(number=2, events=[event("parent", 2)], children=[child("b")], sends=sends))
        await expired(store, short)
        with pytest.raises(LeaseLostError):
            await other.commit(short, Batch(number=1, children=[child("a")], sends=sends))
        assert await store.find_flows(["a"]) == {}
        assert await store.read_inbox(lease) == []
        assert [row.seq for row in (await store.read_events(["parent"]))["parent"]] == [1]

    @scenario
    async def test_ten_thousand_children_are_added_and_cancelled_while_the_lease_is_valid(self, stores: Stores) -> None:
        store = await stores.open()
        # A commit may take a part of the lease only.
        lease = await acquire(store, 5.0)
        await add(store, "parent")
        await claim(store, lease)
        names = [f"c{number:05}" for number in range(10_000)]
        children = [child(name) for name in names]
        await store.commit(lease, Batch(number=1, events=[event("parent", 1)], children=children))
        sends = [Sent("parent", name, NOW, "{}") for name in names]
        assert await store.extend_lease(lease, 5.0)
        await store.commit(lease, Batch(number=2, events=[event("parent", 2)], sends=sends))
        last = await found(store, names[-1])
        assert (last.parent, last.messages_sent) == ("parent", 1)
        assert (await store.count_children(["parent"], 10_000))["parent"] == {"ready": 10_000}

    @scenario
    async def test_the_children_of_flows_are_counted_by_status_up_to_a_limit(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "parent", "other")
        await claim(store, lease)
        children = [*(child(f"c{number}") for number in range(5)), (new_flow("d", parent="other", depth=1), "{}")]
        await store.commit(lease, Batch(number=1, events=[event("parent", 1)], children=children))
        assert await store.count_children(["parent", "other", "c1"], 10) == {
            "parent": {"ready": 5},
            "other": {"ready": 1},
        }
        assert await claim(store, lease, limit=2)
        counts = (await store.count_children(["parent"], 10))["parent"]
        assert sum(counts.values()) == 5
        assert counts["running"] >= 1
        assert await store.count_children(["other"], 10) in ({"other": {"ready": 1}}, {"other": {"running": 1}})
        assert sum((await store.count_children(["parent"], 3))["parent"].values()) == 3
        assert await store.count_children([], 3) == {}

    @scenario
    async def test_a_commit_begins_another_run_whose_log_alone_is_read(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b")
        await claim(store, lease)
        rows = [event("a", 3, "[1, 2, 3]"), event("a", 5, "[4, 5]"), event("a", 6, "[6]"), event("b", 1)]
        await store.commit(lease, Batch(number=1, events=rows))
        again = FlowChange(flow_id="a", status="ready", wake_at=NOW, input='{"run": 2}', run_from=4)
        await store.commit(lease, Batch(number=2, flows=[again]))
        flow = await found(other, "a")
        assert (flow.input, flow.run_from, flow.status) == ('{"run": 2}', 4, "ready")
        assert await other.read_events(["a", "b", "none"]) == {"a": rows[1:3], "b": rows[3:], "none": []}
        assert await other.read_events_after("a", 0, 10) == rows[:3]
        assert await claim(store, lease) == ["a"]
        await store.commit(lease, Batch(number=3, flows=[FlowChange(flow_id="a", status="ready", wake_at=NOW)]))
        assert ((await found(other, "a")).input, (await found(other, "a")).run_from) == ('{"run": 2}', 4)

    @scenario
    async def test_a_flow_may_begin_another_run_in_the_commit_that_adds_it(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        change = FlowChange(flow_id="a", status="ready", wake_at=NOW, input='{"run": 2}', run_from=1)
        batch = Batch(number=1, new_flows=[new_flow("a")], events=[event("a", 2)], flows=[change])
        await store.commit(lease, batch)
        flow = await found(store, "a")
        assert (flow.input, flow.run_from, flow.status) == ('{"run": 2}', 1, "ready")

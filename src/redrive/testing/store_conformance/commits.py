# ruff: noqa: S101 - tests use assert
"""Commits: all of a batch or nothing, and only under a valid lease."""

import asyncio
import contextlib

import msgspec
import pytest

from redrive.errors import LeaseLostError, StoreError, StoreUnavailableError
from redrive.stores.records import Batch, DeadQuery, FlowChange, HeartbeatRow, RetryQuery
from redrive.testing.store_conformance.flows import letter, retry
from redrive.testing.store_conformance.scenario import (
    NOW,
    SHORT,
    WORK,
    Stores,
    acquire,
    add,
    claim,
    event,
    expired,
    found,
    new_flow,
    release,
    scenario,
    status_of,
)


class CommitConformance:
    @scenario
    async def test_events_are_read_back_in_order(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b", "c")
        await claim(store, lease)
        await store.commit(lease, Batch(number=1, events=[event("a", 1, "1"), event("b", 1, "2"), event("a", 2, "3")]))
        await store.commit(
            lease, Batch(number=2, events=[event("a", seq, str(seq), NOW + seq) for seq in range(3, 13)])
        )
        logs = await (await stores.open()).read_events(["b", "a", "c", "unknown"])
        assert logs["a"][:2] == [event("a", 1, "1"), event("a", 2, "3")]
        assert logs["a"][2:] == [event("a", seq, str(seq), NOW + seq) for seq in range(3, 13)]
        assert (logs["b"], logs["c"], logs["unknown"]) == ([event("b", 1, "2")], [], [])
        assert await store.read_events([]) == {}

    @scenario
    async def test_a_refused_batch_writes_nothing(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b")
        await claim(store, lease)
        await store.send("a", "{}", NOW)
        (message,) = await store.read_inbox(lease)
        kept = Batch(number=1, events=[event("a", 1, '"kept"')], retries=[retry("a", 1)])
        await store.commit(lease, kept)
        refused = Batch(
            number=2,
            events=[event("b", 1), event("a", 2), event("a", 1)],
            flows=[FlowChange(flow_id="b", status="completed", finished_at=NOW)],
            retries=[retry("b", 1)],
            retries_done=[("a", 1)],
            messages_read={message.id: message.flow_id},
            dead=[letter("b")],
            heartbeats=[HeartbeatRow("b", 1, NOW, "{}")],
        )
        with pytest.raises(StoreError) as raised:
            await store.commit(lease, refused)
        assert not isinstance(raised.value, LeaseLostError | StoreUnavailableError)
        assert not await store.committed(lease, refused)
        assert await store.read_events(["a", "b"]) == {"a": kept.events, "b": []}
        assert await status_of(store, "b") == "running"
        assert await store.list_retries(RetryQuery()) == kept.retries
        assert await store.list_dead_letters(DeadQuery()) == []
        assert await store.read_heartbeats(["b"]) == []
        assert await store.read_inbox(lease) == [message]

    @scenario
    async def test_a_worker_without_a_valid_lease_writes_nothing(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        assert await store.extend_lease(lease, SHORT)
        await expired(other, lease)
        batch = Batch(
            number=1,
            events=[event("a", 1)],
            flows=[FlowChange(flow_id="a", status="completed", finished_at=NOW)],
            retries=[retry("a", 1)],
            dead=[letter("a")],
        )
        with pytest.raises(LeaseLostError):
            await store.commit(lease, batch)
        await other.reap_leases()
        successor = await acquire(other)
        assert await claim(other, successor) == ["a"]
        with pytest.raises(LeaseLostError):
            await store.commit(lease, batch)
        assert await other.read_events(["a"]) == {"a": []}
        assert (await found(other, "a")).owner == successor.epoch
        assert await other.list_retries(RetryQuery()) == []
        assert await other.list_dead_letters(DeadQuery()) == []

    @scenario
    async def test_a_commit_adds_flows_that_the_worker_owns(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        new = [
            new_flow(one, queue="q", priority=7, traceparent=one) for one in ("runs", "waits", "is done", "goes back")
        ]
        changes = [
            FlowChange(flow_id="waits", status="waiting", wake_at=NOW + 5),
            FlowChange(flow_id="is done", status="completed", finished_at=NOW + 1),
            FlowChange(flow_id="goes back", status="ready"),
        ]
        events = [event(flow.id, 1) for flow in new]
        await store.commit(lease, Batch(number=1, new_flows=new, events=events, flows=changes))
        assert await other.read_events([flow.id for flow in new]) == {row.flow_id: [row] for row in events}
        runs, waits, done, ready = [await found(other, flow.id) for flow in new]
        assert (runs.status, runs.owner, runs.claims, runs.priority) == ("running", lease.epoch, 1, 7)
        assert [one.traceparent for one in (runs, waits, done, ready)] == [flow.id for flow in new]
        assert (waits.status, waits.owner, waits.wake_at) == ("waiting", None, NOW + 5)
        assert (done.status, done.owner, done.finished_at) == ("completed", None, NOW + 1)
        assert (ready.status, ready.owner) == ("ready", None)
        claimed = (await other.claim(others, (WORK,), None, 10, NOW + 5)).flows
        assert [(one.id, one.traceparent) for one in claimed] == [("goes back", "goes back"), ("waits", "waits")]
        await store.commit(lease, Batch(number=2, events=[event("runs", 2)]))
        await release(store, lease, 3, "runs", "completed", finished_at=NOW)

    @scenario
    async def test_a_commit_adds_no_flow_to_a_queue_with_a_limit_or_without_a_lease(self, stores: Stores) -> None:
        store = await stores.open()
        lease, short = await acquire(store), await acquire(store, SHORT)
        await store.configure_queue("small", {"limit": 5})
        for queue, holder in (("small", lease), ("default", short)):
            if holder is short:
                await expired(store, short)
            batch = Batch(number=1, new_flows=[new_flow("a"), new_flow("b", queue=queue)], events=[event("a", 1)])
            with pytest.raises(StoreError):
                await store.commit(holder, batch)
            assert await store.find_flows(["a", "b"]) == {}
            assert await store.read_events(["a"]) == {"a": []}
        batch = Batch(number=1, new_flows=[new_flow("a")], events=[event("a", 1)])
        await store.commit(lease, batch)
        with pytest.raises(StoreError):
            await store.commit(lease, Batch(number=2, new_flows=[new_flow("a")]))

    @scenario
    async def test_committed_tells_whether_a_batch_was_committed(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await add(store, "a", "b")
        await claim(store, lease)
        for batch in (
            Batch(number=1),
            Batch(number=2, events=[event("a", 1)]),
            Batch(number=3, retries=[retry("a", 1)]),
            Batch(number=4, events=[event("b", 1), *(event("a", seq) for seq in range(2, 9))]),
            Batch(number=5, events=[event("a", 9)], flows=[FlowChange(flow_id="a", status="ready")]),
            Batch(number=6, events=[event("b", 2), event("b", 3)]),
        ):
            assert not await store.committed(lease, batch)
            await store.commit(lease, batch)
            assert await store.committed(lease, batch)
            assert await other.committed(lease, batch)
        assert not await other.committed(others, Batch(number=1))

    @scenario
    async def test_a_commit_extends_no_lease(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        (before,) = await store.list_workers()
        await store.commit(lease, Batch(number=1))
        (after,) = await store.list_workers()
        assert after.expires_at == before.expires_at

    @scenario
    async def test_a_log_is_read_from_a_given_event_on(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b")
        await claim(store, lease)
        log = [event("a", seq, f'{{"n":  {seq}}}', NOW + seq) for seq in range(1, 13)]
        await store.commit(lease, Batch(number=1, events=[*reversed(log), event("b", 1), event("b", 13)]))
        assert await other.read_events_after("a", 0, 100) == log
        assert await other.read_events_after("a", 0, 5) == log[:5]
        assert await other.read_events_after("a", 5, 5) == log[5:10]
        assert await other.read_events_after("a", 10, 5) == log[10:]
        assert await other.read_events_after("a", 12, 5) == []
        assert await other.read_events_after("a", 2**40, 5) == []
        assert await other.read_events_after("a", 0, 0) == []
        assert await other.read_events_after("none", 0, 5) == []

    @scenario
    async def test_a_running_flow_stays_with_its_owner(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        await release(store, lease, 1, "a", "running")
        flow = await found(store, "a")
        assert (flow.status, flow.owner) == ("running", lease.epoch)
        assert await claim(store, lease, now=NOW + 99) == []

    @scenario
    async def test_a_commit_cannot_change_a_flow_of_another_owner(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await add(store, "a")
        await claim(store, lease)
        with contextlib.suppress(StoreError):
            await release(other, others, 1, "a", "ready")
        flow = await found(store, "a")
        assert (flow.status, flow.owner) == ("running", lease.epoch)

    @scenario
    async def test_a_finished_flow_has_a_finish_time_and_no_owner(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        await release(store, lease, 1, "a", "cancelled", finished_at=NOW + 3)
        flow = await found(store, "a")
        assert (flow.status, flow.owner, flow.wake_at, flow.finished_at) == ("cancelled", None, None, NOW + 3)

    @scenario
    async def test_retries_are_added_replaced_and_removed(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b")
        await claim(store, lease)
        full = msgspec.structs.replace(
            retry("a", 7),
            step="ü",
            queue="q",
            attempt_number=2,
            max_retries=5,
            timeout_seconds=2.5,
            timeout_retry_limit=1,
            backoff_kind="exponential",
            backoff_base_delay_ms=0.5,
            retry_kind="timeout",
            scheduled_at=NOW + 5,
            retryable=False,
            dependencies_satisfied=False,
        )
        await store.commit(lease, Batch(number=1, retries=[full, retry("b", 1), retry("b", 2)]))
        assert await store.list_retries(RetryQuery(flow_id="a")) == [full]
        running = {"status": "dispatched", "timeout_at": NOW + 9, "delivery_token": "t-1"}
        dispatched = msgspec.structs.replace(full, **running)
        await store.commit(lease, Batch(number=2, retries=[dispatched], retries_done=[("b", 1), ("b", 9)]))
        assert await store.list_retries(RetryQuery(flow_id="a")) == [dispatched]
        assert await store.list_retries(RetryQuery()) == [retry("b", 2), dispatched]

    @scenario
    async def test_retries_are_listed_the_next_one_first(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b")
        await claim(store, lease)
        rows = [
            msgspec.structs.replace(retry("ab"[item % 2], item), scheduled_at=NOW + item, queue=f"q{item % 2}")
            for item in (5, 3, 1, 4, 2)
        ]
        await store.commit(lease, Batch(number=1, retries=rows))

        async def items(query: RetryQuery) -> list[int]:
            return [row.item for row in await store.list_retries(query)]

        assert await items(RetryQuery()) == [1, 2, 3, 4, 5]
        assert await items(RetryQuery(limit=2)) == [1, 2]
        assert await items(RetryQuery(flow_id="b")) == [1, 3, 5]
        assert await items(RetryQuery(queue="q0")) == [2, 4]
        assert await items(RetryQuery(flow_id="a", queue="q1")) == []

    @scenario
    async def test_the_last_heartbeat_is_kept_until_the_item_is_done(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b")
        await claim(store, lease)
        first = [HeartbeatRow("a", 1, NOW, "1"), HeartbeatRow("a", 2, NOW, "2"), HeartbeatRow("b", 1, NOW, "3")]
        await store.commit(lease, Batch(number=1, heartbeats=first))
        assert sorted(await store.read_heartbeats(["a", "b"])) == first
        assert sorted(await store.read_heartbeats(["a"])) == first[:2]
        later = HeartbeatRow("a", 1, NOW + 1, '{"page": 2}')
        await store.commit(lease, Batch(number=2, heartbeats=[later], retries_done=[("a", 2)]))
        assert sorted(await store.read_heartbeats(["a", "b"])) == [later, first[2]]
        assert await store.read_heartbeats([]) == []

    @scenario
    async def test_within_a_batch_the_last_row_wins_and_removals_come_last(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        later = msgspec.structs.replace(retry("a", 1), attempt_number=2)
        beats = [HeartbeatRow("a", 1, NOW, "1"), HeartbeatRow("a", 1, NOW + 1, "2"), HeartbeatRow("a", 2, NOW, "3")]
        letters = [letter("a"), msgspec.structs.replace(letter("a"), kind="poison")]
        await store.commit(
            lease,
            Batch(
                number=1,
                retries=[retry("a", 1), later, retry("a", 2)],
                heartbeats=beats,
                retries_done=[("a", 2)],
                dead=letters,
            ),
        )
        assert await store.list_retries(RetryQuery()) == [later]
        assert await store.read_heartbeats(["a"]) == [beats[1]]
        assert await store.list_dead_letters(DeadQuery()) == letters[1:]

    @scenario
    async def test_concurrent_commits_of_several_workers_are_independent(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        leases = [await acquire(store) for store in several]
        await add(several[0], *(f"f{index}" for index in range(3)))
        flows = [await claim(store, lease, limit=1) for store, lease in zip(several, leases, strict=True)]

        async def work(index: int) -> None:
            for number in range(1, 21):
                batch = Batch(number=number, events=[event(flows[index][0], number, str(index))])
                await several[index].commit(leases[index], batch)

        await asyncio.gather(*(work(index) for index in range(3)))
        for index, (flow_id,) in enumerate(flows):
            log = (await several[0].read_events([flow_id]))[flow_id]
            assert [(row.seq, row.body) for row in log] == [(number, str(index)) for number in range(1, 21)]

    @scenario
    async def test_a_large_batch_is_one_commit(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        ids = [f"f{number}" for number in range(500)]
        await add(store, *ids)
        assert len(await claim(store, lease, limit=1000)) == 500
        batch = Batch(
            number=1,
            events=[event(one, seq) for one in ids for seq in (1, 2)],
            flows=[FlowChange(flow_id=one, status="waiting", wake_at=NOW + 5) for one in ids],
            retries=[retry(one, 1) for one in ids],
        )
        await store.commit(lease, batch)
        assert sum(len(log) for log in (await store.read_events(ids)).values()) == 1000
        assert len(await store.list_retries(RetryQuery(limit=1000))) == 500
        assert len(await claim(store, lease, limit=1000, now=NOW + 5)) == 500

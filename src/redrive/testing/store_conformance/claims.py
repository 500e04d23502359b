# ruff: noqa: S101 - tests use assert
"""Claims: each flow goes to one worker, in order of priority, when it is due and its queue's limit allows it."""

import asyncio
from collections import Counter

import pytest

from redrive.errors import LeaseLostError
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.queues import QueueRecord
from redrive.stores.records import Batch, FlowChange, FlowStatus
from redrive.testing.store_conformance.scenario import (
    NOW,
    WORK,
    Stores,
    acquire,
    add,
    claim,
    finish,
    new_flow,
    release,
    scenario,
    status_of,
)


async def queue(store: Store, name: str) -> QueueRecord:
    (one,) = [record for record in await store.list_queues(NOW) if record.name == name]
    return one


class ClaimConformance:
    @scenario
    async def test_a_claim_sets_the_owner_and_counts(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, new_flow("a", input='{"n": 1}', priority=2, key="k", queue="q"))
        lease = await acquire(store)
        (flow,) = (await store.claim(lease, [WORK], None, 10, NOW)).flows
        assert flow == await store.find_flow("a")
        assert (flow.id, flow.input, flow.priority, flow.key, flow.queue) == ("a", '{"n": 1}', 2, "k", "q")
        assert (flow.status, flow.owner, flow.claims) == ("running", lease.epoch, 1)
        await release(store, lease, 1, "a", "ready")
        (again,) = (await store.claim(lease, [WORK], None, 10, NOW)).flows
        assert (again.id, again.claims) == ("a", 2)

    @scenario
    async def test_a_flow_that_nobody_owns_can_be_taken_whatever_it_waits_for(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await add(store, *(new_flow(one, start_at=NOW + 99) for one in ("waits", "parked", "done")))
        lease, others = await acquire(store), await acquire(other)
        assert await store.take_flow(lease, "parked") is not None
        await release(store, lease, 1, "parked", "parked")
        assert await store.take_flow(lease, "done") is not None
        await finish(store, lease, 2, "done", "completed")
        for one in ("waits", "parked"):
            flow = await store.take_flow(lease, one)
            assert flow is not None
            assert flow == await other.find_flow(one)
            assert (flow.status, flow.owner) == ("running", lease.epoch)
        assert [await other.take_flow(others, one) for one in ("waits", "done", "none")] == [None] * 3
        await store.release_lease(lease)
        with pytest.raises(LeaseLostError):
            await store.take_flow(lease, "waits")
        assert await other.take_flow(others, "waits") is not None

    @scenario
    async def test_the_highest_priority_goes_first_then_the_oldest_wake_up(self, stores: Stores) -> None:
        store = await stores.open()
        await add(
            store,
            new_flow("low", priority=-1, start_at=NOW - 99, queue="a"),
            new_flow("newer", created_at=NOW - 1, queue="a"),
            new_flow("due", created_at=NOW - 9, start_at=NOW - 3, definition="action:other"),
            new_flow("older", created_at=NOW - 5, queue="b"),
            new_flow("high", priority=7, created_at=NOW, definition="action:other"),
            new_flow("high and due", priority=7, created_at=NOW - 9, start_at=NOW - 2, queue="b"),
        )
        lease = await acquire(store)
        both = (WORK, "action:other")
        first = await claim(store, lease, limit=3, definitions=both)
        second = await claim(store, lease, limit=3, definitions=both)
        assert first + second == ["high and due", "high", "older", "due", "newer", "low"]

    @scenario
    async def test_a_waiting_flow_is_claimed_when_it_is_due(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, new_flow("b", start_at=NOW + 20), new_flow("a", start_at=NOW + 10))
        lease = await acquire(store)
        early = await store.claim(lease, [WORK], None, 10, NOW + 9.75)
        assert (early.flows, early.next_wake) == ([], NOW + 10)
        due = await store.claim(lease, [WORK], None, 10, NOW + 10)
        assert ([flow.id for flow in due.flows], due.next_wake) == (["a"], NOW + 20)
        await release(store, lease, 1, "a", "waiting", wake_at=NOW + 15)
        assert (await store.claim(lease, [WORK], None, 10, NOW + 10)).next_wake == NOW + 15
        rest = await store.claim(lease, [WORK], None, 10, NOW + 20)
        assert ([flow.id for flow in rest.flows], rest.next_wake) == (["a", "b"], None)

    @scenario
    async def test_a_flow_that_waits_without_a_time_is_claimed_once_it_has_a_message(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, *(new_flow(name) for name in ("a", "b", "c")))
        lease = await acquire(store)
        assert await claim(store, lease) == ["a", "b", "c"]
        await release(store, lease, 1, "a", "waiting")
        await release(store, lease, 2, "b", "waiting", wake_at=NOW + 5)
        await release(store, lease, 3, "c", "waiting")
        flow = await store.find_flow("a")
        assert flow is not None
        assert (flow.status, flow.wake_at, flow.owner) == ("waiting", None, None)
        counts = await queue(store, "default")
        assert (counts.waiting, counts.due) == (3, 0)
        nothing = await store.claim(lease, [WORK], None, 10, NOW + 1)
        assert (nothing.flows, nothing.next_wake) == ([], NOW + 5)
        due = await store.claim(lease, [WORK], None, 10, NOW + 5)
        assert ([one.id for one in due.flows], due.next_wake) == (["b"], None)
        assert await store.send("c", "{}", NOW + 6) == "waiting"
        woken = await store.claim(lease, [WORK], None, 10, NOW + 6)
        assert ([one.id for one in woken.flows], woken.next_wake) == (["c"], None)
        assert (await store.claim(lease, [WORK], None, 10, NOW + 99_999_999)).flows == []

    @scenario
    async def test_a_new_flow_may_wait_for_a_message_in_the_batch_that_adds_it(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        waits = FlowChange(flow_id="a", status="waiting")
        await store.commit(lease, Batch(number=1, new_flows=[new_flow("a")], flows=[waits]))
        flow = await store.find_flow("a")
        assert flow is not None
        assert (flow.status, flow.wake_at) == ("waiting", None)
        assert (await store.claim(lease, [WORK], None, 10, NOW + 99_999_999)).flows == []
        await store.send("a", "{}", NOW + 6)
        assert await claim(store, lease) == ["a"]

    @scenario
    async def test_only_flows_that_the_worker_can_run_are_claimed(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(
            store,
            new_flow("a", definition="action:a", queue="fast"),
            new_flow("b", definition="action:b", queue="fast"),
            new_flow("c", definition="action:a", queue="slow"),
            new_flow("late a", definition="action:a", queue="fast", start_at=NOW + 30),
            new_flow("late b", definition="action:b", queue="fast", start_at=NOW + 20),
            new_flow("late c", definition="action:a", queue="slow", start_at=NOW + 10),
        )
        nothing = await store.claim(lease, [], None, 10, NOW + 60)
        assert (nothing.flows, nothing.next_wake) == ([], None)
        assert (await store.claim(lease, ["action:a"], [], 10, NOW + 60)).flows == []
        some = await store.claim(lease, ["action:a"], ["fast", "empty"], 10, NOW)
        assert ([flow.id for flow in some.flows], some.next_wake) == (["a"], NOW + 30)
        more = await store.claim(lease, ["action:a", "action:none"], None, 10, NOW)
        assert ([flow.id for flow in more.flows], more.next_wake) == (["c"], NOW + 10)
        rest = await store.claim(lease, ["action:a", "action:b"], None, 10, NOW)
        assert ([flow.id for flow in rest.flows], rest.next_wake) == (["b"], NOW + 10)

    @scenario
    async def test_a_claim_tells_whether_there_may_be_more(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, *(f"f{number}" for number in range(5)), new_flow("late", start_at=NOW + 1))
        counts = []
        while (claimed := await store.claim(lease, [WORK], None, 2, NOW)).more:
            counts.append(len(claimed.flows))
        assert [*counts, len(claimed.flows)] == [2, 2, 1]
        assert claimed.next_wake == NOW + 1

    @scenario
    async def test_flows_that_are_paused_parked_or_finished_are_not_claimed(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        statuses: tuple[FlowStatus, ...] = ("paused", "parked", "completed", "failed", "cancelled")
        await add(store, *statuses)
        await claim(store, lease)
        for number, status in enumerate(statuses, start=1):
            await finish(store, lease, number, status, status)
        assert [await status_of(store, status) for status in statuses] == list(statuses)
        assert await claim(store, lease, now=NOW + 1e9) == []

    @scenario
    async def test_no_two_claims_get_the_same_flow(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(4)]
        leases = [await acquire(store) for store in several]
        ids = [f"f{number}" for number in range(120)]
        await add(several[0], *(new_flow(one, start_at=NOW + number % 2) for number, one in enumerate(ids)))

        async def claim_all(store: Store, lease: Lease) -> list[str]:
            mine: list[str] = []
            while some := await claim(store, lease, limit=7, now=NOW + 1):
                mine += some
            return mine

        workers = [*zip(several, leases, strict=True)] * 2
        claimed = [one for some in await asyncio.gather(*(claim_all(*worker) for worker in workers)) for one in some]
        assert Counter(claimed) == Counter(ids)

    @scenario
    async def test_a_queue_limit_is_never_exceeded(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        leases = [await acquire(store) for store in several]
        await several[0].configure_queue("small", {"limit": 3})
        await add(several[0], *(new_flow(f"s{number}", queue="small") for number in range(10)), "other")
        claimed = await asyncio.gather(
            *(claim(store, lease, limit=2) for store, lease in zip(several * 2, leases * 2, strict=True))
        )
        owned = [one for some in claimed for one in some]
        assert sorted(one[0] for one in owned) == ["o", "s", "s", "s"]
        assert (await several[0].claim(leases[0], [WORK], None, 2, NOW)).limited, (
            "more can be claimed once one has ended"
        )
        assert await queue(several[0], "small") == QueueRecord(name="small", limit=3, ready=7, waiting=0, running=3)

    @scenario
    async def test_a_flow_that_ends_makes_room_in_its_queue(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await store.configure_queue("small", {"limit": 2})
        await add(store, *(new_flow(f"s{number}", queue="small", created_at=NOW + number) for number in range(6)))
        assert await claim(store, lease, now=NOW + 9) == ["s0", "s1"]
        assert await claim(other, others, now=NOW + 9) == []
        await finish(store, lease, 1, "s0", "completed")
        assert await claim(other, others, now=NOW + 9) == ["s2"]
        await release(store, lease, 2, "s1", "waiting", wake_at=NOW + 50)
        await store.release_lease(lease)
        assert await claim(other, others, now=NOW + 9) == ["s3"]
        await other.configure_queue("small", {"limit": 3})
        assert await claim(other, others, now=NOW + 9) == ["s4"]
        await other.configure_queue("small", {"limit": None})
        assert await claim(other, others, now=NOW + 99) == ["s5", "s1"]

    @scenario
    async def test_the_highest_priority_goes_first_in_a_queue_with_a_limit_too(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("small", {"limit": 1})
        await add(store, "a", "b", new_flow("urgent", queue="small", priority=9))
        assert await claim(store, lease, limit=2) == ["urgent", "a"]

    @scenario
    async def test_a_full_queue_does_not_block_others(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("closed", {"limit": 0})
        await add(
            store,
            *(new_flow(f"c{number}", queue="closed", priority=9) for number in range(5)),
            new_flow("due", queue="closed", created_at=NOW - 9, start_at=NOW - 5),
            "open",
        )
        claimed = await store.claim(lease, [WORK], None, 3, NOW)
        assert [flow.id for flow in claimed.flows] == ["open"]
        # A time in the past would make the worker claim in a busy loop.
        assert claimed.next_wake is None
        assert not claimed.more

    @scenario
    async def test_queues_are_listed_with_their_limits_and_their_flows(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, new_flow("a", queue="q"), new_flow("b", queue="q"))
        await claim(store, lease)
        await finish(store, lease, 1, "a", "completed")
        await add(store, *(new_flow(f"r{number}", queue="q") for number in range(2)), "d")
        await add(store, *(new_flow(f"w{number}", queue="q", start_at=NOW + 5) for number in range(3)))
        await store.configure_queue("empty", {"limit": 4})
        assert await queue(store, "q") == QueueRecord(name="q", limit=None, ready=2, waiting=3, running=1)
        assert await queue(store, "default") == QueueRecord(name="default", limit=None, ready=1, waiting=0, running=0)
        assert await queue(store, "empty") == QueueRecord(name="empty", limit=4, ready=0, waiting=0, running=0)
        await store.configure_queue("empty", {"limit": None})
        assert all(record.limit is None for record in await store.list_queues(NOW))

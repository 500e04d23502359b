# ruff: noqa: S101 - tests use assert
"""Flow control: limits and rates of queues and keys, turns between keys, and priorities that age."""

import asyncio
from collections import Counter
from typing import Any

from redrive.stores.flow_control import QueueUse
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.queues import QueueRecord
from redrive.testing.store_conformance.scenario import (
    NOW,
    WORK,
    Stores,
    acquire,
    add,
    claim,
    expired,
    finish,
    found,
    new_flow,
    release,
    scenario,
)


async def add_keyed(store: Store, key: str, number: int, **fields: Any) -> None:
    """Add flows of a key: a0, a1, ... in this order."""
    await add(
        store,
        *(
            new_flow(f"{key}{one}", queue="q", concurrency_key=key, created_at=NOW - 9 + one / 1000, **fields)
            for one in range(number)
        ),
    )


async def begun(store: Store, lease: Lease, limit: int, now: float = NOW) -> Counter[str]:
    """Claim, and count the flows by their key."""
    return Counter(flow_id[0] for flow_id in await claim(store, lease, limit, now))


class FlowControlConformance:
    @scenario
    async def test_no_more_flows_of_a_key_run_at_once_than_its_limit(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        leases = [await acquire(store) for store in several]
        await several[0].configure_queue("q", {"per_key": 2})
        for key in "abc":
            await add_keyed(several[0], key, 5)
        await add(several[0], new_flow("free", queue="q"), "other")
        claimed = await asyncio.gather(
            *(claim(store, lease, limit=3) for store, lease in zip(several * 3, leases * 3, strict=True))
        )
        counted = Counter(one[0] for some in claimed for one in some)
        assert counted == {"a": 2, "b": 2, "c": 2, "f": 1, "o": 1}
        assert (await several[0].claim(leases[0], [WORK], None, 9, NOW)).limited, "one that ends makes room"

    @scenario
    async def test_a_flow_that_ends_or_waits_makes_room_for_its_key(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await store.configure_queue("q", {"per_key": 1})
        await add_keyed(store, "a", 3)
        await add_keyed(store, "b", 1)
        assert await claim(store, lease) == ["a0", "b0"]
        assert await claim(other, others) == []
        await finish(store, lease, 1, "a0", "completed")
        assert await claim(other, others) == ["a1"]
        await release(other, others, 1, "a1", "waiting", wake_at=NOW + 5)
        assert await claim(store, lease) == ["a2"]
        assert await claim(store, lease, now=NOW + 5) == []
        await finish(store, lease, 2, "a2", "completed")
        # A flow that has begun needs room as well.
        assert await claim(store, lease, now=NOW + 5) == ["a1"]

    @scenario
    async def test_the_slots_of_a_lost_worker_come_back(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(other)
        await store.configure_queue("q", {"per_key": 2})
        await add_keyed(store, "a", 3)
        lost = await acquire(store, 0.5)
        assert await claim(store, lost) == ["a0", "a1"]
        await expired(other, lost)
        assert await claim(other, lease) == []
        await other.reap_leases()
        # Those that have begun first.
        assert sorted(await claim(other, lease)) == ["a0", "a1"]

    @scenario
    async def test_a_limit_per_key_holds_beside_the_limit_of_the_queue(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"per_key": 2})
        await store.configure_queue("q", {"limit": 3})
        await add_keyed(store, "a", 5)
        await add_keyed(store, "b", 5)
        counted = await begun(store, lease, 9)
        assert sorted(counted.values()) == [1, 2]

    @scenario
    async def test_keys_take_turns(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add_keyed(store, "a", 200)
        await add_keyed(store, "b", 3)
        await add_keyed(store, "c", 1)
        assert await claim(store, lease, 5) == ["a0", "b0", "c0", "a1", "b1"]
        assert await claim(store, lease, 1) == ["a2"]
        assert await claim(store, lease, 1) == ["b2"]
        await add_keyed(store, "d", 9)
        assert await begun(store, lease, 6) == {"a": 3, "d": 3}

    @scenario
    async def test_each_key_is_served_once_a_round_whatever_the_others_have(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        keys = "abcdefgh"
        for key in keys:
            await add_keyed(store, key, 40 if key == "d" else 4)
        served = "".join([flow_id[0] for _ in range(16) for flow_id in await claim(store, lease, 2)])
        assert served == keys * 4

    @scenario
    async def test_keys_take_turns_among_flows_of_the_same_priority(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add_keyed(store, "a", 5)
        await add_keyed(store, "b", 5, priority=1)
        await add_keyed(store, "c", 2, priority=1)
        assert await begun(store, lease, 4) == {"b": 2, "c": 2}
        assert await begun(store, lease, 4) == {"b": 3, "a": 1}

    @scenario
    async def test_a_key_at_its_limit_does_not_hold_up_others(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"per_key": 1})
        await add_keyed(store, "a", 50, priority=9)
        await add_keyed(store, "b", 1)
        await add(store, "other")
        assert await claim(store, lease, 1) == ["a0"]
        assert sorted(await claim(store, lease, 5)) == ["b0", "other"]

    @scenario
    async def test_a_queue_with_keys_shares_its_workers_with_others(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add_keyed(store, "a", 2)
        await add(store, new_flow("first", created_at=NOW - 99), new_flow("urgent", priority=1), "last")
        assert await claim(store, lease, 9) == ["urgent", "first", "a0", "a1", "last"]

    @scenario
    async def test_a_rate_is_kept_by_all_claims_together(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        leases = [await acquire(store) for store in several]
        await several[0].configure_queue("q", {"rate": "10/m"})
        await add(several[0], *(new_flow(f"f{one}", queue="q") for one in range(40)))
        times: list[float] = []
        for tick in range(200):
            now = NOW + tick
            some = await asyncio.gather(
                *(claim(store, lease, 5, now) for store, lease in zip(several, leases, strict=True))
            )
            times += [now for one in some for _ in one]
        assert len(times) == 34, "one every 6 seconds"
        for start in times:
            assert sum(start <= at < start + 60 for at in times) <= 10

    @scenario
    async def test_a_claim_tells_when_the_rate_lets_the_next_flow_begin(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"rate": "100/m"})
        await add(store, *(new_flow(f"f{one}", queue="q") for one in range(3)))
        first = await store.claim(lease, [WORK], None, 9, NOW)
        assert (len(first.flows), first.more, first.limited) == (1, False, True)
        assert first.next_wake is not None
        assert round(first.next_wake - NOW, 6) == 0.6
        assert len((await store.claim(lease, [WORK], None, 9, first.next_wake)).flows) == 1

    @scenario
    async def test_flows_that_have_begun_use_no_rate(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"rate": "1/h"})
        await add(store, *(new_flow(f"f{one}", queue="q", created_at=NOW + one) for one in range(30)))
        assert await claim(store, lease, now=NOW + 50) == ["f0"]
        await release(store, lease, 1, "f0", "waiting", wake_at=NOW + 60)
        assert await claim(store, lease, 3, now=NOW + 70) == ["f0"]

    @scenario
    async def test_a_rate_per_key_is_for_each_key(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"key_rate": "2/m"})
        for key in "ab":
            await add_keyed(store, key, 9)
        await add(store, new_flow("free", queue="q"), new_flow("free2", queue="q"))
        first = await store.claim(lease, [WORK], None, 99, NOW)
        assert sorted(flow.id for flow in first.flows) == ["a0", "b0", "free", "free2"]
        assert first.next_wake == NOW + 30
        await add_keyed(store, "c", 9)
        assert await claim(store, lease, now=NOW + 10) == ["c0"]
        assert sorted(await claim(store, lease, now=NOW + 30)) == ["a1", "b1"]
        assert await claim(store, lease, now=NOW + 30) == []

    @scenario
    async def test_a_rate_that_changes_starts_afresh_and_one_that_is_set_again_does_not(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"rate": "1/h"})
        await add(store, *(new_flow(f"f{one}", queue="q") for one in range(3)))
        assert len(await claim(store, lease)) == 1
        await store.configure_queue("q", {"rate": "1/h", "limit": 9})
        assert len(await claim(store, lease)) == 0
        await store.configure_queue("q", {"rate": "1/s"})
        assert len(await claim(store, lease)) == 1
        await store.configure_queue("q", {"rate": None})
        assert len(await claim(store, lease)) == 1

    @scenario
    async def test_priorities_rise_with_the_time_that_a_flow_waits(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"aging": 600.0})
        await add(store, new_flow("old", queue="q", created_at=NOW - 1200))
        await add(store, *(new_flow(f"new{one}", queue="q", priority=1) for one in range(5)))
        await add(store, new_flow("key", queue="q", created_at=NOW - 1300, concurrency_key="k"))
        assert sorted(await claim(store, lease, 2)) == ["key", "old"]
        assert await begun(store, lease, 9) == {"n": 5}

    @scenario
    async def test_the_settings_of_a_queue_are_listed(self, stores: Stores) -> None:
        store = await stores.open()
        settings: dict[str, Any] = {"limit": 9, "per_key": 2, "rate": "100/m", "key_rate": "1/s", "aging": 600.0}
        await store.configure_queue("q", {"limit": 3})
        await store.configure_queue("q", settings)
        listed = QueueRecord(name="q", ready=0, waiting=0, running=0, **settings)
        assert await store.list_queues(NOW) == await store.list_queues(NOW, "q") == [listed]
        await store.configure_queue("q", {"rate": None})
        assert (await store.list_queues(NOW))[0].rate is None
        await store.configure_queue("q", dict.fromkeys(settings))
        assert await store.list_queues(NOW) == []

    @scenario
    async def test_flows_with_keys_are_counted_with_the_others(self, stores: Stores) -> None:
        store = await stores.open()
        await add_keyed(store, "a", 2)
        await add(store, new_flow("free", queue="q"))
        assert (await store.list_queues(NOW))[0].ready == 3
        assert [(one.queue, one.status, one.count) for one in await store.count_flows()] == [("q", "ready", 3)]

    @scenario
    async def test_a_store_tells_how_much_of_its_limits_and_rates_a_queue_uses(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        assert await store.queue_use("q", "a") == QueueUse(0, None, None)
        await store.configure_queue("q", {"rate": "1/s", "key_rate": "1/m"})
        await add_keyed(store, "a", 2)
        await claim(store, lease)
        assert await store.queue_use("q", "a") == QueueUse(1, NOW + 1, NOW + 60)
        assert await store.queue_use("q", "b") == QueueUse(0, NOW + 1, None)
        assert await store.queue_use("q", None) == QueueUse(0, NOW + 1, None)

    @scenario
    async def test_a_key_that_is_released_can_start_another_flow(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, new_flow("a", key="k"))
        assert (await store.add_flows([new_flow("b", key="k")]))[0] == await found(store, "a")
        await store.release_key("a")
        await store.release_key("a")
        await store.release_key("nobody")
        assert (await found(store, "a")).key is None
        await add(store, new_flow("b", key="k"))

    @scenario
    async def test_an_input_is_replaced_until_the_flow_is_claimed(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, new_flow("waits", start_at=NOW + 10), "ready")
        assert await store.replace_input("waits", '{"n":2}', NOW + 20)
        assert await store.replace_input("ready", '{"n":3}', NOW + 20)
        waits, ready = await found(store, "waits"), await found(store, "ready")
        assert (waits.input, waits.start_at, waits.wake_at) == ('{"n":2}', NOW + 20, NOW + 20)
        assert (ready.input, ready.start_at, ready.wake_at) == ('{"n":3}', NOW, NOW)
        assert await claim(store, lease, now=NOW + 15) == ["ready"]
        assert not await store.replace_input("ready", '{"n":4}', NOW + 30)
        assert not await store.replace_input("nobody", "{}", NOW)
        assert await claim(store, lease, now=NOW + 20) == ["waits"]

# ruff: noqa: S101 - tests use assert
"""Leases: who may own flows, for how long, and what happens to the flows of a dead worker."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import LeaseLostError
from redrive.stores.interface import Store
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import Batch, FlowChange
from redrive.testing.store_conformance.scenario import (
    LONG,
    NOW,
    SHORT,
    WORK,
    Stores,
    acquire,
    add,
    claim,
    event,
    expired,
    finish,
    scenario,
    status_of,
    until,
)


async def is_fenced(store: Store, lease: Lease) -> None:
    """Check that the lease no longer allows anything."""
    assert not await store.extend_lease(lease, LONG)
    with pytest.raises(LeaseLostError):
        await store.commit(lease, Batch(number=1, events=[event("a", 1)]))
    with pytest.raises(LeaseLostError):
        await store.claim(lease, [WORK], None, 10, NOW)
    assert await store.read_events(["a"]) == {"a": []}


class LeaseConformance:
    @scenario
    async def test_no_epoch_is_issued_twice(self, stores: Stores) -> None:
        one, other = await stores.open(), await stores.open()
        first = await acquire(one)
        await one.release_lease(first)
        leases = [first, await acquire(one), await acquire(other), await acquire(one)]
        await stores.close(one)
        leases.append(await acquire(await stores.open()))
        assert len({lease.epoch for lease in leases}) == len(leases)

    @scenario
    async def test_workers_are_listed_with_their_definitions_queues_and_flows(self, stores: Stores) -> None:
        store = await stores.open()
        before = SYSTEM_CLOCK.wall()
        every = await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK, "action:ü")), LONG)
        some = await store.acquire_lease(NewWorker(name="host:2", definitions=(WORK,), queues=("fast", "slow")), LONG)
        assert (every.worker, some.worker) == ("host:1", "host:2")
        await add(store, "a", "b")
        await claim(store, some)
        workers = {worker.epoch: worker for worker in await store.list_workers()}
        assert workers.keys() == {every.epoch, some.epoch}
        first, second = workers[every.epoch], workers[some.epoch]
        assert (first.name, first.definitions, first.queues, first.flows) == ("host:1", (WORK, "action:ü"), None, 0)
        assert (second.name, second.queues, second.flows) == ("host:2", ("fast", "slow"), 2)
        # The store's clock may be that of another machine.
        assert abs(first.joined_at - before) < LONG
        assert first.expires_at == pytest.approx(first.joined_at + LONG, abs=5)
        assert first.alive
        assert second.alive

    @scenario
    async def test_a_worker_is_listed_with_the_definitions_of_its_last_claim(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.claim(lease, [WORK, "action:later"], None, 1, NOW)
        (worker,) = await (await stores.open()).list_workers()
        assert worker.definitions == (WORK, "action:later")

    @scenario
    async def test_an_expired_lease_fences_its_holder_before_it_is_reaped(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a")
        lease = await acquire(store, SHORT)
        await expired(store, lease)
        await is_fenced(store, lease)

    @scenario
    async def test_an_extended_lease_expires_from_now(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store, LONG)
        assert await store.extend_lease(lease, 3 * LONG)
        (longer,) = await store.list_workers()
        assert longer.expires_at >= longer.joined_at + 3 * LONG
        assert await store.extend_lease(lease, LONG)
        (shorter,) = await store.list_workers()
        assert shorter.expires_at == pytest.approx(shorter.joined_at + LONG, abs=10)
        assert await (await stores.open()).reap_leases() == []
        await store.commit(lease, Batch(number=1))

    @scenario
    async def test_the_flows_of_a_reaped_worker_become_ready(self, stores: Stores) -> None:
        gone, other = await stores.open(), await stores.open()
        await add(gone, "a", "b", "c")
        lost = await acquire(gone, name="gone:1")
        assert sorted(await claim(gone, lost)) == ["a", "b", "c"]
        await finish(gone, lost, 1, "c", "completed")
        assert await gone.extend_lease(lost, SHORT)
        await expired(other, lost)
        alive = await acquire(other)
        (reaped,) = await other.reap_leases()
        assert (reaped.worker, reaped.epoch, reaped.flows) == ("gone:1", lost.epoch, 2)
        assert await other.reap_leases() == []
        assert [worker.epoch for worker in await other.list_workers()] == [alive.epoch]
        assert await status_of(other, "c") == "completed"
        assert sorted(await claim(other, alive)) == ["a", "b"]

    @scenario
    async def test_a_reaped_lease_fences_its_holder(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await add(store, "a")
        lease = await acquire(store, SHORT)
        await expired(store, lease)
        assert len(await other.reap_leases()) == 1
        await is_fenced(store, lease)
        with pytest.raises(LeaseLostError):
            await store.committed(lease, Batch(number=1))
        assert await status_of(store, "a") == "ready"

    @scenario
    async def test_lost_owners_are_counted_until_a_commit_resets_the_count(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a", "b")
        for lost in range(3):
            assert {flow.lost_owners for flow in (await store.find_flows(["a", "b"])).values()} == {lost}
            lease = await acquire(store)
            assert {flow.lost_owners for flow in (await store.claim(lease, [WORK], None, 10, NOW)).flows} == {lost}
            # Only now: on a slow machine, a short lease would have expired before the claim.
            assert await store.extend_lease(lease, SHORT)
            await expired(store, lease)
            assert len(await store.reap_leases()) == 1
        lease = await acquire(store)
        await claim(store, lease)
        changes = [FlowChange(flow_id="a", status="running", lost_owners=2), FlowChange(flow_id="b", status="ready")]
        await store.commit(lease, Batch(number=1, flows=changes))
        # An owner that releases its lease is not lost.
        await store.release_lease(lease)
        flows = await store.find_flows(["a", "b"])
        assert (flows["a"].lost_owners, flows["b"].lost_owners) == (2, 0)

    @scenario
    async def test_a_reap_counts_against_the_accused_flow_alone(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await add(store, "a", "b")
        lease = await acquire(store)
        await claim(store, lease)
        await store.accuse(lease, "b", '{"first": 1}')
        await store.accuse(lease, "a", '{"alone": 1}')
        assert await store.extend_lease(lease, SHORT)
        await expired(other, lease)
        assert len(await other.reap_leases()) == 1
        flows = await other.find_flows(["a", "b"])
        assert (flows["a"].lost_owners, flows["a"].blame) == (1, '{"alone": 1}')
        assert (flows["b"].lost_owners, flows["b"].blame) == (0, None)
        after = await acquire(other)
        claimed = await other.claim(after, [WORK], None, 10, NOW)
        assert {flow.id: flow.blame for flow in claimed.flows} == {"a": '{"alone": 1}', "b": None}

    @scenario
    async def test_a_lease_that_is_released_or_no_longer_accuses_blames_nobody(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a", "b")
        lease = await acquire(store)
        await claim(store, lease)
        await store.accuse(lease, "a", "{}")
        await store.release_lease(lease)
        # The lease is gone: this must do nothing.
        await store.accuse(lease, "a", "{}")
        lease = await acquire(store)
        await claim(store, lease)
        await store.accuse(lease, "a", "{}")
        await store.accuse(lease, None)
        assert await store.extend_lease(lease, SHORT)
        await expired(store, lease)
        assert len(await store.reap_leases()) == 1
        flows = await store.find_flows(["a", "b"])
        assert {(flow.lost_owners, flow.blame) for flow in flows.values()} == {(1, None)}

    @scenario
    async def test_a_lease_that_has_expired_can_still_accuse_until_it_is_reaped(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a")
        lease = await acquire(store)
        await claim(store, lease)
        assert await store.extend_lease(lease, SHORT)
        await expired(store, lease)
        await store.accuse(lease, "a", '{"held": 1}')
        assert len(await store.reap_leases()) == 1
        assert (await store.find_flows(["a"]))["a"].blame == '{"held": 1}'

    @scenario
    async def test_what_is_known_against_a_flow_stays_until_a_commit_changes_it(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a")

        async def blame() -> str | None:
            return (await store.find_flows(["a"]))["a"].blame

        lease = await acquire(store)
        await claim(store, lease)
        for number, (said, kept) in enumerate([('{"held": 1}', '{"held": 1}'), (None, '{"held": 1}'), ("", None)], 1):
            change = FlowChange(flow_id="a", status="running", blame=said)
            await store.commit(lease, Batch(number=number, flows=[change]))
            assert await blame() == kept

    @scenario
    async def test_a_lease_is_kept_from_another_thread_while_the_loop_is_blocked(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a")
        lease = await acquire(store)
        await claim(store, lease)

        async def keep() -> list[bool]:
            renewer = store.lease_renewer()
            try:
                extended = await renewer.extend_lease(lease, LONG)
                await renewer.accuse(lease, "a", '{"held": 1}')
                # It gives the lease up.
                return [extended, await renewer.extend_lease(lease, 0.0), await renewer.extend_lease(lease, LONG)]
            finally:
                await renewer.close()

        with ThreadPoolExecutor(1) as pool:
            # Not awaited: this loop is blocked meanwhile.
            kept = pool.submit(asyncio.run, keep()).result()
        assert kept == [True, True, False]
        assert len(await store.reap_leases()) == 1
        assert (await store.find_flows(["a"]))["a"].blame == '{"held": 1}'

    @scenario
    async def test_a_dead_worker_is_reaped_once(self, stores: Stores) -> None:
        reapers = [await stores.open() for _ in range(4)]
        leases = [await acquire(reapers[0], SHORT) for _ in range(5)]
        for lease in leases:
            await expired(reapers[0], lease)
        reaped = [
            one.epoch for found in await asyncio.gather(*(store.reap_leases() for store in reapers)) for one in found
        ]
        assert sorted(reaped) == sorted(lease.epoch for lease in leases)

    @scenario
    async def test_live_workers_are_not_reaped(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await add(store, "a")
        lease = await acquire(store)
        await claim(store, lease)
        assert await other.reap_leases() == []
        assert await store.reap_leases() == []
        await finish(store, lease, 1, "a", "completed")

    @scenario
    async def test_releasing_a_lease_makes_its_flows_ready(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await add(store, "a", "b")
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "b", "completed")
        await store.release_lease(lease)
        assert await status_of(other, "a") == "ready"
        assert await status_of(other, "b") == "completed"
        assert await other.reap_leases() == []
        assert await other.list_workers() == []
        assert await claim(other, await acquire(other)) == ["a"]
        await is_fenced(store, lease)
        await store.release_lease(lease)
        assert await status_of(other, "a") == "running"

    @scenario
    async def test_a_process_that_ended_without_releasing_its_lease_keeps_its_flows_only_until_it_expires(
        self, stores: Stores
    ) -> None:
        gone, other = await stores.open(), await stores.open()
        await add(gone, "a")
        lease = await acquire(gone)
        await claim(gone, lease)
        await gone.extend_lease(lease, 2 * SHORT)
        await stores.close(gone)
        (reaped,) = await until(other.reap_leases)
        assert reaped.flows == 1
        assert await claim(other, await acquire(other)) == ["a"]

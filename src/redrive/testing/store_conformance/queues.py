# ruff: noqa: S101 - tests use assert
"""Queues: paused for the whole fleet, and listed with their limits, pauses and flows."""

from redrive.stores.interface import Store
from redrive.stores.queues import QueuePause, QueueRecord
from redrive.stores.records import Batch, FlowStatus, RetryRow
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
)
from redrive.testing.store_conformance.wakes import wakes

PAUSE = QueuePause(at=NOW + 0.25, by="ann", why='the "bank" is down')


async def queue(store: Store, name: str, now: float = NOW) -> QueueRecord:
    (one,) = [record for record in await store.list_queues(now) if record.name == name]
    assert await store.list_queues(now, name) == [one]
    return one


def retry(flow_id: str, item: int, in_queue: str) -> RetryRow:
    return RetryRow(
        flow_id=flow_id,
        item=item,
        step="charge",
        queue=in_queue,
        status="waiting",
        attempt_number=1,
        max_retries=None,
        timeout_seconds=None,
        timeout_retry_limit=None,
        backoff_kind="constant",
        backoff_base_delay_ms=1000.0,
        retry_kind="exception",
        scheduled_at=NOW + 1,
    )


class QueueConformance:
    @scenario
    async def test_nothing_of_a_paused_queue_is_claimed(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await add(store, new_flow("ready", queue="q"), new_flow("due", queue="q", start_at=NOW + 1), "elsewhere")
        await add(store, new_flow("later", queue="q", start_at=NOW + 50))
        assert await store.set_queue_pause("q", PAUSE)
        claimed = await other.claim(others, [WORK], None, 10, NOW + 2)
        assert [flow.id for flow in claimed.flows] == ["elsewhere"]
        # A wake-up of a paused queue would make the worker claim for nothing.
        assert (claimed.next_wake, claimed.paused) == (None, frozenset({"q"}))
        assert (await store.claim(lease, [WORK], ["q"], 10, NOW + 99)).flows == []
        # What was claimed before the pause can still be written.
        await finish(other, others, 1, "elsewhere", "completed")
        assert await other.set_queue_pause("q", None)
        resumed = await store.claim(lease, [WORK], None, 10, NOW + 2)
        assert {flow.id for flow in resumed.flows} == {"ready", "due"}
        assert (resumed.next_wake, resumed.paused) == (NOW + 50, frozenset())

    @scenario
    async def test_a_claim_that_takes_nothing_tells_which_queues_are_paused(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        for name in ("a", "b", 'it\'s "c"'):
            await store.set_queue_pause(name, PAUSE)
        await add(store, "f")
        claimed = await store.claim(lease, [WORK], ["b"], 1, NOW, skipped=[WORK])
        assert (claimed.flows, claimed.paused) == ([], frozenset({"a", "b", 'it\'s "c"'}))
        assert await claim(store, lease) == ["f"]

    @scenario
    async def test_flows_in_a_paused_queue_with_a_limit(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.configure_queue("q", {"limit": 1})
        await store.set_queue_pause("q", PAUSE)
        await add(store, new_flow("a", queue="q", priority=9), new_flow("b", queue="q"), "c")
        assert await claim(store, lease) == ["c"]
        await store.set_queue_pause("q", None)
        assert await claim(store, lease) == ["a"]

    @scenario
    async def test_a_paused_queue_keeps_its_first_pause(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        assert await store.set_queue_pause("q", PAUSE)
        assert not await other.set_queue_pause("q", QueuePause(at=NOW + 9, by="bob", why=""))
        assert (await queue(other, "q")).pause == PAUSE
        assert await other.set_queue_pause("q", None)
        assert not await store.set_queue_pause("q", None)
        assert await store.list_queues(NOW) == await store.list_queues(NOW, "q") == []
        assert await store.set_queue_pause("q", PAUSE)

    @scenario
    async def test_pausing_and_resuming_wake_the_workers(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await wakes([store, other], lambda: store.set_queue_pause("q", PAUSE))
        await wakes([store, other], lambda: store.set_queue_pause("q", None))

    @scenario
    async def test_flows_are_counted_by_state(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        states: tuple[FlowStatus, ...] = ("paused", "parked", "parked", "completed", "failed")
        await add(store, *(new_flow(f"{number}", queue="q") for number in range(len(states))))
        await claim(store, lease)
        for number, status in enumerate(states):
            await finish(store, lease, number + 1, f"{number}", status)
        await add(store, new_flow("r", queue="q"), new_flow("w1", queue="q", start_at=NOW + 1))
        await add(store, *(new_flow(f"w{number}", queue="q", start_at=NOW + number) for number in (2, 3)))
        counted = QueueRecord(name="q", limit=None, ready=1, waiting=3, due=2, running=0, paused=1, parked=2)
        assert await queue(store, "q", NOW + 2) == counted
        assert await store.list_queues(NOW, "other") == []

    @scenario
    async def test_retries_are_counted_by_queue(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        assert await store.count_retries() == {}
        await add(store, new_flow("a", queue="q"), new_flow("b", queue="other"))
        await claim(store, lease)
        rows = [retry("a", 1, "q"), retry("a", 2, "q"), retry("b", 1, "other")]
        await store.commit(lease, Batch(number=1, retries=rows))
        assert await store.count_retries() == {"q": 2, "other": 1}
        await store.commit(lease, Batch(number=2, retries_done=[("a", 1), ("b", 1)]))
        assert await store.count_retries() == {"q": 1}

    @scenario
    async def test_flows_that_are_released_into_a_paused_queue_wait_there(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, new_flow("a", queue="q"))
        assert await claim(store, lease) == ["a"]
        await store.set_queue_pause("q", PAUSE)
        await release(store, lease, 1, "a", "waiting", wake_at=NOW + 1)
        assert await claim(store, lease, now=NOW + 9) == []
        await store.set_queue_pause("q", None)
        assert await claim(store, lease, now=NOW + 9) == ["a"]

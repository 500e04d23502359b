"""The memory store passes the suite; and what is its own: it never waits, and data outlives the stores on it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from redrive.errors import StoreError
from redrive.stores.leases import NewWorker
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Batch, FlowChange, NewFlow
from redrive.testing.store_conformance import MakeStore, StoreConformance

T = TypeVar("T")

WORKER = NewWorker(name="host:1", definitions=("workflow:Work",))
FLOW = NewFlow(id="a", definition="workflow:Work", input="{}", created_at=1.0, start_at=1.0)


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        data = MemoryData()

        async def make_store() -> MemoryStore:
            store = MemoryStore(data)
            await store.open()
            return store

        return make_store


def at_once(verb: Coroutine[Any, Any, T]) -> T:
    """What the verb answers without ever giving up control, and without an event loop."""
    try:
        verb.send(None)
    except StopIteration as answer:
        value: T = answer.value
        return value
    raise AssertionError("it waited")


def test_no_verb_waits() -> None:
    store = MemoryStore()
    at_once(store.open())
    lease = at_once(store.acquire_lease(WORKER, 60))
    assert at_once(store.add_flows([FLOW])) == [None]
    (flow,) = at_once(store.claim(lease, ["workflow:Work"], None, 10, 2.0)).flows
    at_once(store.send(flow.id, "{}", 3.0))
    (message,) = at_once(store.read_inbox(lease))
    change = FlowChange(flow_id="a", status="completed", finished_at=4.0)
    at_once(store.commit(lease, Batch(number=1, flows=[change], messages_read={message.id: "a"})))
    at_once(store.release_lease(lease))
    assert at_once(store.prune(5.0, 10)) == 1
    at_once(store.close())


def test_a_worker_whose_store_was_closed_is_gone_at_once() -> None:
    async def scenario() -> None:
        data = MemoryData()
        crashed, restarted = MemoryStore(data), MemoryStore(data)
        await crashed.add_flows([FLOW])
        lease = await crashed.acquire_lease(WORKER, 3600)
        await crashed.claim(lease, ["workflow:Work"], None, 10, 2.0)
        assert await restarted.reap_leases() == []
        assert len(await restarted.list_workers()) == 1
        await crashed.close()
        assert await restarted.list_workers() == []
        assert [(one.epoch, one.flows) for one in await restarted.reap_leases()] == [(lease.epoch, 1)]

    asyncio.run(scenario())


def test_a_commit_that_changes_a_flow_of_another_owner_says_so() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.add_flows([FLOW])
        lease = await store.acquire_lease(WORKER, 3600)
        with pytest.raises(StoreError, match="host:1 does not own flow a; nothing was written"):
            await store.commit(lease, Batch(number=1, flows=[FlowChange(flow_id="a", status="ready")]))

    asyncio.run(scenario())

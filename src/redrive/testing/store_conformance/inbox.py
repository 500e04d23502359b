# ruff: noqa: S101 - tests use assert
"""The inbox: a flow's owner reads its messages, and no flow sleeps while it has unread ones."""

import asyncio

import pytest

from redrive.determinism.dice import seeded_dice
from redrive.stores.interface import Store
from redrive.stores.records import Batch, FlowChange, FlowStatus
from redrive.testing.store_conformance.scenario import (
    NOW,
    MakeStore,
    Stores,
    acquire,
    add,
    claim,
    finish,
    found,
    new_flow,
    release,
    run_test,
    scenario,
    status_of,
)

FAR = NOW + 1e6


class InboxConformance:
    @scenario
    async def test_the_owner_reads_its_messages_oldest_first_until_they_are_committed_as_read(
        self, stores: Stores
    ) -> None:
        store, other = await stores.open(), await stores.open()
        await add(store, "a", "b", new_flow("c", priority=-1))
        lease, others = await acquire(store), await acquire(other)
        await claim(store, lease, limit=2)
        await claim(other, others)
        for number, flow_id in enumerate(["a", "b", "c", "a"]):
            assert await other.send(flow_id, str(number), NOW + number) == "running"
        first, second, third = await store.read_inbox(lease)
        assert [(one.flow_id, one.body, one.at) for one in (first, second, third)] == [
            ("a", "0", NOW),
            ("b", "1", NOW + 1),
            ("a", "3", NOW + 3),
        ]
        assert [one.body for one in await other.read_inbox(others)] == ["2"]
        await store.commit(lease, Batch(number=1, messages_read={first.id: "a", third.id: "a"}))
        assert await store.read_inbox(lease) == [second]
        assert [await store.count_unread(flow_id) for flow_id in ("a", "b", "c", "unknown")] == [0, 1, 1, 0]
        assert ((await found(store, "a")).messages_sent, (await found(store, "b")).messages_sent) == (2, 1)

    @scenario
    async def test_a_message_wakes_a_flow_without_an_owner(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        asleep: list[FlowStatus] = ["waiting", "paused", "parked"]
        await add(store, *asleep)
        await claim(store, lease)
        for number, status in enumerate(asleep, start=1):
            await release(store, lease, number, status, status, wake_at=FAR)
        await add(store, "ready", new_flow("delayed", start_at=FAR))
        for status in asleep:
            assert await store.send(status, "{}", NOW) == status
        assert await store.send("ready", "{}", NOW) == "ready"
        assert await store.send("delayed", "{}", NOW) == "waiting"
        assert await store.send("unknown", "{}", NOW) is None
        assert sorted(await claim(store, lease)) == ["delayed", "parked", "paused", "ready", "waiting"]
        assert len(await store.read_inbox(lease)) == 5

    @pytest.mark.parametrize("status", ["waiting", "paused", "parked", "ready"])
    def test_a_flow_with_unread_messages_is_released_as_ready(self, make_store: MakeStore, status: FlowStatus) -> None:
        async def play(stores: Stores) -> None:
            store = await stores.open()
            lease = await acquire(store)
            await add(store, "a")
            await claim(store, lease)
            await store.send("a", "1", NOW)
            (message,) = await store.read_inbox(lease)
            await store.send("a", "2", NOW)
            change = FlowChange(flow_id="a", status=status, wake_at=FAR, messages_read=1)
            await store.commit(lease, Batch(number=1, flows=[change], messages_read={message.id: message.flow_id}))
            flow = await found(store, "a")
            assert (flow.status, flow.owner, flow.messages_sent, flow.messages_read) == ("ready", None, 2, 1)
            assert await claim(store, lease) == ["a"]
            (message,) = await store.read_inbox(lease)
            assert message.body == "2"
            change = FlowChange(flow_id="a", status=status, wake_at=FAR, messages_read=2)
            await store.commit(lease, Batch(number=2, flows=[change], messages_read={message.id: message.flow_id}))
            assert await status_of(store, "a") == status

        run_test(make_store, play)

    @scenario
    async def test_a_finished_flow_gets_no_messages(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        finished: list[FlowStatus] = ["completed", "failed", "cancelled"]
        await add(store, *finished)
        await claim(store, lease)
        for status in ("completed", "cancelled"):
            await store.send(status, '"too late to matter"', NOW)
        for number, status in enumerate(finished, start=1):
            await finish(store, lease, number, status, status)
        assert [await store.count_unread(status) for status in finished] == [0, 0, 0]
        before = await store.find_flows(finished)
        assert [before[status].status for status in finished] == finished
        for status in finished:
            assert await store.send(status, "{}", NOW) == status
        assert await store.send("completed", "{}", NOW, reopens=True) == "completed"
        assert await store.send("cancelled", "{}", NOW, reopens=True) == "cancelled"
        assert await store.find_flows(finished) == before

    @scenario
    async def test_a_message_that_reopens_makes_a_failed_flow_ready(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        await finish(store, lease, 1, "a", "failed")
        assert await store.send("a", '"again"', NOW, reopens=True) == "failed"
        flow = await found(store, "a")
        assert (flow.status, flow.finished_at, flow.messages_sent) == ("ready", None, 1)
        assert await store.send("a", '"and again"', NOW, reopens=True) == "ready"
        assert await claim(store, lease) == ["a"]
        assert [message.body for message in await store.read_inbox(lease)] == ['"again"', '"and again"']

    @scenario
    async def test_unread_messages_are_kept_for_the_next_owner(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await add(store, "a")
        await claim(store, lease)
        await store.send("a", "{}", NOW)
        unread = await store.read_inbox(lease)
        await store.release_lease(lease)
        assert await claim(other, others) == ["a"]
        assert await other.read_inbox(others) == unread
        assert await store.read_inbox(lease) == []

    @pytest.mark.parametrize("seed", range(5))
    def test_no_flow_sleeps_with_unread_messages(self, make_store: MakeStore, seed: int) -> None:
        """Owners put their flows to sleep while others send; every message is read all the same."""
        flows, messages = 4, 12

        async def play(stores: Stores) -> None:
            owners = [await stores.open() for _ in range(2)]
            sender = await stores.open()
            dice = seeded_dice(seed)
            ids = [f"f{number}" for number in range(flows)]
            await add(sender, *ids)
            read: dict[str, list[str]] = {one: [] for one in ids}

            async def some_turns() -> None:
                for _ in range(int(dice() * 4)):
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the event loop, not a wait

            async def send_all(flow_id: str) -> None:
                for number in range(messages):
                    await some_turns()
                    await sender.send(flow_id, str(number), NOW)

            async def own(store: Store) -> None:
                lease = await acquire(store)
                number = 0
                while any(len(bodies) < messages for bodies in read.values()):
                    for flow_id in await claim(store, lease, limit=2):
                        await some_turns()
                        unread = [one for one in await store.read_inbox(lease) if one.flow_id == flow_id]
                        read[flow_id] += [one.body for one in unread]
                        await some_turns()
                        status: FlowStatus = "waiting" if dice() < 0.7 else "paused"
                        change = FlowChange(
                            flow_id=flow_id, status=status, wake_at=FAR, messages_read=len(read[flow_id])
                        )
                        number += 1
                        marked = {one.id: flow_id for one in unread}
                        await store.commit(lease, Batch(number=number, flows=[change], messages_read=marked))
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the event loop, not a wait

            async with asyncio.timeout(30):
                await asyncio.gather(*(own(store) for store in owners), *(send_all(one) for one in ids))
            assert read == {one: [str(number) for number in range(messages)] for one in ids}
            for flow in (await sender.find_flows(ids)).values():
                assert (flow.messages_sent, flow.messages_read) == (messages, messages)
                assert flow.status in ("waiting", "paused")

        run_test(make_store, play)

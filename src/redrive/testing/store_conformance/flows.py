# ruff: noqa: S101 - tests use assert
"""Flows: they are added once, found, listed, and pruned some time after they finished."""

import asyncio

import pytest

from redrive.errors import StoreError
from redrive.stores.records import Batch, DeadLetter, FlowQuery, HeartbeatRow, RetryQuery, RetryRow
from redrive.testing.store_conformance.scenario import (
    NOW,
    WORK,
    Stores,
    acquire,
    add,
    claim,
    event,
    finish,
    found,
    new_flow,
    release,
    scenario,
    status_of,
)

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TEXTS = [
    '{"b":1, "a" : "ü 漢字 🦊 \u202e"}',
    r'"nul \u0000 inside"',
    r"""{"quote": "' and \" and \\ and \/"}""",
    "[1.0, 12345678901234567890, -0]",
    "null",
]


class FlowConformance:
    @scenario
    async def test_a_flow_is_found_as_it_was_added(self, stores: Stores) -> None:
        store = await stores.open()
        await add(
            store,
            new_flow("a", input='{"x": 1}', queue="q", priority=-3, key="order-17", created_at=NOW, start_at=NOW + 5),
            new_flow("b", start_at=NOW - 1, traceparent=TRACE),
        )
        flow = await found(await stores.open(), "a")
        assert (flow.id, flow.definition, flow.input, flow.queue, flow.priority) == ("a", WORK, '{"x": 1}', "q", -3)
        assert (flow.key, flow.status, flow.created_at, flow.start_at) == ("order-17", "waiting", NOW, NOW + 5)
        assert (flow.wake_at, flow.owner, flow.claims, flow.messages_sent, flow.messages_read) == (
            NOW + 5,
            None,
            0,
            0,
            0,
        )
        assert (flow.finished_at, flow.traceparent) == (None, None)
        assert (await found(store, "b")).traceparent == TRACE
        assert ((await found(store, "b")).status, (await found(store, "b")).key) == ("ready", None)
        assert await store.find_flow("c") is None
        assert await store.find_flows(["a", "c"]) == {"a": flow}
        assert await store.find_flows([]) == {}

    @scenario
    async def test_what_a_flow_belongs_to_is_kept(self, stores: Stores) -> None:
        store = await stores.open()
        relations = {
            "parent": "p",
            "batch": "night",
            "tags": '{"tenant":"acme"}',
            "concurrency_key": "k",
            "version": "2",
        }
        await add(store, new_flow("a", **relations), new_flow("b"))
        flow, plain = await found(store, "a"), await found(store, "b")
        assert {name: getattr(flow, name) for name in relations} == relations
        assert [getattr(plain, name) for name in relations] == [None] * len(relations)
        assert (flow.run_from, plain.run_from) == (0, 0)

    @scenario
    async def test_bodies_are_returned_unchanged(self, stores: Stores) -> None:
        store, large = await stores.open(), '"' + "ü" * 2**19 + '"'
        bodies = [*TEXTS, large]
        await add(store, *(new_flow(f"f{index}", input=body) for index, body in enumerate(bodies)))
        lease = await acquire(store)
        await claim(store, lease)
        events = [event("f0", seq, body) for seq, body in enumerate(bodies, start=1)]
        beats = [HeartbeatRow("f0", item, NOW, body) for item, body in enumerate(bodies)]
        await store.commit(lease, Batch(number=1, events=events, heartbeats=beats))
        for body in bodies:
            await store.send("f0", body, NOW)
        assert [(await found(store, f"f{index}")).input for index in range(len(bodies))] == bodies
        assert await store.read_events(["f0"]) == {"f0": events}
        assert sorted(await store.read_heartbeats(["f0"])) == beats
        assert [message.body for message in await store.read_inbox(lease)] == bodies

    @scenario
    async def test_a_definition_has_one_flow_with_a_key(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, new_flow("a", key="k", input="1"))
        added, same, third, none, none_either = await store.add_flows(
            [
                new_flow("other definition", definition="action:x", key="k"),
                new_flow("b", key="k", input="2"),
                new_flow("c", key="new"),
                new_flow("d"),
                new_flow("e"),
            ]
        )
        assert (added, third, none, none_either) == (None, None, None, None)
        assert same == await found(store, "a")
        assert await store.find_flow("b") is None
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "a", "completed")
        (finished,) = await store.add_flows([new_flow("f", key="k")])
        assert finished is not None
        assert (finished.id, finished.status) == ("a", "completed")

    @scenario
    async def test_the_first_flow_of_a_call_gets_the_key(self, stores: Stores) -> None:
        store = await stores.open()
        first, second = await store.add_flows([new_flow("a", key="k"), new_flow("b", key="k")])
        assert first is None
        assert second == await found(store, "a")

    @scenario
    async def test_concurrent_adds_of_a_key_share_one_flow(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        for round_ in range(10):
            answers = await asyncio.gather(
                *(
                    store.add_flows([new_flow(f"{round_}-{index}-{copy}", key=f"k{round_}")])
                    for index, store in enumerate(several)
                    for copy in range(3)
                )
            )
            others = [flow for (flow,) in answers if flow is not None]
            assert len(others) == len(answers) - 1
            assert len({flow.id for flow in others}) == 1

    @scenario
    async def test_an_id_is_added_once_and_a_refused_call_adds_nothing(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "a")
        with pytest.raises(StoreError):
            await store.add_flows([new_flow("b"), new_flow("a", input="[]")])
        assert await store.find_flow("b") is None
        assert await store.add_flows([]) == []

    @scenario
    async def test_a_flow_that_was_added_before_is_returned(self, stores: Stores) -> None:
        """Whoever lost the answer to an insert may insert once more."""
        store, other = await stores.open(), await stores.open()
        flows = [new_flow("a", input='{"x": 1}'), new_flow("b", key="k", created_at=NOW + 0.123457)]
        await add(store, *flows)
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "a", "completed")
        answers = await other.add_flows([flows[0], new_flow("c"), flows[1]])
        assert answers == [await found(store, "a"), None, await found(store, "b")]
        assert await status_of(store, "a") == "completed"
        for stranger in (new_flow("a", input='{"x": 2}'), new_flow("a", input='{"x": 1}', created_at=NOW + 1)):
            with pytest.raises(StoreError):
                await store.add_flows([new_flow("d"), stranger])
        assert await store.find_flow("d") is None

    @scenario
    async def test_lists_come_newest_first_and_page_by_page(self, stores: Stores) -> None:
        store = await stores.open()
        for number in range(7):
            await add(store, new_flow(f"f{number}", created_at=NOW + number // 2))
        assert [flow.id for flow in await store.list_flows(FlowQuery(limit=1))] == ["f6"]
        everything = [flow.id for flow in await store.list_flows(FlowQuery())]
        assert sorted(everything) == [f"f{number}" for number in range(7)]
        created = [(await found(store, flow_id)).created_at for flow_id in everything]
        assert created == sorted(created, reverse=True)
        paged: list[str] = []
        while page := await store.list_flows(FlowQuery(limit=3, before=paged[-1] if paged else None)):
            assert len(page) <= 3
            paged += [flow.id for flow in page]
        assert paged == everything

    @scenario
    async def test_the_next_page_starts_in_the_right_spot_when_the_last_flow_was_removed(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, *(new_flow(f"f{number}", created_at=NOW + number) for number in range(7)))
        await claim(store, lease, now=NOW + 9)
        *_, last = await store.list_flows(FlowQuery(limit=3))
        await finish(store, lease, 1, last.id, "completed")
        assert await store.prune(NOW + 1, 10) == 1
        following = await store.list_flows(FlowQuery(limit=3, before=last.id))
        assert [flow.id for flow in following] == ["f3", "f2", "f1"]

    @scenario
    async def test_flows_are_found_by_the_beginning_of_their_id(self, stores: Stores) -> None:
        store = await stores.open()
        ids = ["0197-a", "0197-b", "0197", "0198", "01", "1", "0197%", "0197_", "0197-ä", "0197-🦊"]
        await add(store, *ids)
        for prefix in ("0197", "0197-", "01", "0197-a", "0197%", "0197_", "0197-🦊", "2", "0"):
            found = await store.list_flows(FlowQuery(prefix=prefix))
            wanted = [one for one in ids if one.startswith(prefix)]
            assert [flow.id for flow in found] == sorted(wanted, reverse=True), prefix
        (newest,) = await store.list_flows(FlowQuery(prefix="0197-", limit=1))
        (following,) = await store.list_flows(FlowQuery(prefix="0197-", limit=1, before=newest.id))
        assert (newest.id, following.id) == ("0197-🦊", "0197-ä")

    @scenario
    async def test_lists_are_filtered_by_the_query(self, stores: Stores) -> None:
        store = await stores.open()
        await add(store, "done", "bad")
        lease = await acquire(store)
        await claim(store, lease)
        await finish(store, lease, 1, "done", "completed")
        await finish(store, lease, 2, "bad", "failed")
        await add(
            store,
            new_flow("fast", queue="fast", key="k"),
            new_flow("other", definition="action:other", key="k"),
            new_flow("late", start_at=NOW + 1),
        )

        async def ids(query: FlowQuery) -> list[str]:
            return sorted(flow.id for flow in await store.list_flows(query))

        assert await ids(FlowQuery()) == ["bad", "done", "fast", "late", "other"]
        assert await ids(FlowQuery(status=("completed", "failed"))) == ["bad", "done"]
        assert await ids(FlowQuery(status=("waiting",))) == ["late"]
        assert await ids(FlowQuery(definition="action:other")) == ["other"]
        assert await ids(FlowQuery(queue="fast")) == ["fast"]
        assert await ids(FlowQuery(key="k")) == ["fast", "other"]
        assert await ids(FlowQuery(key="k", definition=WORK, queue="fast", status=("ready",))) == ["fast"]
        assert await ids(FlowQuery(key="none")) == []

    @scenario
    async def test_pruning_removes_finished_flows_in_batches(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, *(f"f{number}" for number in range(6)), "running")
        await claim(store, lease)
        for number in range(6):
            await finish(store, lease, number + 1, f"f{number}", "completed", at=NOW + number)
        await add(store, "ready", new_flow("waiting", start_at=NOW + 9))
        assert await store.prune(NOW, 10) == 0
        assert await store.prune(NOW + 5, 3) == 3
        assert await store.prune(NOW + 5, 3) == 2
        assert await store.prune(NOW + 5, 3) == 0
        left = {flow.id for flow in await store.list_flows(FlowQuery())}
        assert left == {"f5", "running", "ready", "waiting"}

    @scenario
    async def test_pruning_removes_all_rows_of_a_flow_and_frees_its_key(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, new_flow("a", key="k"), "b")
        await claim(store, lease)
        await store.send("a", '"unread"', NOW)
        await store.commit(
            lease,
            Batch(
                number=1,
                events=[event("a", 1), event("b", 1)],
                retries=[retry("a", 1), retry("b", 1)],
                heartbeats=[HeartbeatRow("a", 1, NOW, "{}"), HeartbeatRow("b", 1, NOW, "{}")],
            ),
        )
        await finish(store, lease, 2, "a", "completed")
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.read_events(["a", "b"]) == {"a": [], "b": [event("b", 1)]}
        assert [row.flow_id for row in await store.list_retries(RetryQuery())] == ["b"]
        assert [row.flow_id for row in await store.read_heartbeats(["a", "b"])] == ["b"]
        await add(store, new_flow("a", key="k"))
        assert await claim(store, lease) == ["a"]
        assert await store.read_inbox(lease) == []

    @scenario
    async def test_a_flow_with_an_open_dead_letter_is_not_pruned(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "dead", "closed", "letterless")
        await claim(store, lease)
        await store.commit(lease, Batch(number=1, dead=[letter("dead"), letter("closed")]))
        for number, flow_id in enumerate(("dead", "closed", "letterless"), start=2):
            await finish(store, lease, number, flow_id, "failed")
        await store.close_dead_letters(["closed"], "discarded", "me", "old", NOW, None)
        assert await store.prune(NOW + 1, 10) == 2
        assert [flow.id for flow in await store.list_flows(FlowQuery())] == ["dead"]

    @scenario
    async def test_a_released_flow_has_its_wake_up_time(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        assert (await found(store, "a")).owner == lease.epoch
        await release(store, lease, 1, "a", "waiting", wake_at=NOW + 30)
        flow = await found(store, "a")
        assert (flow.status, flow.wake_at, flow.owner) == ("waiting", NOW + 30, None)


def retry(flow_id: str, item: int) -> RetryRow:
    return RetryRow(
        flow_id=flow_id,
        item=item,
        step="charge",
        queue="default",
        status="waiting",
        attempt_number=1,
        max_retries=None,
        timeout_seconds=None,
        timeout_retry_limit=None,
        backoff_kind="constant",
        backoff_base_delay_ms=5.0,
        retry_kind="exception",
        scheduled_at=NOW,
    )


def letter(flow_id: str) -> DeadLetter:
    return DeadLetter(
        flow_id=flow_id,
        definition=WORK,
        queue="default",
        at=NOW,
        kind="exhausted",
        step="charge",
        attempts=3,
        error_type="ConnectionError",
        message="no route",
        payload="{}",
    )

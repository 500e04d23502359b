# ruff: noqa: S101 - tests use assert
"""What shows how the work goes: reports, activity, counts, groups, filters, and orders about dependencies."""

from typing import Any

import msgspec

from redrive.stores.activity import LONGEST_ACTIVITY, MINUTE, ActivityQuery, ActivityRow
from redrive.stores.counts import DeadGroup, FlowCount, RetryGroup
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.records import Batch, DeadLetter, DeadQuery, FlowQuery, RetryQuery, RetryRow
from redrive.stores.worker_reports import DependencyOrder, WorkerReport
from redrive.testing.store_conformance.dead_letters import fail
from redrive.testing.store_conformance.flows import letter
from redrive.testing.store_conformance.queues import retry
from redrive.testing.store_conformance.scenario import (
    NOW,
    SHORT,
    WORK,
    Stores,
    acquire,
    add,
    claim,
    expired,
    finish,
    new_flow,
    release,
    scenario,
)

HOUR = NOW - NOW % 3600
"""When a minute began."""


def waiting(flow_id: str, item: int = 1, **fields: Any) -> RetryRow:
    shown = {"definition": WORK, "dependency": "bank", "waits_for": "backoff", "error_type": "Down", "since": NOW - 0.5}
    return msgspec.structs.replace(retry(flow_id, item, "default"), **{**shown, **fields})


def attempts(count: int, at: float = HOUR, **fields: Any) -> ActivityRow:
    named = {"definition": WORK, "step": "charge", "dependency": "bank", "outcome": "succeeded", "seconds": 0.5}
    return ActivityRow(at=at, count=count, **{**named, **fields})


async def fill(store: Store, lease: Lease) -> None:
    """Three flows that wait, two of them for a dependency, and one that is dead."""
    flows = [
        new_flow("a1", key="Order-7", created_at=NOW),
        new_flow("a2", created_at=NOW + 10),
        new_flow("b1", definition="action:Pay", created_at=NOW + 20),
        new_flow("b2", created_at=NOW + 30),
    ]
    await add(store, *flows)
    held: dict[str, Any] = {"waits_for": "circuit", "reason": "the circuit of bank is open", "error_type": ""}
    rows = [
        waiting("a1"),
        waiting("a2", scheduled_at=NOW + 7, since=NOW - 3, **held),
        waiting("a2", 2, scheduled_at=NOW + 5, since=None, **held),
        waiting("b1", definition="action:Pay", dependency="", error_type="Late"),
    ]
    dead = msgspec.structs.replace(letter("b2"), dependency="bank", error_type="Late", message="Nothing for WINTER")
    await store.commit(lease, Batch(number=1, retries=rows, dead=[dead]))


class ObservationConformance:
    @scenario
    async def test_what_a_work_item_waits_for_is_kept(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        row = waiting("a", dependency='the "bank" ü', reason="the circuit is open", since=NOW - 0.25)
        await store.commit(lease, Batch(number=1, retries=[row, waiting("b", since=None)]))
        assert await store.list_retries(RetryQuery(flow_ids=("a", "c"))) == [row]
        assert len(await store.list_retries(RetryQuery(flow_ids=("a", "b")))) == 2

    @scenario
    async def test_flows_are_found_by_what_they_wait_for(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, await acquire(store))

        async def ids(**filters: Any) -> list[str]:
            query = FlowQuery(**filters)
            found = [flow.id for flow in await store.list_flows(query)]
            assert await store.count_matching_flows(query) == len(found)
            return found

        assert await ids() == ["b2", "b1", "a2", "a1"]
        assert await ids(retrying=True) == ["b1", "a2", "a1"]
        assert await ids(waits_for="circuit") == ["a2"]
        assert await ids(waits_for="budget") == []
        assert await ids(dependency="bank") == ["b2", "a2", "a1"]
        assert await ids(dependency="bank", retrying=True) == ["a2", "a1"]
        assert await ids(error_type="Late") == ["b2", "b1"]
        assert await ids(error_type="Late", dependency="bank") == ["b2"]
        assert await ids(waits_for="backoff", error_type="Down", dependency="bank") == ["a1"]
        assert await ids(waits_for="backoff", definition="action:Pay") == ["b1"]
        assert await ids(dependency="bank", before="a2") == ["a1"]

    @scenario
    async def test_flows_are_found_by_text_and_by_time(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, await acquire(store))

        async def ids(**filters: Any) -> list[str]:
            return [flow.id for flow in await store.list_flows(FlowQuery(**filters))]

        assert await ids(text="b") == ["b2", "b1"]
        assert await ids(text="RDER-7") == ["a1"]
        assert await ids(text="ON:pay") == ["b1"]
        assert await ids(text="winter", in_messages=False) == []
        assert await ids(text="b", in_messages=False) == ["b2", "b1"]
        # Neither is a pattern.
        assert await ids(text="%") == await ids(text="_") == []
        await store.close_dead_letters(["b2"], "discarded", "me", "seen", NOW, None)
        assert await ids(error_type="Late", dependency="bank") == []
        assert await ids(created_after=NOW + 10) == ["b2", "b1", "a2"]
        assert await ids(created_before=NOW + 10) == ["a1"]
        assert await ids(created_after=NOW + 5, created_before=NOW + 30, text="b") == ["b1"]

    @scenario
    async def test_flows_are_found_by_the_messages_of_open_dead_letters(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, await acquire(store))
        assert [flow.id for flow in await store.list_flows(FlowQuery(text="winter"))] == ["b2"]
        assert await store.list_flows(FlowQuery(text="winter", in_messages=False)) == []
        await store.close_dead_letters(["b2"], "discarded", "me", "seen", NOW, None)
        assert await store.list_flows(FlowQuery(text="winter")) == []

    @scenario
    async def test_matching_flows_are_counted_up_to_a_limit(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a", "b", "c")
        await claim(store, lease)
        await finish(store, lease, 1, "a", "failed")
        await finish(store, lease, 2, "b", "cancelled")
        assert await store.count_matching_flows(FlowQuery()) == 3
        assert await store.count_matching_flows(FlowQuery(limit=2)) == 2
        assert await store.count_matching_flows(FlowQuery(status=("failed",))) == 1
        assert await store.count_matching_flows(FlowQuery(status=("failed", "running"))) == 2
        assert [flow.id for flow in await store.list_flows(FlowQuery(status=("cancelled", "failed")))] == ["b", "a"]

    @scenario
    async def test_unfinished_flows_are_counted_by_definition_queue_and_status(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, *[new_flow(one, queue="q") for one in ("a", "b", "c", "d", "e")])
        assert len(await claim(store, lease)) == 5
        await release(store, lease, 1, "a", "paused")
        await release(store, lease, 2, "b", "parked")
        await finish(store, lease, 3, "c", "failed")
        await add(store, "f", "g", new_flow("h", definition="action:Pay"), new_flow("i", start_at=NOW + 9))

        def counted(status: Any, count: int, definition: str = WORK, queue: str = "default") -> FlowCount:
            return FlowCount(definition=definition, queue=queue, status=status, count=count)

        found = await store.count_flows()
        assert sorted(found, key=msgspec.structs.astuple) == sorted(
            [
                counted("paused", 1, queue="q"),
                counted("parked", 1, queue="q"),
                counted("running", 2, queue="q"),
                counted("ready", 2),
                counted("ready", 1, "action:Pay"),
                counted("waiting", 1),
            ],
            key=msgspec.structs.astuple,
        )

    @scenario
    async def test_retries_are_grouped_by_what_they_wait_for(self, stores: Stores) -> None:
        store = await stores.open()
        assert await store.group_retries() == []
        await fill(store, await acquire(store))
        largest, *others = await store.group_retries()
        assert largest == RetryGroup(
            definition=WORK,
            dependency="bank",
            waits_for="circuit",
            error_type="",
            count=2,
            next_at=NOW + 5,
            last_at=NOW + 7,
            since=NOW - 3,
            reason="the circuit of bank is open",
        )
        assert [(one.definition, one.waits_for, one.error_type, one.count) for one in others if one.dependency] == [
            (WORK, "backoff", "Down", 1)
        ]
        assert [(one.error_type, one.since) for one in others if not one.dependency] == [("Late", NOW - 0.5)]

    @scenario
    async def test_dead_letters_are_grouped_with_their_latest(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)

        def dead(flow_id: str, at: float, **fields: Any) -> DeadLetter:
            return msgspec.structs.replace(letter(flow_id), at=NOW + at, message=f"of {flow_id}", **fields)

        same = [dead("a", 3), dead("b", 1), dead("c", 3), dead("d", 2)]
        await fail(store, lease, 1, *same, dead("e", 0, dependency="bank"), dead("f", 0, error_type="Late"))
        largest, *others = await store.group_dead_letters(DeadQuery(limit=1))
        one = letter("a")
        assert largest == DeadGroup(
            definition=one.definition,
            step=one.step,
            dependency=one.dependency,
            error_type=one.error_type,
            kind=one.kind,
            count=4,
            first_at=NOW + 1,
            last_at=NOW + 3,
            flow_id="c",
            message="of c",
        )
        assert {group.flow_id for group in others} == {"e", "f"}
        (found,) = await store.group_dead_letters(DeadQuery(dependency="bank"))
        assert (found.flow_id, found.count) == ("e", 1)
        assert [each.flow_id for each in await store.list_dead_letters(DeadQuery(dependency="bank"))] == ["e"]
        await store.close_dead_letters(["a", "b", "c", "d"], "discarded", "me", "seen", NOW, None)
        assert {group.flow_id for group in await store.group_dead_letters(DeadQuery())} == {"e", "f"}
        (closed,) = await store.group_dead_letters(DeadQuery(state="discarded"))
        assert closed.count == 4

    @scenario
    async def test_activity_adds_up(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease, others = await acquire(store), await acquire(other)
        await store.report(lease, None, [attempts(2), attempts(1, dependency="", outcome="retried")])
        await other.report(others, None, [attempts(3, at=HOUR + MINUTE), attempts(4, seconds=1.5)])
        everything = await store.read_activity(ActivityQuery(since=HOUR, by=("definition", "step", "dependency")))
        assert [one.at for one in everything] == sorted(one.at for one in everything)
        assert sorted(everything, key=lambda one: one.count) == [
            attempts(1, dependency="", outcome="retried"),
            attempts(3, at=HOUR + MINUTE),
            attempts(6, seconds=2.0),
        ]
        (later,) = await store.read_activity(ActivityQuery(since=HOUR + 1))
        assert later == ActivityRow(at=HOUR + MINUTE, outcome="succeeded", count=3, seconds=0.5)
        by_dependency = await store.read_activity(ActivityQuery(since=HOUR, by=("dependency",), dependency="bank"))
        assert [(one.dependency, one.definition, one.count) for one in by_dependency] == [
            ("bank", "", 6),
            ("bank", "", 3),
        ]
        assert await store.read_activity(ActivityQuery(since=HOUR, definition="other")) == []

    @scenario
    async def test_activity_that_is_too_old_goes(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await store.report(lease, None, [attempts(1), attempts(1, at=HOUR + MINUTE)])
        await store.report(lease, None, [attempts(1, at=HOUR + MINUTE + LONGEST_ACTIVITY)])
        found = await store.read_activity(ActivityQuery(since=0.0))
        assert [one.at for one in found] == [HOUR + MINUTE, HOUR + MINUTE + LONGEST_ACTIVITY]

    @scenario
    async def test_a_report_replaces_the_one_before_and_goes_with_the_lease(self, stores: Stores) -> None:
        store = await stores.open()
        lease, lost = await acquire(store), await acquire(store, SHORT, "host:2")
        for at, body in ((NOW, '{"n": 1}'), (NOW + 0.25, '{"n": "ü"}')):
            await store.report(lease, WorkerReport(epoch=lease.epoch, at=at, body=body), [])
            await store.report(lost, WorkerReport(epoch=lost.epoch, at=at, body=body), [])
        reports = await store.list_reports()
        assert [(one.epoch, one.at, one.body) for one in reports] == [
            (lease.epoch, NOW + 0.25, '{"n": "ü"}'),
            (lost.epoch, NOW + 0.25, '{"n": "ü"}'),
        ]
        await store.report(lease, None, [attempts(1)])
        assert await store.list_reports() == reports
        await expired(store, lost)
        await store.reap_leases()
        assert [one.epoch for one in await store.list_reports()] == [lease.epoch]
        # What comes after the end of a lease is not kept, but what it counted is.
        await store.report(lost, reports[1], [attempts(2)])
        await store.release_lease(lease)
        assert await store.list_reports() == []
        assert [one.count for one in await store.read_activity(ActivityQuery(since=HOUR))] == [3]

    @scenario
    async def test_the_last_order_about_a_dependency_is_kept(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        assert await store.list_dependency_orders() == []
        first = DependencyOrder(name="bank", order="open", by="ann", why="they asked for it", at=NOW)
        second = DependencyOrder(name="bank", order="close", by="", why='"ü" again', at=NOW + 0.25)
        for order in (first, second, msgspec.structs.replace(first, name="air")):
            await store.set_dependency_order(order)
        assert await other.list_dependency_orders() == [msgspec.structs.replace(first, name="air"), second]

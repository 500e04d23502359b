# ruff: noqa: S101 - tests use assert
"""Runs of flows that continued as new: those before are found and pruned, and long ones are listed."""

from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.records import Batch, EventRow, FlowChange
from redrive.stores.runs import LONG_RUN, EndedRun
from redrive.testing.store_conformance.scenario import (
    NOW,
    Stores,
    acquire,
    add,
    claim,
    event,
    found,
    new_flow,
    scenario,
)


async def continue_as_new(
    store: Store, lease: Lease, number: int, rows: list[EventRow], run_from: int, at: float
) -> None:
    flow_id = rows[0].flow_id
    again = FlowChange(flow_id=flow_id, status="ready", wake_at=at, input=f'{{"after": {run_from}}}', run_from=run_from)
    await store.commit(lease, Batch(number=number, events=rows, flows=[again]))
    assert await claim(store, lease, now=at) == [flow_id]


async def sequence_numbers(store: Store, flow_id: str) -> list[int]:
    return [row.seq for row in await store.read_events_after(flow_id, 0, 100_000)]


class RunConformance:
    @scenario
    async def test_the_runs_before_the_current_one_are_found(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, new_flow("a", input='{"first": 1}'))
        await claim(store, lease)
        await continue_as_new(store, lease, 1, [event("a", 3, "[1, 2, 3]")], 2, NOW + 1)
        await continue_as_new(store, lease, 2, [event("a", 6, "[4, 5, 6]")], 5, NOW + 2)
        assert await store.find_run("a", 1) == EndedRun(run_from=2, run_to=5, ended_at=NOW + 2, input='{"after": 2}')
        assert await store.find_run("a", 2) == EndedRun(run_from=0, run_to=2, ended_at=NOW + 1, input='{"first": 1}')
        assert [await store.find_run("a", 3), await store.find_run("none", 1)] == [None, None]

    @scenario
    async def test_the_first_run_of_a_flow_that_its_commit_adds_is_found(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        change = FlowChange(flow_id="a", status="ready", wake_at=NOW, input='{"run": 2}', run_from=1)
        new = new_flow("a", input='{"run": 1}')
        await store.commit(lease, Batch(number=1, new_flows=[new], events=[event("a", 2)], flows=[change]))
        assert await store.find_run("a", 1) == EndedRun(run_from=0, run_to=1, ended_at=NOW, input='{"run": 1}')

    @scenario
    async def test_runs_are_pruned_in_pieces_and_the_current_one_stays(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        first = [event("a", seq) for seq in range(1, 12_001)]
        await continue_as_new(store, lease, 1, [*first, event("a", 12_002, "[1, 2]")], 12_001, NOW + 1)
        await continue_as_new(store, lease, 2, [event("a", 12_004, "[3, 4]")], 12_004, NOW + 2)
        await store.commit(lease, Batch(number=3, events=[event("a", 12_005)]))
        assert await store.prune_runs(NOW + 1, 10) == 0
        assert await store.prune_runs(NOW + 2, 10) == 1
        assert len(await sequence_numbers(store, "a")) > 3
        while await store.prune_runs(NOW + 2, 10):
            pass
        # What was committed together with the beginning of the next run stays as long as that.
        assert await sequence_numbers(store, "a") == [12_002, 12_004, 12_005]
        assert await store.find_run("a", 2) is None
        while await store.prune_runs(NOW + 100, 10):
            pass
        assert await sequence_numbers(store, "a") == [12_005]
        assert await store.find_run("a", 1) is None
        assert (await found(store, "a")).run_from == 12_004

    @scenario
    async def test_the_runs_of_a_flow_are_pruned_with_it(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        await continue_as_new(store, lease, 1, [event("a", 1)], 1, NOW)
        done = FlowChange(flow_id="a", status="completed", finished_at=NOW)
        await store.commit(lease, Batch(number=2, events=[event("a", 2)], flows=[done]))
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.find_run("a", 1) is None
        assert await store.prune_runs(NOW + 1, 10) == 0

    @scenario
    async def test_open_flows_with_a_long_run_are_listed(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        names = ("continued", "done", "long", "longer", "short")
        await add(store, *names)
        await claim(store, lease)
        last = {"short": LONG_RUN, "longer": LONG_RUN + 2}
        rows = [event(one, last.get(one, LONG_RUN + 1)) for one in names]
        changes = [
            FlowChange(flow_id="done", status="completed", finished_at=NOW),
            FlowChange(flow_id="continued", status="ready", wake_at=NOW, input="{}", run_from=1),
        ]
        # Many rows of one flow must not hide the others.
        rows += [event("longer", LONG_RUN + 2 + more) for more in range(1, 50)]
        await store.commit(lease, Batch(number=1, events=rows, flows=changes))
        listed = await store.list_long_runs(10)
        assert [(one.flow_id, one.events) for one in listed] == [("long", LONG_RUN + 1), ("longer", LONG_RUN + 51)]
        assert listed[0].definition == new_flow("a").definition
        assert await store.list_long_runs(1) == listed[:1]

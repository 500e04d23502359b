"""What large payloads may keep waiting: themselves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from redrive.client.flow_starter import GroupedInserts
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreError
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import Batch, FlowRecord, NewFlow
from redrive.stores.sqlite.store import SqliteStore
from redrive.worker.commit_parts import flows_in
from redrive.worker.journal import Journal
from redrive.worker.maintenance.held_lease import HeldLease

LARGE = b'"' + b"x" * (LARGE_JSON + 1) + b'"'


class Watched(SqliteStore):
    """Tells which flows each transaction wrote."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.commits: list[list[str]] = []
        self.events: list[tuple[str, int]] = []
        self.inserts: list[list[str]] = []
        self.before_commit: Callable[[list[str]], None] = lambda _: None

    async def commit(self, lease: Lease, batch: Batch) -> None:
        flows = flows_in(batch)
        self.before_commit(flows)
        await super().commit(lease, batch)
        self.commits.append(flows)
        self.events += [(row.flow_id, row.seq) for row in batch.events]

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        self.inserts.append([flow.id for flow in flows])
        return await super().add_flows(flows)


def new_flow(flow_id: str, definition: str = "d", input: str = "{}") -> NewFlow:  # noqa: A002 - named as the field is
    return NewFlow(id=flow_id, definition=definition, input=input, created_at=1.0, start_at=1.0)


@asynccontextmanager
async def writing(tmp_path: Path, names: str, refused: list[str]) -> AsyncIterator[tuple[Watched, Journal]]:
    """A journal that owns a flow of each name."""
    store = Watched(str(tmp_path / "app.db"))
    await store.open()
    tasks: list[asyncio.Task[None]] = []
    try:
        await store.add_flows([new_flow(name) for name in names])
        lease = await store.acquire_lease(NewWorker(name="w", definitions=("d",)), 60)
        assert len((await store.claim(lease, ["d"], None, len(names), 2.0)).flows) == len(names)
        journal = Journal(
            store,
            HeldLease(lease, 60, SYSTEM_CLOCK.monotonic()),
            lambda _: None,
            lambda flow_id, _: refused.append(flow_id),
        )
        loop = asyncio.get_running_loop()
        tasks += [loop.create_task(journal.run()), loop.create_task(journal.run_callbacks())]
        yield store, journal
    finally:
        for task in tasks:
            task.cancel()
        await store.close()


@pytest.mark.promise("X8")
def test_a_small_commit_waits_for_one_large_commit_at_most(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with writing(tmp_path, "abcs", []) as (store, journal):
            called: list[tuple[str, int]] = []

            def log_small(flows: list[str]) -> None:
                if flows == ["a"]:
                    journal.append("s", 2, 3.0, b"2")
                    journal.when_durable("s", lambda: called.append(("s", len(store.commits))))

            store.before_commit = log_small
            for name in "abc":
                journal.append(name, 1, 2.0, LARGE)
                journal.when_durable(name, lambda name=name: called.append((name, len(store.commits))))
            journal.append("s", 1, 2.0, b"1")
            journal.when_durable("s", lambda: called.append(("s", len(store.commits))))
            await journal.drained()
            assert store.commits == [["s"], ["a"], ["s"], ["b"], ["c"]]
            assert called == [("s", 1), ("a", 2), ("s", 3), ("b", 4), ("c", 5)], "each after its own commit, at once"

    asyncio.run(scenario())


@pytest.mark.promise("X8")
def test_what_a_flow_writes_after_a_large_turn_stays_behind_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with writing(tmp_path, "ab", []) as (store, journal):
            called: list[str] = []

            def log_more(flows: list[str]) -> None:
                if flows == ["a"] and not store.commits:
                    journal.append("b", 2, 3.0, b"2")
                    journal.message_read("b", 7)
                    journal.when_durable("b", called.append, "b2")
                    journal.when_durable(None, called.append, "all")

            store.before_commit = log_more
            for name in "ab":
                journal.append(name, 1, 2.0, LARGE)
                journal.when_durable(name, called.append, f"{name}1")
            await journal.drained()
            assert store.commits == [["a"], ["b"], ["b"]]
            assert called == ["a1", "b1", "b2", "all"]
            assert store.events == [("a", 1), ("b", 1), ("b", 2)]

    asyncio.run(scenario())


def test_a_large_turn_that_the_store_refuses_takes_along_what_its_flow_has_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        refused: list[str] = []
        async with writing(tmp_path, "abs", refused) as (store, journal):

            def refuse(flows: list[str]) -> None:
                if flows == ["b"]:
                    journal.append("a", 2, 3.0, b"2")
                elif flows == ["a"]:
                    raise StoreError("not these rows")

            store.before_commit = refuse
            for name in "ba":
                journal.append(name, 1, 2.0, LARGE)
            journal.append("s", 1, 2.0, b"1")
            await journal.drained()
            assert refused == ["a"]
            logs = await store.read_events(["a", "b", "s"])
            assert {name: [row.seq for row in rows] for name, rows in logs.items()} == {"a": [], "b": [1], "s": [1]}

    asyncio.run(scenario())


@pytest.mark.promise("X8")
def test_a_claim_takes_one_large_input_and_the_small_ones_behind_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        try:
            large, names = LARGE.decode(), ("large", "small")
            await store.add_flows([new_flow(f"l{number}", "large", large) for number in range(4)])
            await store.add_flows([new_flow(f"s{number}", "small") for number in range(3)])
            lease = await store.acquire_lease(NewWorker(name="w", definitions=names), 60)
            claims = [await store.claim(lease, names, None, 4, 2.0) for _ in range(4)]
            claimed = [[record.id for record in one.flows] for one in claims]
            assert claimed == [["l0", "s0", "s1", "s2"], ["l1"], ["l2"], ["l3"]]
            assert [one.more for one in claims] == [True, True, True, False]
        finally:
            await store.close()

    asyncio.run(scenario())


@pytest.mark.promise("X8")
def test_large_inputs_are_inserted_one_at_a_time_and_apart_from_small_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Watched(str(tmp_path / "app.db"))
        await store.open()
        try:
            inserts = GroupedInserts(store)
            flows = [new_flow(f"l{number}", input=LARGE.decode()) for number in range(3)]
            flows += [new_flow(f"s{number}") for number in range(3)]
            started = await asyncio.gather(*map(inserts.add, flows))
            assert started == [flow.id for flow in flows]
            assert sorted(store.inserts) == [["l0"], ["l1"], ["l2"], ["s0", "s1", "s2"]]
            assert store.inserts.index(["s0", "s1", "s2"]) <= 1
        finally:
            await store.close()

    asyncio.run(scenario())

"""An app with a worker that has nothing else to do begins what it starts itself, in the transaction that adds it."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.client.app import App
from redrive.errors import CommitUnknownError, LeaseLostError
from redrive.stores.leases import Lease
from redrive.stores.records import Batch, FlowRecord, NewFlow
from redrive.stores.sqlite.store import SqliteStore

calls: list[int] = []


who: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.clear()


@action
async def two_times(n: int) -> int:
    calls.append(n)
    return 2 * n


@action(retry=RetryPolicy(attempts=3, exception_types=["ConnectionError"], backoff_seconds=0.001))
async def third_time(n: int) -> int:
    calls.append(n)
    if len(calls) < 3:
        raise ConnectionError("the service is away")
    return n


@workflow
class NoSteps(Workflow):
    async def run(self, n: int) -> int:
        return n


@workflow
class Fails(Workflow):
    async def run(self) -> None:
        raise ValueError("as it should")


@workflow
class WhoRuns(Workflow):
    async def run(self) -> str:
        return who.get()


@contextlib.asynccontextmanager
async def opened(address: str, **settings: Any) -> AsyncIterator[tuple[App, list[Batch], list[NewFlow]]]:
    """An app whose worker has caught up; what it commits, and what it adds otherwise."""
    batches: list[Batch] = []
    added: list[NewFlow] = []
    async with redrive.open(address, poll=0.1, **settings) as app:
        commit, add = app.store.commit, app.store.add_flows

        async def noted_commit(lease: Lease, batch: Batch) -> None:
            batches.append(batch)
            await commit(lease, batch)

        async def noted_add(flows: Any) -> Any:
            added.extend(flows)
            return await add(flows)

        app.store.commit, app.store.add_flows = noted_commit, noted_add  # type: ignore[method-assign]  # to see what is asked of it
        await caught_up(app)
        yield app, batches, added


async def caught_up(app: App) -> None:
    async with asyncio.timeout(10):
        while app._worker is None or not app._worker.caught_up:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def test_one_transaction_adds_a_flow_and_begins_its_first_attempt(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, batches, added):
            handle = await app.start(two_times(21))
            assert await handle.result(timeout=10) == 42
            assert ([flow.id for flow in batches[0].new_flows], added) == ([handle.id], [])
            assert [row.seq for row in batches[0].events] == [1]
            explained = await app.explain(handle.id)
            assert explained.status == "completed"
            # A flow that is over at once is added as such.
            done = await app.start(NoSteps.call(7))
            assert await done.result(timeout=10) == 7
            assert (await app.find(done.id)).status == "completed"
            assert added == []

    asyncio.run(scenario())


def test_flows_with_a_key_or_a_later_start_are_added_as_ever(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            first = await app.start(two_times(1), key="k")
            again = await app.start(two_times(1), key="k")
            later = await app.start(two_times(3), delay=0.05)
            assert (await first.result(timeout=10), await later.result(timeout=10)) == (2, 6)
            assert again.id == first.id
            assert [flow.id for flow in added if flow.key is None] == [later.id]

    asyncio.run(scenario())


def test_what_a_limited_queue_refuses_is_claimed_instead_and_harms_nobody(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            await app.limit_queue("narrow", 1)
            started = [app.start(two_times(n), queue="narrow" if n % 2 else "default") for n in range(10)]
            handles = await asyncio.gather(*started)
            assert [await handle.result(timeout=20) for handle in handles] == [2 * n for n in range(10)]
            assert sorted(calls) == list(range(10))
            added.clear()
            calls.clear()
            for queue in ("narrow", "default", "narrow"):
                await caught_up(app)
                assert await (await app.start(two_times(1), queue=queue)).result(timeout=10) == 2
            assert [flow.queue for flow in added] == ["narrow"] * 2
            assert calls == [1, 1, 1]

    asyncio.run(scenario())


@workflow
class BriefTimer(Workflow):
    async def run(self) -> int:
        await asyncio.sleep(0.002)
        return await two_times(4)


def test_what_a_flow_logs_while_its_birth_is_being_refused_is_not_written(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            await app.limit_queue("narrow", 1)
            commit = app.store.commit

            async def slow(lease: Lease, batch: Batch) -> None:
                if batch.new_flows:
                    # Long enough for its timer to fire.
                    await asyncio.sleep(0.02)
                await commit(lease, batch)

            app.store.commit = slow  # type: ignore[method-assign]  # a disk that takes its time
            handle = await app.start(BriefTimer.call(), queue="narrow")
            assert await handle.result(timeout=10) == 8
            assert [flow.id for flow in added] == [handle.id]

    asyncio.run(scenario())


def test_a_worker_where_work_stands_in_line_leaves_new_flows_to_others(address: str) -> None:
    async def scenario() -> None:
        gate = threading.Event()

        @action
        def held(n: int) -> int:
            gate.wait(10)
            return n

        async with opened(address, threads=1) as (app, _, added):
            # One runs, one stands in line.
            handles = [await app.start(held(n)) for n in range(4)]
            assert [flow.id for flow in added] == [handle.id for handle in handles[2:]]
            gate.set()
            assert [await handle.result(timeout=10) for handle in handles] == [0, 1, 2, 3]

    asyncio.run(scenario())


def test_the_end_of_a_flow_that_was_refused_is_told_once(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            await app.limit_queue("narrow", 1)
            handle = await app.start(Fails.call(), queue="narrow")
            with pytest.raises(ValueError, match="as it should"):
                await handle.result(timeout=10)
            assert len(added) == 1

    asyncio.run(scenario())
    assert len([record for record in caplog.records if "as it should" in record.getMessage()]) == 1


def test_the_code_of_a_flow_runs_in_the_context_of_its_worker(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            who.set("whoever starts it")
            assert await (await app.start(WhoRuns.call())).result(timeout=10) == "nobody"
            assert added == []

    asyncio.run(scenario())


@pytest.mark.promise("P16")
def test_a_flow_that_is_started_in_a_guarded_call_owns_its_retries(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):

            @redrive.retry
            async def guarded() -> int:
                return await (await app.start(third_time(3))).result(timeout=10)

            assert await guarded() == 3
            assert (calls, added) == ([3, 3, 3], [])

    asyncio.run(scenario())


@pytest.mark.promise("R3")
def test_a_start_outlives_the_lease_of_its_worker(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            assert app._worker is not None
            assert app._worker.lease is not None
            await app.store.release_lease(app._worker.lease)
            handle = await app.start(two_times(4))
            assert [flow.id for flow in added] == [handle.id]
            assert await handle.result(timeout=10) == 8

    asyncio.run(scenario())
    assert "drops its flows and starts again" in caplog.text


@pytest.mark.promise("R3")
@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("lease_lost", [True, False])
def test_a_start_whose_commit_nobody_heard_of_makes_one_flow(address: str, happened: bool, lease_lost: bool) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, added):
            commit = app.store.commit

            async def cut_off(lease: Lease, batch: Batch) -> None:
                app.store.commit = commit  # type: ignore[method-assign]  # once
                if happened:
                    await commit(lease, batch)
                if lease_lost:
                    await app.store.release_lease(lease)
                raise CommitUnknownError("the connection was lost before the answer came")

            app.store.commit = cut_off  # type: ignore[method-assign]  # for the next commit
            handle = await app.start(two_times(5))
            assert await handle.result(timeout=10) == 10
            assert [flow.id for flow in await app.flows()] == [handle.id]
            # Where nobody knows, adding the flow once more is what tells.
            assert [flow.id for flow in added] == ([handle.id] if lease_lost else [])

    asyncio.run(scenario())


def test_while_nothing_can_be_written_own_starts_wait_and_the_others_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "app.db")

    async def scenario() -> None:
        async with redrive.open(SqliteStore(path, busy_timeout=0.05), lease=60.0) as app:
            await caught_up(app)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                own = asyncio.create_task(app.start(two_times(1)))
                for key, delay in (("k", None), (None, 1)):
                    with pytest.raises(redrive.errors.StoreUnavailableError, match="nothing was changed"):
                        await app.start(two_times(2), key=key, delay=delay)
                assert not own.done()
                other.execute("ROLLBACK")
            assert await (await own).result(timeout=10) == 2
            assert [flow.id for flow in await app.flows()] == [(await own).id]

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_a_start_ends_when_its_app_is_closed_while_the_store_is_away(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as (app, _, _):
            store, gate, closed = app.store, asyncio.Event(), asyncio.Event()
            add, close = store.add_flows, store.close

            async def lease_lost(lease: Lease, batch: Batch) -> None:
                await gate.wait()
                raise LeaseLostError("cut off")

            async def away(flows: Any) -> list[FlowRecord | None]:
                if not closed.is_set():
                    raise redrive.errors.StoreUnavailableError("nobody answers")
                return await add(flows)

            async def close_it() -> None:
                await close()
                closed.set()

            store.commit, store.add_flows, store.close = lease_lost, away, close_it  # type: ignore[method-assign]
            start = asyncio.create_task(app.start(two_times(1)))
            asyncio.get_running_loop().call_later(0.05, gate.set)
        async with asyncio.timeout(10):
            with pytest.raises(redrive.errors.StoreUnavailableError, match="may or may not have been added"):
                await start

    asyncio.run(scenario())

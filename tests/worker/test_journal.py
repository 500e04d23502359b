"""The journal's word on what is written."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.stores.leases import NewWorker
from redrive.stores.records import NewFlow, RetryQuery, RetryRow
from redrive.stores.sqlite.store import SqliteStore
from redrive.worker.journal import CALLED_AT_ONCE, Journal
from redrive.worker.maintenance.held_lease import HeldLease


@pytest.mark.promise("A14")
def test_a_worker_that_stops_waits_for_the_commit_under_way_though_all_earlier_ones_were_acted_on(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        store = SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        tasks: list[asyncio.Task[None]] = []
        try:
            await store.add_flows([NewFlow(id="a", definition="d", input="{}", created_at=1.0, start_at=1.0)])
            lease = await store.acquire_lease(NewWorker(name="w", definitions=("d",)), 60)
            assert len((await store.claim(lease, ["d"], None, 1, 2.0)).flows) == 1
            journal = Journal(store, HeldLease(lease, 60, SYSTEM_CLOCK.monotonic()), lambda _: None, lambda *_: None)
            loop = asyncio.get_running_loop()
            tasks += [loop.create_task(journal.run()), loop.create_task(journal.run_callbacks())]
            with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:

                def log_more() -> None:
                    other.execute("BEGIN IMMEDIATE")
                    journal.append("a", 2, 3.0, b"2")

                journal.append("a", 1, 2.0, b"1")
                journal.when_durable("a", log_more)
                acted_on: list[int] = []
                for number in range(2 * CALLED_AT_ONCE):
                    journal.when_durable("a", acted_on.append, number)
                while len(acted_on) < 2 * CALLED_AT_ONCE:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
                drained = loop.create_task(journal.drained())
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not drained.done(), "the second line is still being written"
                other.execute("COMMIT")
            await drained
            assert [row.seq for row in (await store.read_events(["a"]))["a"]] == [1, 2]
        finally:
            for task in tasks:
                task.cancel()
            await store.close()

    asyncio.run(scenario())


@pytest.mark.promise("R6")
def test_a_row_of_the_retry_queue_is_written_though_its_flow_logs_nothing_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(str(tmp_path / "app.db"))
        await store.open()
        tasks: list[asyncio.Task[None]] = []
        row = RetryRow(
            flow_id="a",
            item=1,
            step="s",
            queue="default",
            status="waiting",
            attempt_number=1,
            max_retries=2,
            timeout_seconds=None,
            timeout_retry_limit=None,
            backoff_kind="constant",
            backoff_base_delay_ms=1000,
            retry_kind="exception",
            scheduled_at=9.0,
        )
        try:
            await store.add_flows([NewFlow(id="a", definition="d", input="{}", created_at=1.0, start_at=1.0)])
            lease = await store.acquire_lease(NewWorker(name="w", definitions=("d",)), 60)
            assert len((await store.claim(lease, ["d"], None, 1, 2.0)).flows) == 1
            journal = Journal(store, HeldLease(lease, 60, SYSTEM_CLOCK.monotonic()), lambda _: None, lambda *_: None)
            tasks.append(asyncio.get_running_loop().create_task(journal.run()))
            journal.put_retry(row)
            await journal.drained()
            assert await store.list_retries(RetryQuery()) == [row]
            journal.drop_retry("a", 1)
            await journal.drained()
            assert await store.list_retries(RetryQuery()) == []
        finally:
            for task in tasks:
                task.cancel()
            await store.close()

    asyncio.run(scenario())

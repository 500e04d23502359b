"""Flows with long logs are removed a few at a time: on SQLite others wait meanwhile, PostgreSQL must answer in time."""

import asyncio
from pathlib import Path

import pytest
from tests.stores.postgres_scene import fresh_schema, shared_database

from redrive.stores.interface import Store
from redrive.stores.leases import NewWorker
from redrive.stores.postgres.statements import MAX_EVENTS_PRUNED
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, EventRow, FlowChange, NewFlow
from redrive.stores.sqlite.connection import PAGE
from redrive.stores.sqlite.store import SqliteStore
from redrive.stores.sqlite.writes import MAX_PAGES_PRUNED

LONG = f'"{"x" * MAX_PAGES_PRUNED * PAGE}"'


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return SqliteStore(str(tmp_path / "app.db"))
    return PostgresStore(shared_database(), fresh_schema())


def test_a_transaction_has_enough_with_one_long_log(store: Store) -> None:
    async def scenario() -> list[int]:
        await store.open()
        try:
            ids = ["short", "long", "longer", "last"]
            new = [NewFlow(id=f, definition="workflow:Work", input="{}", created_at=1.0, start_at=1.0) for f in ids]
            await store.add_flows(new)
            lease = await store.acquire_lease(NewWorker(name="host:1", definitions=("workflow:Work",)), 60.0)
            await store.claim(lease, ["workflow:Work"], None, 10, 2.0)
            logs = [EventRow("short", 1, 1.0, "[]"), EventRow("last", 1, 1.0, "[]")]
            logs += [EventRow(flow_id, MAX_EVENTS_PRUNED, 1.0, LONG) for flow_id in ("long", "longer")]
            ends = [
                FlowChange(flow_id=flow_id, status="completed", wake_at=None, messages_read=0, finished_at=float(place))
                for place, flow_id in enumerate(ids)
            ]
            await store.commit(lease, Batch(number=1, events=logs, flows=ends))
            pruned = [await store.prune(10.0, 10) for _ in range(4)]
            assert not any((await store.read_events(ids)).values())
            return pruned
        finally:
            await store.close()

    assert asyncio.run(scenario()) == [2, 1, 1, 0]

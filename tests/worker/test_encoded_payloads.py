"""With a codec, whatever a flow works with can be read by nobody who has only the store; and nothing else changes."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import pytest

import redrive
from redrive import Workflow, action, current_attempt, workflow
from redrive.assembly import store_at
from redrive.codecs import AesGcm
from redrive.errors import Permanent, StoreUnusableError
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import DeadQuery, RetryQuery
from redrive.testing import FlowApp, crash_everywhere, flow_app

pytestmark = pytest.mark.promise("E10")

KEYS = [AesGcm.new_key(), AesGcm.new_key()]
SECRET = "Xanadu"
"""Stands in everything that a flow works with."""


@action(name="encoded.charge", timeout=60)
async def charge(card: str) -> str:
    attempt = current_attempt()
    told = attempt.last_details
    attempt.heartbeat(f"{SECRET}-beat" if told is None else f"{SECRET}-beat again")
    if told is None:
        raise ConnectionError(f"{SECRET}-error")
    if told == f"{SECRET}-beat":
        raise redrive.Snooze("1m", f"{SECRET}-snooze")
    return f"{told} for {card}"


@action(name="encoded.refuse")
async def refuse(card: str) -> None:
    raise Permanent(f"{SECRET}-refused {card}")


@workflow(name="encoded.Order")
class Order(Workflow):
    def __init__(self) -> None:
        self.told: list[str] = []

    @redrive.signal
    def tell(self, text: str) -> None:
        self.told.append(text)

    async def run(self, card: str, fails: bool) -> str:
        paid = await charge(card)
        await workflow.wait_for(lambda: bool(self.told))
        if fails:
            await refuse(card)
        return f"{paid}, {self.told[0]}"


async def a_life_of_secrets(app: FlowApp) -> Any:
    outcomes = []
    for fails in (False, True):
        handle = await app.start(Order.call(f"{SECRET}-card", fails))
        await handle.signal("tell", text=f"{SECRET}-signal")
        outcomes.append(await app.outcome(handle))
    good, bad = outcomes
    (letter,) = await app.dead_letters()
    (group,) = await app.store.group_dead_letters(DeadQuery())
    told = f"{letter.message} {letter.payload} {group.message}"
    return good.result, bad.status, told.count(SECRET), told.count("refused")


EXPECTED = (f"{SECRET}-beat again for {SECRET}-card, {SECRET}-signal", "failed", 5, 2)


async def lived(store: Any) -> None:
    async with flow_app(store) as app:
        assert await a_life_of_secrets(app) == EXPECTED
        # One that is in the middle of it: its rows are those of open work.
        with app.clock.frozen():
            handle = await app.start(Order.call(f"{SECRET}-card", False))
            await handle.signal("tell", text=f"{SECRET}-signal")
            await app.settled(handle)
            rows = await app.store.list_retries(RetryQuery())
            assert rows
        await app.start(Order.call(f"{SECRET}-card", False), delay="90d", key="later")


def sqlite_dump(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        rows = "\n".join(connection.iterdump())
    files = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    return rows.encode() + files


async def postgres_dump(url: str) -> bytes:
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'redrive'"
        )
        assert "events" in {table for (table,) in tables}
        rows = [await connection.fetch(f'SELECT t::text FROM redrive."{table}" AS t') for (table,) in tables]  # noqa: S608 - its own names
    finally:
        await connection.close()
    return "\n".join(text for table in rows for (text,) in table).encode()


@pytest.mark.parametrize("has_codec", [True, False], ids=["with a codec", "without"])
def test_no_payload_is_in_the_files_of_sqlite(tmp_path: Path, has_codec: bool) -> None:
    path = tmp_path / "app.db"
    asyncio.run(lived(store_at(f"sqlite:///{path}", AesGcm(KEYS) if has_codec else None)))
    dump = sqlite_dump(path)
    assert b"encoded.Order" in dump
    # Without a codec it is there: the search would find it.
    assert (SECRET.encode() in dump) != has_codec


def test_no_payload_is_in_any_row_of_postgres(fresh_url: str) -> None:
    asyncio.run(lived(store_at(fresh_url, AesGcm(KEYS))))
    dump = asyncio.run(postgres_dump(fresh_url))
    assert b"encoded.Order" in dump
    assert SECRET.encode() not in dump


@pytest.fixture
def fresh_url() -> str:
    from tests.postgres_server import shared_server

    url: str = shared_server().fresh_database()
    return url


def test_a_flow_survives_a_kill_at_every_commit_with_a_codec() -> None:
    runs = crash_everywhere(a_life_of_secrets, store=lambda: store_at("memory://", AesGcm(KEYS)))
    assert {run.outcome for run in runs} == {EXPECTED}
    assert sum(run.crashed for run in runs) > 20


# Keys that are missing


def stores_on(data: MemoryData) -> Callable[..., Any]:
    from redrive.assembly import encoded

    return lambda *keys: encoded(MemoryStore(data), AesGcm(keys) if keys else None)


async def start_one(store: Any) -> str:
    async with redrive.open(store, worker=False) as app:
        return (await app.start(Order.call(f"{SECRET}-card", False))).id


@pytest.mark.parametrize("keys", [(), (KEYS[1],)], ids=["no codec", "another key"])
def test_without_the_key_a_worker_refuses_to_start_and_nothing_is_written(keys: tuple[str, ...]) -> None:
    data = MemoryData()
    store = stores_on(data)
    flow_id = asyncio.run(start_one(store(KEYS[0])))

    async def try_it() -> None:
        async with redrive.open(store(*keys), worker=False) as app:
            for writing in (app.work(), app.start(charge("x")), app.handle(flow_id).signal("tell", text="x")):
                with pytest.raises(StoreUnusableError, match=f"encoded with key {AesGcm(KEYS).keys[0]}"):
                    await writing
            assert (await app.handle(flow_id).status()) == "ready"

    asyncio.run(try_it())
    assert len(data.flows) == 1
    assert not data.messages


@pytest.mark.parametrize("keys", [(), (KEYS[1],)], ids=["no codec", "another key"])
def test_a_worker_leaves_flows_whose_key_it_lacks_to_others(keys: tuple[str, ...]) -> None:
    data = MemoryData()
    store = stores_on(data)

    async def scenario() -> None:
        async with flow_app(store(*keys)) as app:
            # The worker runs already when another process begins to encode.
            assert (await app.outcome(await app.start(refuse("mine")))).status == "failed"
            flow_id = await start_one(store(*KEYS))
            app.clock.advance(20)
            await app.settled(app.handle(flow_id))
            assert data.flows[flow_id].status in ("waiting", "running", "ready")
            assert not data.events.get(flow_id)
            assert (await app.outcome(await app.start(refuse("another")))).status == "failed"

    asyncio.run(scenario())
    assert sorted(one.status for one in data.flows.values()).count("failed") == 2

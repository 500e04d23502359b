"""A flow started in the caller's own transaction exists if, and only if, that commits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine
from tests.stores.postgres_scene import PATIENCE, Scene, claimed, joined, new_flow, played

from redrive.client.caller_connections import transaction_of
from redrive.stores.caller_transaction import run_steps
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import FlowRecord, NewFlow

Add = Callable[[Sequence[NewFlow]], Awaitable[list[FlowRecord | None]]]
Execute = Callable[[str], Awaitable[Any]]
Transaction = Callable[[PostgresStore, str], AbstractAsyncContextManager[tuple[Add, Execute]]]
"""Inside is a transaction of the caller, which an exception rolls back."""


async def add_on(store: PostgresStore, connection: Any, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    return await run_steps(await store.steps_to_add(flows), (await transaction_of(connection)).fetch)


@asynccontextmanager
async def with_asyncpg(store: PostgresStore, url: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield lambda flows: add_on(store, connection, flows), connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def with_a_pool_of_asyncpg(store: PostgresStore, url: str) -> Any:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield lambda flows: add_on(store, connection, flows), connection.execute


@asynccontextmanager
async def with_async_psycopg(store: PostgresStore, url: str) -> Any:
    # Rows as dicts, which is the caller's own business.
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield lambda flows: add_on(store, connection, flows), connection.execute


@asynccontextmanager
async def with_sqlalchemy(store: PostgresStore, url: str) -> Any:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:

        async def execute(statement: str) -> None:
            connection.exec_driver_sql(statement)

        yield lambda flows: add_on(store, connection, flows), execute


@asynccontextmanager
async def with_sqlalchemy_and_psycopg2(store: PostgresStore, url: str) -> Any:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg2:"), poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:

        async def execute(statement: str) -> None:
            connection.exec_driver_sql(statement)

        yield lambda flows: add_on(store, connection, flows), execute


@asynccontextmanager
async def with_sqlalchemy_and_asyncpg(store: PostgresStore, url: str) -> Any:
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"), poolclass=sqlalchemy.NullPool)
    async with engine.begin() as connection:
        yield lambda flows: add_on(store, connection, flows), connection.exec_driver_sql


@asynccontextmanager
async def with_psycopg(store: PostgresStore, url: str) -> Any:
    with psycopg.connect(url) as connection:

        async def add(flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
            return await add_on(store, connection, flows)

        async def execute(statement: str) -> None:
            connection.execute(statement)

        yield add, execute


in_each_way = pytest.mark.parametrize(
    "transaction",
    [
        with_asyncpg,
        with_a_pool_of_asyncpg,
        with_async_psycopg,
        with_psycopg,
        with_sqlalchemy,
        with_sqlalchemy_and_psycopg2,
        with_sqlalchemy_and_asyncpg,
    ],
)


class Refused(Exception):
    """What the caller's own code may raise."""


@in_each_way
def test_the_flow_exists_only_if_the_transaction_commits(transaction: Transaction) -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        await (await scene.connection()).execute("CREATE TABLE orders (id text)")
        insert = f"INSERT INTO {scene.schema}.orders VALUES ('{{}}')"  # noqa: S608 - names of our own

        async def order_and_fail() -> None:
            async with transaction(store, scene.url) as (add, execute):
                await execute(insert.format("refused"))
                assert await add([new_flow("refused", key="k")]) == [None]
                raise Refused

        with pytest.raises(Refused):
            await order_and_fail()
        async with transaction(store, scene.url) as (add, execute):
            await execute(insert.format("kept"))
            assert await add([new_flow("kept", key="k", input='{"order": "ü 17"}')]) == [None]
            assert await store.find_flow("kept") is None
            assert await claimed(store, lease) == []
        (flow,) = await claimed(store, lease)
        assert (flow.id, flow.input, flow.claims) == ("kept", '{"order": "ü 17"}', 1)
        assert await (await scene.connection()).fetchval("SELECT string_agg(id, ',') FROM orders") == "kept"
        assert await store.find_flow("refused") is None

    played(play)


@in_each_way
def test_workers_are_woken_when_it_commits_and_not_before(transaction: Transaction) -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        woken = asyncio.Event()
        store.on_wake(woken.set)
        async with asyncio.timeout(PATIENCE):
            # Told once, when it has begun to listen.
            await woken.wait()
            woken.clear()
            async with transaction(store, scene.url) as (add, _):
                await add([new_flow("a")])
                # Told of something else, it would have been told of this.
                assert await (await scene.connection()).fetchval("SELECT count(*) FROM flows") == 0
                assert not woken.is_set()
            await woken.wait()

    played(play)


@in_each_way
def test_a_key_that_is_taken_answers_with_its_flow_and_spoils_nothing(transaction: Transaction) -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        await store.add_flows([new_flow("first", key="k", input="1")])
        async with transaction(store, scene.url) as (add, _):
            first, added, same = await add([new_flow("again", key="k"), new_flow("b", key="b"), new_flow("c", key="b")])
            assert (added, same and same.id) == (None, "b")
            assert await add([]) == []
        assert first == await store.find_flow("first")
        assert await store.find_flow("again") is None
        assert await store.find_flow("b") is not None

    played(play)


def test_who_comes_later_waits_for_the_transaction_that_has_the_key() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        for commits in (True, False):
            key = f"commits {commits}"
            try:
                async with with_asyncpg(store, scene.url) as (add, _):
                    await add([new_flow(f"mine {commits}", key=key)])
                    other = asyncio.create_task(store.add_flows([new_flow(f"other {commits}", key=key)]))
                    assert (await asyncio.wait([other], timeout=0.05))[0] == set()
                    if not commits:
                        raise Refused
            except Refused:
                pass
            async with asyncio.timeout(PATIENCE):
                (answer,) = await other
            assert (answer and answer.id) == ("mine True" if commits else None)

    played(play)


@pytest.mark.parametrize("transaction", [with_async_psycopg, with_psycopg])
def test_a_connection_that_gives_text_as_bytes_can_be_used(transaction: Transaction) -> None:
    """As psycopg does in a database whose encoding is SQL_ASCII."""

    async def play(scene: Scene) -> None:
        store = await scene.store()
        flow = new_flow("a", key="k", input='"€ 日本"')
        async with transaction(store, f"{scene.url}?client_encoding=SQL_ASCII") as (add, _):
            assert await add([flow]) == [None]
            (known,) = await add([new_flow("b", key="k")])
        assert known == await store.find_flow("a")

    played(play)


@in_each_way
@pytest.mark.parametrize("schema", ["50%s off", "cost$1", "a{b}", "it's\\n", 'q"q'])
@pytest.mark.parametrize("backslashes", ["plain", "escapes"])
def test_the_schema_may_have_any_name(transaction: Transaction, schema: str, backslashes: str) -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store(schema=f"{schema} {scene.schema}")
        async with transaction(store, scene.url) as (add, execute):
            if backslashes == "escapes":
                await execute("SET standard_conforming_strings TO off")
            assert await add([new_flow("a", key="k")]) == [None]
            (same,) = await add([new_flow("b", key="k")])
            assert same is not None
            assert same.id == "a"
        assert await store.find_flows(["a"])

    played(play)

"""How tests of the PostgreSQL store are played: stores and connections that are closed however the test ends."""

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
from tests.postgres_server import shared_server
from tests.stores.postgres_proxy import Proxy

from redrive.stores.leases import Lease, NewWorker
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import FlowRecord, NewFlow

NOW = 1_700_000_000.0
PATIENCE = 20.0
WORK = "action:work"
_SCHEMAS = (f"schema_{number}" for number in itertools.count(1))


@functools.cache
def shared_database() -> str:
    """Tests share it, and each has a schema of its own: that is made faster than a database."""
    return shared_server().fresh_database()


def fresh_schema() -> str:
    return next(_SCHEMAS)


class Scene:
    def __init__(self, url: str, schema: str, closing: AsyncExitStack) -> None:
        self.url = url
        self.schema = schema
        self._closing = closing

    async def store(self, through: Proxy | None = None, **other: str) -> PostgresStore:
        """One more store on the data of this test, or with another `url` or `schema`."""
        url = through.url(self.url) if through else self.url
        store = PostgresStore(**{"url": url, "schema": self.schema, **other})
        self._closing.push_async_callback(store.close)
        await store.open()
        return store

    async def connection(self, connecting: Awaitable[Any] | None = None) -> Any:
        """A connection past the store."""
        settings = {"search_path": self.schema, "timezone": "UTC"}
        connection = await (connecting or asyncpg.connect(self.url, server_settings=settings))
        self._closing.callback(connection.terminate)
        return connection

    async def proxy(self) -> Proxy:
        return await self._closing.enter_async_context(Proxy(shared_server()))


def played(play: Callable[[Scene], Awaitable[None]], url: str | None = None) -> None:
    async def with_scene() -> None:
        async with AsyncExitStack() as closing:
            await play(Scene(url or shared_database(), fresh_schema(), closing))

    asyncio.run(with_scene())


async def until(met: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again until the answer is true; that is the answer."""
    async with asyncio.timeout(PATIENCE):
        while not (answer := await met()):  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)
        return answer


async def joined(store: PostgresStore, ttl: float = 60.0) -> Lease:
    return await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK,)), ttl)


async def claimed(store: PostgresStore, lease: Lease, limit: int = 100, now: float = NOW) -> list[FlowRecord]:
    return (await store.claim(lease, [WORK], None, limit, now)).flows


def new_flow(flow_id: str, start_at: float = NOW, queue: str = "default", **fields: Any) -> NewFlow:
    flow = {"id": flow_id, "definition": WORK, "input": "{}", "created_at": NOW, "start_at": start_at, "queue": queue}
    return NewFlow(**{**flow, **fields})

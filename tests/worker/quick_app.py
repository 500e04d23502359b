"""An app that polls often, and waiting for what happens in its store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import redrive
from redrive.client.app import App


@asynccontextmanager
async def opened(address: str, **settings: Any) -> AsyncIterator[App]:
    async with redrive.open(address, **{"poll": 0.2, **settings}) as app:
        yield app


async def eventually(condition: Callable[[], Awaitable[object]], patience: float = 10.0) -> None:
    async with asyncio.timeout(patience):
        while not await condition():  # noqa: ASYNC110 - the condition is in a store
            await asyncio.sleep(0.01)

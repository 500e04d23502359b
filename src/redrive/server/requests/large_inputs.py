"""Start flows with large inputs one at a time, so that small ones need not wait for all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redrive.flows.values.json_limits import LARGE_JSON

AT_ONCE = 1


class LargeInputs:
    def __init__(self) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)
        self.waiting = 0
        """Large inputs that wait for their turn."""

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Decode and start an input of this many bytes inside the block. A large one waits for earlier large ones."""
        if size < LARGE_JSON:
            yield
            return
        self.waiting += 1
        try:
            await self._room.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._room.release()

"""Hears NOTIFY on a connection of its own, for as long as somebody wants to be woken."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from redrive.determinism.dice import current_dice
from redrive.errors import StoreError
from redrive.stores.postgres.connections import Server, close_quietly
from redrive.stores.postgres.faults import CLOSED_BETWEEN, DRIVER_FAULTS

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between attempts to connect again."""
SIGN_OF_LIFE_EVERY = 30.0
"""A connection that is dead without having said so is found out after as many seconds."""


class Listening:
    """Calls back when something is told on the channel, and when it may have missed something."""

    def __init__(self, server: Server, channel: str) -> None:
        self._server = server
        self._channel = channel
        self._wakes: dict[object, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._open = False

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        listener = object()
        self._wakes[listener] = wake
        self._begin()

        def end() -> None:
            self._wakes.pop(listener, None)

        return end

    def open(self) -> None:
        self._open = True
        self._begin()

    async def close(self) -> None:
        self._open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def _begin(self) -> None:
        if self._open and self._wakes and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen(), name="redrive-listening")

    async def _listen(self) -> None:
        pause, dice = SHORTEST_PAUSE, current_dice()
        while True:
            with contextlib.suppress(StoreError, CLOSED_BETWEEN, *DRIVER_FAULTS):
                connection = await self._server.connect()
                try:
                    lost = await self._begin_to_hear(connection)
                    # Not before: a standby lets us in, and then refuses.
                    pause = SHORTEST_PAUSE
                    await _until_lost(connection, lost)
                finally:
                    await close_quietly(connection)
            await _happened(asyncio.Event(), pause * (0.5 + dice() / 2))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _begin_to_hear(self, connection: Any) -> asyncio.Event:
        """Returns what happens when the connection is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _connection: lost.set())
        await connection.add_listener(self._channel, lambda *_told: self._wake())
        # Whatever was told before is not heard any more.
        self._wake()
        return lost

    def _wake(self) -> None:
        for wake in tuple(self._wakes.values()):
            wake()


async def _until_lost(connection: Any, lost: asyncio.Event) -> None:
    """Returns, or fails, when the connection is lost."""
    while not lost.is_set():
        if not await _happened(lost, SIGN_OF_LIFE_EVERY):
            await connection.fetchval("SELECT 1", timeout=5.0)


async def _happened(event: asyncio.Event, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False

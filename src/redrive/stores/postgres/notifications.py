"""Listens for NOTIFY on a connection of its own, as long as there are listeners."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from redrive.determinism.dice import current_dice
from redrive.errors import StoreError
from redrive.stores.postgres.faults import CLOSED_MIDWAY, DRIVER_FAULTS
from redrive.stores.postgres.server import Server, close_quietly
from redrive.stores.wake_listeners import WakeListeners

MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY = 0.05, 5.0
KEEPALIVE_INTERVAL = 30.0
"""How often the connection is probed, in seconds, to find out that it has died silently."""


class NotificationListener:
    """Calls its listeners on each notification, and whenever notifications may have been missed."""

    def __init__(self, server: Server, channel: str) -> None:
        self._server = server
        self._channel = channel
        self._listeners = WakeListeners()
        self._task: asyncio.Task[None] | None = None
        self._open = False

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        remove = self._listeners.add(wake)
        self._start()
        return remove

    def open(self) -> None:
        self._open = True
        self._start()

    async def close(self) -> None:
        self._open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def _start(self) -> None:
        if self._open and self._listeners and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="redrive-notifications")

    async def _run(self) -> None:
        delay, dice = MIN_RECONNECT_DELAY, current_dice()
        while True:
            with contextlib.suppress(StoreError, CLOSED_MIDWAY, *DRIVER_FAULTS):
                connection = await self._server.connect()
                try:
                    lost = await self._listen(connection)
                    # Only now: a standby accepts the connection and then refuses to listen.
                    delay = MIN_RECONNECT_DELAY
                    await _until_lost(connection, lost)
                finally:
                    await close_quietly(connection)
            await _is_set_within(asyncio.Event(), delay * (0.5 + dice() / 2))
            delay = min(delay * 2, MAX_RECONNECT_DELAY)

    async def _listen(self, connection: Any) -> asyncio.Event:
        """Start to listen; return an event that is set when the connection is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _connection: lost.set())
        await connection.add_listener(self._channel, lambda *_notification: self._listeners.notify())
        # Earlier notifications were missed.
        self._listeners.notify()
        return lost


async def _until_lost(connection: Any, lost: asyncio.Event) -> None:
    """Return, or raise, when the connection is lost."""
    while not lost.is_set():
        if not await _is_set_within(lost, KEEPALIVE_INTERVAL):
            await connection.fetchval("SELECT 1", timeout=5.0)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False

"""Listens for NOTIFY, and tells which flows have ended, on a connection of its own, as long as there are listeners."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redrive.determinism.dice import current_dice
from redrive.errors import StoreError
from redrive.stores.interface import EndListener
from redrive.stores.postgres.faults import CLOSED_MIDWAY, DRIVER_FAULTS
from redrive.stores.postgres.server import NO_FLUSH, Server, close_quietly
from redrive.stores.wake_listeners import WakeListeners

MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY = 0.05, 5.0
KEEPALIVE_INTERVAL = 30.0
"""How often the connection is probed, in seconds, to find out that it has died silently."""
QUIET_FOR = 0.02
"""Seconds until the next announcement after one that nobody listened to; whoever begins to listen looks first."""
MOST_UNTOLD = 10_000
"""How many ended flows wait for a connection to be announced on; those who wait for further ones poll."""
LARGEST_PAYLOAD = 7_900
"""PostgreSQL allows 8000 bytes."""

# Whoever listens for ends holds a shared lock, so that workers know whether anyone does: each notification wakes every
# session that listens to anything. The first number keeps the lock apart from those of other programs.
_LOCK = "1382311524, hashtext($1)"
SHOW_THAT_SOMEONE_LISTENS = f"SELECT pg_advisory_lock_shared({_LOCK})"
ANNOUNCE = f"""
SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload WHERE NOT pg_try_advisory_xact_lock({_LOCK})
"""  # noqa: S608 - our own words

_TOLD_NOBODY = "SELECT 0"


class NotificationListener:
    """Calls its listeners on each notification, and whenever notifications may have been missed."""

    def __init__(self, server: Server, wake_channel: str, end_channel: str) -> None:
        self._server = server
        self._wake_channel = wake_channel
        self._end_channel = end_channel
        self._wakes, self._ends = WakeListeners(), WakeListeners()
        self._ended: list[str] = []
        """The flows whose end is still to be told to others."""
        self._task: asyncio.Task[None] | None = None
        self._open = False
        self._stirred = asyncio.Event()
        """Set when the connection is lost, or is needed."""

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        remove = self._wakes.add(wake)
        self._start()
        return remove

    def on_ended(self, ended: EndListener) -> Callable[[], None]:
        remove = self._ends.add(ended)
        self._start()
        # Once it listens for ends, the connection keeps doing so: the next listener comes soon.
        self._stirred.set()
        return remove

    def announce(self, flow_ids: Sequence[str]) -> None:
        """Tell others, once connected, that these flows have ended; those announced at the same time go together."""
        if self._task is not None and len(self._ended) < MOST_UNTOLD:
            self._ended += flow_ids
            self._stirred.set()

    def open(self) -> None:
        self._open = True
        self._start()

    async def close(self) -> None:
        self._open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            self._ended.clear()

    def _start(self) -> None:
        if self._open and (self._wakes or self._ends) and self._task is None:
            # A new one: a store may be opened again in another event loop.
            self._stirred = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="redrive-notifications")

    async def _run(self) -> None:
        delay, dice = MIN_RECONNECT_DELAY, current_dice()
        while True:
            with contextlib.suppress(StoreError, CLOSED_MIDWAY, *DRIVER_FAULTS):
                connection = await self._server.connect(NO_FLUSH)
                try:
                    lost = await self._listen(connection)
                    # Only now: a standby accepts the connection and then refuses to listen.
                    delay = MIN_RECONNECT_DELAY
                    await self._serve(connection, lost)
                finally:
                    await close_quietly(connection)
            await _is_set_within(asyncio.Event(), delay * (0.5 + dice() / 2))
            delay = min(delay * 2, MAX_RECONNECT_DELAY)

    async def _listen(self, connection: Any) -> asyncio.Event:
        """Start to listen; return an event that is set when the connection is lost."""
        lost = asyncio.Event()

        def terminated(_connection: Any) -> None:
            lost.set()
            self._stirred.set()

        connection.add_termination_listener(terminated)
        await connection.add_listener(self._wake_channel, lambda *_notification: self._wakes.notify())
        # Earlier notifications were missed.
        self._wakes.notify()
        return lost

    async def _serve(self, connection: Any, lost: asyncio.Event) -> None:
        """Announce ends until the connection is lost; return, or raise, then."""
        hears_ends = False
        while not lost.is_set():
            self._stirred.clear()
            if self._ends and not hears_ends:
                await connection.add_listener(self._end_channel, self._heard_of_ends)
                await connection.execute(SHOW_THAT_SOMEONE_LISTENS, self._end_channel)
                hears_ends = True
                self._ends.notify(None)
            if self._ended:
                ended, self._ended = self._ended, []
                try:
                    done = await connection.execute(ANNOUNCE, self._end_channel, list(_payloads(ended)))
                except BaseException:
                    # The next connection tells them.
                    self._ended[:0] = ended
                    raise
                if done == _TOLD_NOBODY:
                    await _is_set_within(lost, QUIET_FOR)
            elif not await _is_set_within(self._stirred, KEEPALIVE_INTERVAL):
                await connection.fetchval("SELECT 1", timeout=5.0)

    def _heard_of_ends(self, _connection: Any, _session: int, _channel: str, payload: str) -> None:
        self._ends.notify(payload.split(" "))


def _payloads(flow_ids: Sequence[str]) -> Iterator[str]:
    """Yield the ids in as few texts as there must be."""
    text = ""
    for flow_id in flow_ids:
        if text and len(text.encode()) + len(flow_id.encode()) >= LARGEST_PAYLOAD:
            yield text
            text = ""
        text = f"{text} {flow_id}" if text else flow_id
    yield text


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False

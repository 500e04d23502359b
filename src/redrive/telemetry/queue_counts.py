"""How many flows the open stores of this process have, for metrics that are collected in other threads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

FRESH = 1.0
"""Seconds for which what was read counts as new."""
MOST_SEEN = 1000
"""With so many queues and statuses, no new ones are kept after their flows are gone."""
Counts = Mapping[tuple[str, str], int]
"""Queue and status -> how many flows."""


class QueueCounts:
    """The counts of one store. They are read only when someone asks for them."""

    def __init__(self, read: Callable[[], Awaitable[Counts]]) -> None:
        self._read = read
        self.loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None
        self._asked: asyncio.Task[None] | None = None
        self._read_at = -FRESH
        self.latest: Counts = {}
        self._seen: dict[tuple[str, str], int] = {}
        """All that was ever counted, with 0: an alert on a series that vanished would never end."""

    async def refresh(self) -> None:
        """Read them now; those who ask at the same time share one look."""
        if self._reading is None or self._reading.done():
            self._reading = self.loop.create_task(self._update())
        await asyncio.shield(self._reading)

    def ask(self) -> None:
        """Have them read soon. From any thread: what is collected there is what the last look found."""
        try:
            self.loop.call_soon_threadsafe(self._refresh_if_old)
        except RuntimeError:
            # The loop was closed, and the app was not.
            _open.pop(self, None)

    def _refresh_if_old(self) -> None:
        if self.loop.time() - self._read_at >= FRESH:
            self._asked = self.loop.create_task(self.refresh())

    async def _update(self) -> None:
        try:
            counted = await self._read()
            if len(self._seen) < MOST_SEEN:
                self._seen |= dict.fromkeys(counted, 0)
            self.latest = {**self._seen, **counted}
        except Exception:  # noqa: BLE001 - a store that does not answer has no counts
            self.latest = {}
        self._read_at = self.loop.time()


_open: dict[QueueCounts, None] = {}


def register(counts: QueueCounts) -> Callable[[], None]:
    """Include these counts in the metrics. Returns a function that stops it."""
    _open[counts] = None

    def stop() -> None:
        _open.pop(counts, None)

    return stop


def latest_counts() -> dict[tuple[str, str], int]:
    """What is known now; asks for newer ones."""
    known: dict[tuple[str, str], int] = {}
    for counts in list(_open):
        known.update(counts.latest)
        counts.ask()
    return known


async def refresh_counts() -> None:
    """Read those of this event loop now, and those of others soon."""
    loop = asyncio.get_running_loop()
    for counts in list(_open):
        if counts.loop is loop:
            await counts.refresh()
        else:
            counts.ask()

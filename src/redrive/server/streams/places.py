"""Limit the event streams that are open, in total and for each caller, and end them when the server stops."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from redrive.server.contract.problems import ProblemError
from redrive.server.settings import ServerSettings


class StreamPlaces:
    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._open: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    @property
    def are_closing(self) -> bool:
        """Whether the server stops, so that streams end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        self._stopping.set()

    def check(self, client: str) -> None:
        """Raise a ProblemError if this API key or address may open no stream now."""
        if self._open[client] >= self._settings.streams_per_caller:
            detail = f"you have {self._open[client]} event streams open, and may have no more; close some of them"
            raise ProblemError(503, detail, headers={"Retry-After": "5"})
        if self._open.total() >= self._settings.streams or self.are_closing:
            raise ProblemError(503, "too many event streams are open; try again later", headers={"Retry-After": "5"})

    @contextlib.contextmanager
    def hold(self, client: str) -> Iterator[None]:
        """Count a stream of this API key or address while it is open."""
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                # Otherwise one entry would be left for every address that ever read a stream.
                del self._open[client]

    async def pause(self, seconds: float, *also: asyncio.Event) -> None:
        """Return after so many seconds, or sooner if the server stops or one of the events is set."""
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(event.wait()) for event in (self._stopping, *also)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

"""Stream a flow's events as server-sent events, from any line on, until the flow has ended."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from redrive.client.app import App
from redrive.determinism.clock import current_clock
from redrive.errors import StoreUnavailableError
from redrive.explain.log_line import LogLine, public_lines
from redrive.flows.events import ENDINGS
from redrive.server.api_keys import ApiKeys, Caller
from redrive.server.problems import ProblemError
from redrive.server.settings import ServerSettings
from redrive.stores.records import FINISHED
from redrive.worker.event_rows import lines_of

PAGE_SIZE = 100


async def events_after(app: App, flow_id: str, after: int, limit: int) -> list[LogLine]:
    """Return the lines of a flow's log that follow line `after`: at least `limit` of them, if there are as many."""
    rows = await app.store.read_events_after(flow_id, after, limit)
    # The first row may begin with lines that precede it.
    return [line for line in public_lines(lines_of(rows)) if line.seq > after]


class EventStreams:
    """The open event streams; they end when the server stops."""

    def __init__(self, settings: ServerSettings, keys: ApiKeys) -> None:
        self._settings = settings
        self._keys = keys
        self._open = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def begin(self, app: App, flow_id: str, after: int, caller: Caller) -> AsyncIterator[bytes]:
        """Return the stream of the flow's events after line `after`; ProblemError if too many streams are open."""
        if self._open >= self._settings.streams or self._stopping.is_set():
            raise ProblemError(503, "too many event streams are open; try again later", headers={"Retry-After": "5"})
        stream = self._stream(app, flow_id, after, caller)
        # Once begun, the generator runs its `finally` however the stream ends.
        await anext(stream)
        return stream

    async def _stream(self, app: App, flow_id: str, after: int, caller: Caller) -> AsyncIterator[bytes]:
        clock = current_clock()
        self._open += 1
        try:
            yield b""
            yield b": the log of the flow, line by line\n\n"
            last_sent = clock.monotonic()
            may_have_ended = True
            while not self._stopping.is_set():
                with contextlib.suppress(StoreUnavailableError):
                    if not await self._keys.still_valid(caller):
                        return
                    events = await events_after(app, flow_id, after, PAGE_SIZE)
                    for event in events:
                        # Encoded JSON has no line breaks, so it is one line of data.
                        yield b"id: %d\ndata: %s\n\n" % (event.seq, msgspec.json.encode(event))
                        after, last_sent = event.seq, clock.monotonic()
                        may_have_ended = may_have_ended or isinstance(event.event, ENDINGS)
                    if events:
                        continue
                    # The last event and the status are committed together, but a redrive may have followed.
                    if may_have_ended and (status := await _final_status(app, flow_id)):
                        if await events_after(app, flow_id, after, 1):
                            # The flow ended between the two reads.
                            continue
                        yield b'event: end\ndata: {"status":"%s"}\n\n' % status.encode()
                        return
                    may_have_ended = False
                if clock.monotonic() - last_sent >= self._settings.heartbeat:
                    yield b": heartbeat\n\n"
                    last_sent, may_have_ended = clock.monotonic(), True
                await self._pause()
        finally:
            self._open -= 1

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.create_task(self._stopping.wait())
        try:
            await asyncio.wait([timer], timeout=self._settings.poll)
        finally:
            timer.cancel()


async def _final_status(app: App, flow_id: str) -> str:
    """Return the status of a flow that has ended, else an empty string."""
    record = await app.store.find_flow(flow_id)
    if record is None:
        return "gone"
    return record.status if record.status in FINISHED else ""

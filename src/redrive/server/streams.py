"""A flow's events as they happen: server-sent events, from any line on, until the flow has ended."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from redrive.client.app import App
from redrive.determinism.clock import current_clock
from redrive.errors import StoreUnavailableError
from redrive.flows.events import ENDINGS
from redrive.server.keys import Caller, KeyRing
from redrive.server.problems import Refused
from redrive.server.settings import ServerSettings
from redrive.stores.records import FINISHED, EventRow

A_PAGE = 100
_DECODER = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | dict[str, msgspec.Raw])
_ENDINGS = {msgspec.json.encode(one.__struct_config__.tag) for one in ENDINGS}


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a flow's log."""

    seq: int
    """Counts the lines of the flow, from 1."""
    at: float
    """Seconds since 1970."""
    event: dict[str, msgspec.Raw]
    """What happened: `type` says what, the rest depends on it."""

    @property
    def is_ending(self) -> bool:
        return bytes(self.event["type"]) in _ENDINGS


async def events_after(app: App, flow_id: str, after: int, limit: int) -> list[EventView]:
    """The next lines of a flow's log: at least `limit` of them, if there are as many."""
    rows = await app.store.read_events_after(flow_id, after, limit)
    # The first row may begin with lines that are known already.
    return [view for row in rows for view in _views(row) if view.seq > after]


def _views(row: EventRow) -> list[EventView]:
    body = _DECODER.decode(row.body)
    events = body if isinstance(body, list) else [body]
    for event in events:
        # Whoever has the token of an attempt may say how it ended. To look is not enough for that.
        event.pop("delivery", None)
    first = row.seq - len(events) + 1
    return [EventView(seq=seq, at=row.at, event=event) for seq, event in enumerate(events, start=first)]


class Streams:
    """Those that are open. When the server stops, so do they."""

    def __init__(self, settings: ServerSettings, keys: KeyRing) -> None:
        self._settings = settings
        self._keys = keys
        self._open = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def begin(self, app: App, flow_id: str, after: int, caller: Caller) -> AsyncIterator[bytes]:
        """The events of the flow behind `after`; Refused when too many streams are open."""
        if self._open >= self._settings.streams or self._stopping.is_set():
            raise Refused(503, "too many event streams are open; try again later", headers={"Retry-After": "5"})
        stream = self._stream(app, flow_id, after, caller)
        # Once it has begun it is counted off however it goes, even when nobody reads on.
        await anext(stream)
        return stream

    async def _stream(self, app: App, flow_id: str, after: int, caller: Caller) -> AsyncIterator[bytes]:
        clock = current_clock()
        self._open += 1
        try:
            yield b""
            yield b": the log of the flow, line by line\n\n"
            spoken = clock.monotonic()
            may_have_ended = True
            while not self._stopping.is_set():
                with contextlib.suppress(StoreUnavailableError):
                    if not await self._keys.lets_in(caller):
                        return
                    events = await events_after(app, flow_id, after, A_PAGE)
                    for event in events:
                        # JSON has no line breaks of its own, so that it is one line of data.
                        yield b"id: %d\ndata: %s\n\n" % (event.seq, msgspec.json.encode(event))
                        after, spoken = event.seq, clock.monotonic()
                        may_have_ended = may_have_ended or event.is_ending
                    if events:
                        continue
                    # A flow and its last event end in one commit; one that was redriven has not ended.
                    if may_have_ended and (status := await _ending(app, flow_id)):
                        if await events_after(app, flow_id, after, 1):
                            # It ended between the two looks.
                            continue
                        yield b'event: end\ndata: {"status":"%s"}\n\n' % status.encode()
                        return
                    may_have_ended = False
                if clock.monotonic() - spoken >= self._settings.heartbeat:
                    yield b": still here\n\n"
                    spoken, may_have_ended = clock.monotonic(), True
                await self._nap()
        finally:
            self._open -= 1

    async def _nap(self) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.create_task(self._stopping.wait())
        try:
            await asyncio.wait([timer], timeout=self._settings.poll)
        finally:
            timer.cancel()


async def _ending(app: App, flow_id: str) -> str:
    """How the flow has ended; empty when it has not."""
    record = await app.store.find_flow(flow_id)
    if record is None:
        return "gone"
    return record.status if record.status in FINISHED else ""
